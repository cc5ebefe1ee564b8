"""Who is notified of what, once, and of whom nobody is notified any more."""

import asyncio

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.push_service import PushService
from fakes.served import serving

from bridge import keys, notifier
from bridge.protocol.acp import Role
from bridge.subscriptions import Quiet

DAY = 1440


@pytest.fixture
async def service():
    async with PushService() as made:
        yield made


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(notifier, "GRACE_SECONDS", 0.05)


@pytest.fixture
async def relay(redis_url, service, quick):
    async with serving(redis_url, push_hosts=(service.place,)) as served:
        yield served


@pytest.fixture
async def connector(relay):
    async with UplinkPeer(relay) as peer:
        await peer.hello("s1")
        yield peer


@pytest.fixture
async def alice(relay):
    """A browser of somebody who may approve."""
    async with relay.signed_in(Role.APPROVER) as browser:
        yield browser


async def subscribe(person, browser, **wish):
    answer = await person.put("/api/push/subscription", json={**browser.as_json(), "wish": wish})
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


async def test_a_question_notifies_with_little_unless_more_is_wished(service, connector, alice):
    little, all_ = service.browser("little"), service.browser("all")
    await subscribe(alice, little)
    await subscribe(alice, all_, shows="all")
    await connector.store(connector.question(1, "rt-1"))
    said = await service.got(little, "question")
    assert (said["id"], said["agent"], said["host"], said["open"]) == ("rt-1", "Claude", "mbp", 1)
    assert "subject" not in said
    assert "make rt-1" not in str(said)
    whole = await service.got(all_, "question")
    assert whole["subject"]
    assert {"hash", "epoch", "agentId", "risk"} <= whole.keys()
    assert little.heads[0]["urgency"] == "high"


async def test_a_long_subject_is_left_to_the_page(service, connector, alice):
    browser = service.browser("all")
    await subscribe(alice, browser, shows="all")
    await connector.store(
        connector.question(1, "rt-long", subject='{"title":"Run","x":"%s"}' % ("y" * 9000))
    )
    said = await service.got(browser, "question")
    assert "subject" not in said
    assert said["title"] == "Run"


async def test_of_several_processes_one_notifies(service, redis_url, relay, connector, alice):
    browser = service.browser("phone")
    await subscribe(alice, browser)
    async with (
        serving(redis_url, push_hosts=(service.place,)) as second,
        ClientPeer(second, Role.VIEWER) as watching,
    ):
        await watching.initialize()
        await watching.call("_bridge/watch")
        for n in range(1, 6):
            await connector.store(connector.question(n, f"rt-{n}"))
        await service.got(browser, "question", 5)
        await connector.store(connector.question(6, "rt-6"))
        await service.got(browser, "question", 6)
    assert sorted(one["id"] for one in browser.got) == [f"rt-{n}" for n in range(1, 7)]


async def test_what_is_answered_at_once_buzzes_nobody(service, connector, alice, monkeypatch):
    monkeypatch.setattr(notifier, "GRACE_SECONDS", 1.0)
    browser = service.browser("phone")
    await subscribe(alice, browser)
    await connector.store(connector.question(1, "rt-1"), connector.resolved(2, "rt-1"))
    await connector.store(connector.question(3, "rt-2"))
    assert (await service.got(browser, "question"))["id"] == "rt-2"
    assert [one["id"] for one in browser.got] == ["rt-2"]


async def test_who_answered_replaces_the_notification(service, relay, connector, alice):
    browser = service.browser("phone")
    await subscribe(alice, browser)
    async with ClientPeer(relay, subject="ben") as ben:
        await ben.initialize(decide=True)
        await ben.load()
        await connector.store(connector.question(1, "rt-1"))
        await service.got(browser, "question")
        record = await relay.relay.round_trips.get("acme", "rt-1")
        decided = await ben.call(
            "_bridge/decide",
            id="rt-1",
            hash=record.hash,
            answer={"optionId": "allow"},
            decisionId="d-1",
        )
        assert decided["state"] == "recorded"
    said = await service.got(browser, "answered")
    assert (said["id"], said["by"], said["answer"]) == ("rt-1", "ben", {"optionId": "allow"})
    assert browser.heads[-1]["topic"] == browser.heads[0]["topic"]


async def test_viewers_are_not_asked(service, relay, connector, alice):
    async with relay.signed_in(Role.VIEWER) as viewer:
        theirs, hers = service.browser("viewer"), service.browser("alice")
        await subscribe(viewer, theirs)
        await subscribe(alice, hers)
        await connector.store(connector.question(1))
        await service.got(hers, "question")
        assert theirs.got == []


