"""Refresh tokens: each once, the next for the last, and the end of all when one comes again."""

import pytest
from fakes.prover import Prover
from fakes.served import serving

from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams


@pytest.fixture
async def relay(redis_url):
    async with serving(redis_url) as served:
        yield served


async def begin(relay, kind="person", role=Role.OPERATOR):
    return await relay.relay.families.make(kind, "ci", "acme", role)


async def refresh(relay, token, request="", **headers):
    async with relay.client(None, **headers) as client:
        body = {"refreshToken": token, "requestId": request}
        return await client.post("/api/tokens/refresh", json=body)


async def me(relay, token):
    async with relay.client(None, Authorization=f"Bearer {token}") as client:
        return await client.get("/api/me")


async def test_a_refresh_token_gives_a_token_and_the_next_one(relay):
    grant = await begin(relay)
    for _ in range(3):
        answer = (await refresh(relay, grant.refresh_token)).json()
        assert (await me(relay, answer["token"])).json()["role"] == "operator"
        assert answer["refreshToken"] != grant.refresh_token
        assert answer["expiresIn"] == 900
        grant = type(grant)(answer["token"], answer["refreshToken"], 900)


async def test_the_same_request_may_be_repeated_when_its_answer_was_lost(relay):
    grant = await begin(relay)
    first = (await refresh(relay, grant.refresh_token, "r-1")).json()
    again = (await refresh(relay, grant.refresh_token, "r-1")).json()
    assert again["refreshToken"] == first["refreshToken"]
    assert (await refresh(relay, again["refreshToken"], "r-2")).status_code == 200


async def test_a_refresh_token_that_comes_again_ends_the_sign_in(relay):
    grant = await begin(relay)
    fresh = (await refresh(relay, grant.refresh_token)).json()
    replayed = await refresh(relay, grant.refresh_token)
    assert replayed.status_code == 401
    assert "used before" in replayed.json()["error"]["message"]
    assert (await me(relay, fresh["token"])).status_code == 401
    assert (await refresh(relay, fresh["refreshToken"])).status_code == 401


@pytest.mark.parametrize("part", range(5))
async def test_what_we_did_not_sign_ends_nothing(relay, part):
    grant = await begin(relay)
    parts = grant.refresh_token.split(".")
    parts[part] = {2: "7", 3: "99"}.get(part, parts[part][::-1] + "x")
    assert (await refresh(relay, ".".join(parts))).status_code == 401
    assert (await refresh(relay, grant.refresh_token)).status_code == 200


async def test_a_sign_in_that_is_revoked_is_refreshed_no_more(relay):
    grant = await begin(relay)
    await me(relay, grant.token)
    async with relay.client(Role.ADMIN) as admin:
        listed = (await admin.get("/api/tokens")).json()["tokens"]
        id_ = next(one["id"] for one in listed if one["subject"] == "ci")
        assert (await admin.delete(f"/api/tokens/{id_}")).status_code == 204
    assert (await refresh(relay, grant.refresh_token)).status_code == 401


async def test_a_sign_in_that_a_machine_bound_is_refreshed_with_its_key_alone(relay):
    grant, machine, url = await begin(relay, "agent"), Prover(), f"{relay.url}/api/tokens/refresh"

    def proof(prover):
        return {"DPoP": prover.prove(url, "", htm="POST")}

    first = await refresh(relay, grant.refresh_token, **proof(machine))
    text = first.json()["refreshToken"]
    assert (await refresh(relay, text)).status_code == 401
    assert (await refresh(relay, text, **proof(Prover()))).status_code == 401
    assert (await refresh(relay, text, **proof(machine))).status_code == 200


async def test_the_audit_says_what_became_of_a_sign_in(relay):
    grant = await begin(relay)
    await refresh(relay, grant.refresh_token)
    await refresh(relay, grant.refresh_token)
    async with relay.client(Role.ADMIN) as admin:
        found = (await admin.get("/api/audit")).json()["records"]
    events = [one["event"] for one in found]
    assert events == ["token_reused", "token_refreshed", "token_made"]


async def test_nobody_without_a_name_is_signed_in(relay):
    with pytest.raises(InvalidParams):
        await relay.relay.families.make("person", "", "acme", Role.VIEWER)
