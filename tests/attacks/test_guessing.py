"""Codes and secrets are guessed by many, from everywhere, and told apart by nothing (S09, S34)."""

import asyncio
import secrets
import statistics
import time
from http import HTTPStatus

import httpx
import pytest
from fakes.peers import UplinkPeer
from fakes.served import serving

from bridge.protocol import pairing
from bridge.protocol.acp import Role
from bridge.protocol.uplink import Invited

TENANT = "acme"
ADDRESSES = [f"127.0.0.{n}" for n in range(2, 52)]
AT_ONCE = 8


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server, sign_ins_per_minute=0) as one, UplinkPeer(one) as machine:
        await machine.hello("s-of-another")
        yield one


async def invite(served):
    """Have a machine wait for a device."""
    one = pairing.Invitation(host="h", user="u", agent="a", folder="/", relay="r")
    await served.relay.pairings.begin(TENANT, Invited(one.code, "a-1", one.offer, one.offer_mac))
    return one


def a_code():
    return "".join(secrets.choice(pairing.ALPHABET) for _ in range(6))


def from_address(served, address, **headers):
    way = httpx.AsyncHTTPTransport(local_address=address)
    return httpx.AsyncClient(base_url=served.url, transport=way, headers=headers, timeout=30)


@pytest.mark.attack("S09", "pairing codes are guessed from fifty addresses")
async def test_a_code_is_not_found_by_guessing(served, figure, attack_length):
    one, found = await invite(served), []
    tries = attack_length(400, 100_000)
    token = served.token(Role.APPROVER, subject="mallory")
    gate = asyncio.Semaphore(AT_ONCE)

    async def guess(address):
        headers = {"authorization": f"Bearer {token}"}
        async with gate, from_address(served, address, **headers) as http:
            for _ in range(tries // len(ADDRESSES)):
                answer = await http.post("/api/pairings/look", json={"code": a_code()})
                if answer.status_code not in {HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS}:
                    found.append(answer)

    await asyncio.gather(*map(guess, ADDRESSES))
    async with served.client(Role.APPROVER) as http:
        right = await http.post("/api/pairings/look", json={"code": one.code})
    figure(
        f"{attack_length(400, 100_000):,} tries, successes {len(found)}; the code itself is shut"
    )
    assert found == []
    assert right.status_code == HTTPStatus.NOT_FOUND


PLACES = {
    "a session": ("GET", "/api/sessions/{}", None),
    "a session's log": ("GET", "/api/sessions/{}/log", None),
    "a session's events": ("GET", "/api/sessions/{}/events", None),
    "a pairing code": ("POST", "/api/pairings/look", {"code": "{}"}),
    "a pairing's outcome": ("POST", "/api/pairings/outcome", {"code": "{}"}),
    "a sign-in": ("POST", "/api/sign-in", {"secret": "{}"}),
}


@pytest.mark.attack("S34", "what an answer says of a thing that is another's, or was, and of none")
@pytest.mark.parametrize("place", PLACES)
async def test_what_is_not_mine_and_what_is_not_there_look_the_same(
    served, figure, attack_length, place
):
    wrong, unknown = await ids_of(served, place)
    took = {wrong: [], unknown: []}
    bodies = {wrong: set(), unknown: set()}
    async with served.client(Role.ADMIN, tenant="globex", Origin=served.url) as http:
        for _ in range(attack_length(30, 400)):
            for id_ in (wrong, unknown):
                began = time.perf_counter()
                answer = await ask(http, place, id_)
                took[id_].append(time.perf_counter() - began)
                bodies[id_].add((answer.status_code, answer.text.replace(id_, "ID")))
    apart = abs(statistics.median(took[wrong]) - statistics.median(took[unknown])) * 1000
    figure(f"{place}: {apart:.2f} ms apart")
    assert bodies[wrong] == bodies[unknown]
    assert len(bodies[wrong]) == 1
    assert apart < attack_length(20, 1)


async def ask(http, place, id_):
    method, path, body = PLACES[place]
    json = body and {name: value.format(id_) for name, value in body.items()}
    return await http.request(method, path.format(id_), json=json)


async def ids_of(served, place):
    """Give an id that is another tenant's, or spent, and one of nothing, of the same length."""
    if "pairing" in place:
        return (await invite(served)).code, a_code()
    if place == "a sign-in":
        spent = await served.link()
        await served.relay.logins.sign_in(spent, "Mac")
        return spent, secrets.token_urlsafe(32)
    return "s-of-another", "s-of-nobody-"
