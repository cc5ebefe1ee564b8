"""Which tokens are in use, and which are taken no more."""

import asyncio

import pytest
from fakes.peers import UplinkPeer
from fakes.served import serving

from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams
from bridge.token_register import id_of


@pytest.fixture
async def relay(redis_url):
    async with serving(redis_url) as served:
        yield served


@pytest.mark.parametrize("text", ["a.b.c", "ü.ü.ü", "e30.e30.e30", "a.W10.c", "..", "a b", "a/b"])
def test_what_is_no_token_and_no_id_is_refused(text):
    with pytest.raises(InvalidParams):
        id_of(text)


async def listed(client):
    return (await client.get("/api/tokens")).json()["tokens"]


async def test_a_token_is_listed_once_it_was_used(relay):
    relay.token(subject="unused")
    async with relay.client(Role.ADMIN) as admin:
        (own,) = await listed(admin)
    assert (own["kind"], own["subject"], own["role"], own["bound"]) == (
        "person",
        "alice",
        "admin",
        False,
    )
    assert "revokedAt" not in own
    assert own["madeAt"] <= own["lastUsed"] < own["expiresAt"]


async def test_only_an_admin_sees_the_tokens_of_others(relay):
    async with (
        relay.client(Role.ADMIN) as admin,
        relay.client(Role.VIEWER, tenant="globex") as foreign,
    ):
        token = relay.token(Role.VIEWER, subject="bob")
        async with relay.client(None, Authorization=f"Bearer {token}") as bob:
            assert [one["subject"] for one in await listed(bob)] == ["bob"]
            alices = next(o["id"] for o in await listed(admin) if o["subject"] == "alice")
            for other in (bob, foreign):
                answer = await other.delete(f"/api/tokens/{alices}")
                unknown = await other.delete("/api/tokens/unknown-id")
                assert answer.status_code == unknown.status_code == 404
                assert answer.text.replace(alices, "") == unknown.text.replace("unknown-id", "")
        assert {one["subject"] for one in await listed(admin)} == {"alice", "bob"}


async def test_a_revoked_connector_is_told_why_and_is_shown_so(relay):
    async with UplinkPeer(relay) as connector, relay.client(Role.ADMIN) as admin:
        await connector.hello("s1")
        id_ = next(one["id"] for one in await listed(admin) if one["kind"] == "agent")
        assert (await admin.delete(f"/api/tokens/{id_}")).status_code == 204
        assert await connector.closed() == 4401
        async with asyncio.timeout(20):
            while (await shown(admin))["reason"] != "token_revoked":  # noqa: ASYNC110 (the store)
                await asyncio.sleep(0.01)
        found = (await admin.get("/api/audit", params={"event": "token_revoked"})).json()
    assert [one["subject"] for one in found["records"]] == ["box"]


async def shown(admin):
    return (await admin.get("/api/agents")).json()["agents"][0]["attachment"]


async def test_what_was_revoked_before_a_relay_started_is_not_taken(relay, redis_url):
    token = relay.token(subject="bob")
    await relay.relay.token_register.revoke_by_id(id_of(token))
    async with serving(redis_url, state_dir=relay.settings.state_dir) as second:
        await second.relay.token_register.look()
        async with second.client(None, Authorization=f"Bearer {token}") as bob:
            answer = await bob.get("/api/me")
    assert answer.status_code == 401
    assert answer.json()["error"]["reason"] == "token_revoked"


@pytest.mark.parametrize("text", ["a.b.c", "..", "x y", "é"])
def test_what_is_no_token_and_no_id_is_said_so(text):
    with pytest.raises(InvalidParams):
        id_of(text)