async def test_who_signed_out_is_not_notified(service, relay, connector, alice):
    async with relay.signed_in(Role.APPROVER) as ben:
        theirs, hers = service.browser("ben"), service.browser("alice")
        await subscribe(ben, theirs)
        await subscribe(alice, hers)
        assert (await ben.post("/api/sign-out", json={})).status_code == 204
        await connector.store(connector.question(1))
        await service.got(hers, "question")
    assert theirs.got == []
    assert len(await relay.relay.subscriptions.all("acme")) == 1


async def test_a_browser_that_is_gone_is_forgotten_and_the_test_says_so(service, relay, alice):
    browser = service.browser("old")
    await subscribe(alice, browser)
    service.answer = 410
    tried = (await alice.post("/api/push/test", json={})).json()["attempts"]
    assert [one["status"] for one in tried] == [410]
    assert (await alice.get("/api/push")).json()["subscriptions"] == []


async def test_the_test_tells_each_attempt(service, alice):
    await subscribe(alice, service.browser("one"))
    tried = (await alice.post("/api/push/test", json={})).json()["attempts"]
    assert [(one["status"], one["device"]) for one in tried] == [(201, "browser")]
    (known,) = (await alice.get("/api/push")).json()["subscriptions"]
    assert known["here"] is True
    assert known["last"]["status"] == 201


async def test_a_turn_that_failed_is_told_and_a_short_one_is_not(service, connector, alice):
    browser = service.browser("phone")
    await subscribe(alice, browser)
    await connector.store(
        connector.turn(1, "started", "m-1", turn="turn-1"),
        connector.turn(2, "ended", "m-1", turn="turn-1", stopReason="end_turn"),
        connector.turn(3, "started", "m-2", turn="turn-2"),
        connector.turn(4, "ended", "m-2", turn="turn-2", error={"code": -32000, "message": "no"}),
    )
    said = await service.got(browser, "failure")
    assert said["sessionId"] == "s1"
    assert len(browser.got) == 1


async def test_a_long_turns_end_is_told(service, connector, alice, monkeypatch):
    monkeypatch.setattr(notifier, "LONG_TURN_SECONDS", 0.0)
    browser = service.browser("phone")
    await subscribe(alice, browser, kinds=["turn"])
    await connector.store(
        connector.turn(1, "started", "m-1", turn="turn-1"),
        connector.question(2, "rt-1"),
        connector.turn(3, "ended", "m-1", turn="turn-1", stopReason="end_turn"),
    )
    assert (await service.got(browser, "turn"))["took"] == 0
    assert [one["kind"] for one in browser.got] == ["turn"]


async def test_in_quiet_hours_nothing_buzzes(service, relay, connector, alice):
    quiet, other = service.browser("quiet"), service.browser("other")
    now = await relay.relay.store.time_ms() // 60_000 % DAY
    hours = {"begins": (now - 5) % DAY, "ends": (now + 30) % DAY, "utcOffset": 0}
    await subscribe(alice, quiet, quiet=hours)
    await subscribe(alice, other)
    await connector.store(connector.question(1))
    await service.got(other, "question")
    assert quiet.got == []


@pytest.mark.parametrize(
    ("begins", "ends", "minute", "is_quiet"),
    [(60, 120, 60, True), (60, 120, 120, False), (1380, 420, 0, True), (1380, 420, 420, False)],
)
def test_quiet_hours_may_pass_midnight(begins, ends, minute, is_quiet):
    assert Quiet(begins, ends).holds(minute * 60_000) is is_quiet
    ahead = Quiet(begins, ends, utc_offset=120)
    assert ahead.holds(((minute - 120) % DAY) * 60_000) is is_quiet


async def test_a_token_is_no_browser_and_foreign_ones_are_unknown(service, relay, alice):
    id_ = await subscribe(alice, service.browser("phone"))
    async with relay.client(Role.ADMIN) as script, relay.signed_in(tenant="globex") as foreign:
        answer = await script.put("/api/push/subscription", json=service.browser("x").as_json())
        assert answer.status_code == 403
        assert (await foreign.delete(f"/api/push/subscriptions/{id_}")).status_code == 404
    assert (await alice.delete(f"/api/push/subscriptions/{id_}")).status_code == 204


async def test_nobody_subscribes_without_end(service, relay, alice):
    for n in range(20):
        await subscribe(alice, service.browser(f"b{n}"))
    one_more = service.browser("one more").as_json()
    assert (await alice.put("/api/push/subscription", json=one_more)).status_code == 400
    await asyncio.gather(*(subscribe(alice, service.browsers[f"b{n}"]) for n in range(20)))
    kinds = {
        keys.kind_of(k.decode()) for k in await relay.relay.store.commands.keys("b:{acme}:push")
    }
    assert kinds == {"push"}
