"""Tokens that were stolen, copied, or revoked."""

import asyncio
import time

import pytest
from fakes.prover import Prover
from fakes.served import serving
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bridge.protocol.acp import Role
from bridge.protocol.uplink import SUBPROTOCOL


@pytest.fixture
async def relay(redis_url):
    async with serving(redis_url) as served:
        yield served


async def attach(relay, token, proof=None) -> int:
    """Try to attach as a connector; gives the HTTP status."""
    headers = {"Authorization": f"Bearer {token}", **({"DPoP": proof} if proof else {})}
    try:
        async with connect(
            f"ws://127.0.0.1:{relay.port}/uplink",
            subprotocols=[SUBPROTOCOL],
            additional_headers=headers,
        ):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


@pytest.mark.attack("S11", "a copied agent token without its key, a replayed proof, another URL's")
async def test_a_copied_token_is_useless_without_the_machines_key(relay, figure, attack_length):
    times = attack_length(10, 100)
    url = f"http://127.0.0.1:{relay.port}/uplink"
    token = relay.token(kind="agent", subject="box")
    machine, thief = Prover(), Prover()
    seen = [machine.prove(url, token) for _ in range(times)]
    assert [await attach(relay, token, proof) for proof in seen] == [101] * times
    other_token = relay.token(kind="agent", subject="box")
    accepted = {
        "without the key": [await attach(relay, token) for _ in range(times)],
        "with another key": [await attach(relay, token, thief.prove(url, token)) for _ in seen],
        "replayed": [await attach(relay, token, proof) for proof in seen],
        "for another address": [
            await attach(relay, token, machine.prove(f"https://evil.example/{n}/uplink", token))
            for n in range(times)
        ],
        "for another token": [
            await attach(relay, token, machine.prove(url, other_token)) for _ in seen
        ],
        "of another time": [
            await attach(relay, token, machine.prove(url, token, iat=int(time.time()) - 600))
            for _ in seen
        ],
    }
    counts = {how: codes.count(101) for how, codes in accepted.items()}
    figure(f"S11: accepted {sum(counts.values())} of {6 * times} ({', '.join(counts)})")
    assert {code for codes in accepted.values() for code in codes} == {401}
    assert await attach(relay, token, machine.prove(url, token)) == 101


@pytest.mark.attack("S12", "a token is revoked while it is in use at another relay process")
async def test_a_revoked_token_ends_at_another_relay_within_a_second(
    redis_url, relay, figure, attack_length
):
    times, ends = attack_length(10, 200), []
    async with (
        serving(redis_url, state_dir=relay.settings.state_dir) as second,
        relay.client() as admin,
    ):
        for n in range(times):
            token = second.token(subject=f"p{n}")
            socket = await connect(
                f"ws://127.0.0.1:{second.port}/acp",
                additional_headers={"Authorization": f"Bearer {token}"},
            )
            await second.relay.token_register.of_tenant("acme")
            listed = (await admin.get("/api/tokens")).json()["tokens"]
            id_ = next(one["id"] for one in listed if one["subject"] == f"p{n}")
            began = time.monotonic()
            assert (await admin.delete(f"/api/tokens/{id_}")).status_code == 204
            with pytest.raises(ConnectionClosed) as closed:
                async with asyncio.timeout(20):
                    await socket.recv()
            ends.append(time.monotonic() - began)
            assert closed.value.rcvd.code == 4401
            async with second.client(None, Authorization=f"Bearer {token}") as thief:
                assert (await thief.get("/api/me")).status_code == 401
    ends.sort()
    p99 = ends[int(len(ends) * 0.99)] * 1000
    figure(f"S12: a revoked token's socket at another relay ends, p99 {p99:.0f} ms of {times}")
    assert ends[len(ends) // 2] < 1


@pytest.mark.attack("S20", "a refresh token is replayed while its sign-in is in use elsewhere")
async def test_a_replayed_refresh_token_ends_its_sign_in_everywhere_within_a_second(
    redis_url, relay, figure, attack_length
):
    times, ends = attack_length(10, 200), []
    async with serving(redis_url, state_dir=relay.settings.state_dir) as second:
        for n in range(times):
            grant = await relay.relay.families.make("person", f"p{n}", "acme", Role.OPERATOR)
            async with relay.client(None) as anybody:
                body = {"refreshToken": grant.refresh_token}
                fresh = (await anybody.post("/api/tokens/refresh", json=body)).json()
                socket = await connect(
                    f"ws://127.0.0.1:{second.port}/acp",
                    additional_headers={"Authorization": f"Bearer {fresh['token']}"},
                )
                began = time.monotonic()
                assert (await anybody.post("/api/tokens/refresh", json=body)).status_code == 401
                with pytest.raises(ConnectionClosed) as closed:
                    async with asyncio.timeout(20):
                        await socket.recv()
                ends.append(time.monotonic() - began)
                body = {"refreshToken": fresh["refreshToken"]}
                assert (await anybody.post("/api/tokens/refresh", json=body)).status_code == 401
            assert closed.value.rcvd.code == 4401
            async with second.client(None, Authorization=f"Bearer {fresh['token']}") as thief:
                assert (await thief.get("/api/me")).status_code == 401
    ends.sort()
    p99 = ends[int(len(ends) * 0.99)]
    figure(f"S20: a replay ends the sign-in at another relay, p99 {p99 * 1000:.0f} ms of {times}")
    assert p99 <= 1
