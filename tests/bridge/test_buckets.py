"""What one may ask for in a minute, counted by the store's clock."""

import asyncio

from fakes.peers import ClientPeer, UplinkPeer
from fakes.served import serving

from bridge.buckets import Buckets
from bridge.health import Health
from bridge.identity import Identity
from bridge.protocol.acp import Role
from bridge.protocol.errors import RateLimited
from bridge.settings import Settings

MINUTE_MS = 60_000


def who(subject="alice", tenant="acme") -> Identity:
    return Identity("person", tenant, subject, Role.OPERATOR, "t-1")


def buckets(store, **chosen) -> Buckets:
    return Buckets(store, Health(store), Settings(**chosen))


async def taken(take, tries: int) -> tuple[int, list[int]]:
    """Give how many were let through, and what the others were told."""
    waits = []
    for _ in range(tries):
        try:
            await take()
        except RateLimited as error:
            waits.append(error.data["retryAfter"])
    return tries - len(waits), waits


async def test_one_may_ask_for_a_minutes_worth_and_for_what_the_time_gives(store):
    rate, few = 600, buckets(store, decisions_per_minute=600)
    began = await store.time_ms()
    passed, waits = await taken(lambda: few.take("decisions", who()), 1000)
    took = await store.time_ms() - began
    assert rate <= passed <= rate + took * rate / MINUTE_MS + 1
    assert set(waits) == {1}


async def test_another_person_another_tenant_and_another_limit_are_apart(store):
    few = buckets(store, decisions_per_minute=1, mail_per_minute=1)
    for what, one in (
        ("decisions", who()),
        ("decisions", who("bob")),
        ("decisions", who(tenant="globex")),
        ("mail", who()),
    ):
        assert await taken(lambda what=what, one=one: few.take(what, one), 2) == (1, [60])


async def test_a_tenant_and_an_address_may_so_many_times_as_much(store):
    few = buckets(store, calls_per_minute=2, limit_shared_factor=3)
    passed = [await taken(lambda n=n: few.take("calls", who(f"p{n}")), 2) for n in range(4)]
    assert [one for one, _ in passed] == [2, 2, 2, 0]
    await few.take("calls", who(tenant="globex"), "192.0.2.1")
    passed = [
        (await taken(lambda n=n: few.take("calls", who("x", f"t{n}"), "192.0.2.1"), 2))[0]
        for n in range(4)
    ]
    assert sum(passed) == 5


async def test_of_many_at_once_at_two_processes_no_more_pass(store):
    pair = [buckets(store, mail_per_minute=50) for _ in range(2)]
    asked = [pair[n % 2].take("mail", who()) for n in range(200)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert 50 <= results.count(None) <= 52
    assert {type(one) for one in results} == {type(None), RateLimited}


async def test_a_limit_of_nothing_is_none(store):
    assert (await taken(lambda: buckets(store, mail_per_minute=0).take("mail", who()), 50))[0] == 50


async def test_what_is_too_much_is_a_429_that_says_when_to_come_again(redis_url):
    async with (
        serving(redis_url, calls_per_minute=3, sign_ins_per_minute=2) as relay,
        relay.client() as client,
        relay.client(None, Origin=relay.url) as browser,
    ):
        answers = [await client.get("/api/me") for _ in range(4)]
        tries = [await browser.post("/api/sign-in", json={"secret": "x"}) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 200, 429]
    assert [one.status_code for one in tries] == [401, 401, 429]
    assert answers[-1].headers["retry-after"] == "20"
    assert answers[-1].json()["error"]["reason"] == "rate_limited"
    assert tries[-1].headers["retry-after"] == "30"


async def test_who_decides_too_often_on_a_websocket_is_closed_with_4429(redis_url):
    async with (
        serving(redis_url, decisions_per_minute=1) as relay,
        UplinkPeer(relay) as connector,
        ClientPeer(relay, Role.APPROVER) as client,
    ):
        await connector.hello("s1")
        await client.initialize()
        for n in range(2):
            decision = {"id": "rt-1", "hash": "0", "answer": {"optionId": "x"}}
            await client.ask("_bridge/decide", {**decision, "decisionId": f"d-{n}"})
        assert await client.closed() == 4429
