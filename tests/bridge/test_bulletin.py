"""What watching dashboards are told: whole records, whatever process changed them."""

import asyncio

import pytest
from fakes.peers import ClientPeer, UplinkPeer, fresh
from fakes.served import serving

from bridge import keys
from bridge.bulletin import CHANGED
from bridge.protocol import uplink
from bridge.protocol.acp import Role
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello
from bridge.redis import Store


@pytest.fixture
async def watcher(process, connector):
    """A page that watches its tenant."""
    async with ClientPeer(process, Role.VIEWER, subject="page") as peer:
        await peer.initialize(decide=True)
        peer.lists = await peer.call("_bridge/watch")
        yield peer


async def changed(watcher, kind, **fields):
    """Wait for word of a record of a kind with these fields."""
    message = await watcher.until(
        lambda m: m.get("method") == CHANGED and fields.items() <= m["params"].get(kind, {}).items()
    )
    assert list(message["params"]) == [kind]
    return message["params"][kind]


async def test_watching_begins_with_everything_there_is(connector, watcher):
    lists = watcher.lists
    assert [one["id"] for one in lists["agents"]] == ["a1"]
    assert [one["sessionId"] for one in lists["sessions"]] == ["s1"]
    assert lists["roundTrips"] == []
    assert lists["time"].endswith("Z")


async def test_a_new_session_and_a_changed_one_are_told_whole(connector, watcher):
    await connector.notify(uplink.SESSION, connector.card("s2", title="the parser"))
    told = await changed(watcher, "session", sessionId="s2")
    assert (told["title"], told["cwd"], told["attachment"]["state"]) == (
        "the parser",
        "/app",
        "attached",
    )
    await connector.notify(uplink.SESSION, connector.card("s2", state="running"))
    await changed(watcher, "session", sessionId="s2", state="running")


async def test_a_question_is_told_when_it_opens_is_decided_and_closes(connector, watcher, process):
    await connector.store(connector.question(1))
    opened = await changed(watcher, "roundTrip", id="rt-1", state="open")
    assert opened["optionIds"] == ["allow", "no"]
    await changed(watcher, "session", sessionId="s1", open=["rt-1"])
    async with ClientPeer(process, Role.APPROVER) as client:
        await client.initialize()
        decision = {"id": "rt-1", "hash": opened["hash"], "answer": {"optionId": "no"}}
        await client.call("_bridge/decide", **decision, decisionId="d-1")
    decided = await changed(watcher, "roundTrip", id="rt-1", state="decided")
    assert decided["decision"]["by"]["subject"] == "alice"
    await connector.store(connector.resolved(2))
    closed = await changed(watcher, "roundTrip", id="rt-1", state="closed")
    assert closed["result"] == "applied"


async def test_an_agent_that_comes_and_goes_is_told(process, watcher):
    async with UplinkPeer(process, "a2", writer="w2") as second:
        await second.hello()
        told = await changed(watcher, "agent", id="a2")
        assert told["attachment"]["state"] == "attached"
        await second.notify(uplink.GOODBYE, {"reason": "stopped"})
    ended = await watcher.until(
        lambda m: m.get("params", {}).get("agent", {}).get("attachment", {}).get("state") == "ended"
    )
    assert ended["params"]["agent"]["attachment"]["reason"] == "said_goodbye"


async def test_an_agent_whose_relays_machine_died_is_told_without_a_word_of_it(
    monkeypatch, process, watcher, redis_url
):
    monkeypatch.setattr("bridge.bulletin.LOOK_SECONDS", 0.0)
    left_open = Store.open(redis_url, node="died")
    await left_open.time_ms()
    card = AgentCard(fresh("a"), "claude")
    hello = Hello(1, "w9", ConnectorCard("0.1.0"), [card])
    await process.relay.agents.claim("acme", hello, card, "died")
    async with asyncio.timeout(10):
        while ("acme", card.id) not in process.relay.bulletin._shown:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    client = process.relay.store.commands
    await client.hset(keys.claim("acme", card.id), "lease_until", "1")
    told = await watcher.until(
        lambda m: (
            (found := m.get("params", {}).get("agent", {})).get("id") == card.id
            and found["attachment"]["state"] == "detached"
        )
    )
    assert told["params"]["agent"]["attachment"]["reason"] == "relay_unreachable"
    await left_open.aclose()


async def test_what_happens_right_behind_the_lists_is_not_missed(process, connector):
    async with ClientPeer(process, Role.VIEWER) as page:
        await page.initialize(decide=True)
        await page.call("_bridge/watch")
        await connector.store(connector.question(1, "rt-now"))
        await changed(page, "roundTrip", id="rt-now")


async def test_other_tenants_and_those_who_do_not_watch_are_told_nothing(
    process, connector, watcher
):
    async with (
        ClientPeer(process, tenant="other") as foreign,
        ClientPeer(process) as unwatching,
    ):
        await foreign.initialize()
        await foreign.call("_bridge/watch")
        await unwatching.initialize()
        await connector.notify(uplink.SESSION, connector.card("s1", title="new"))
        await changed(watcher, "session", title="new")
        for one in (foreign, unwatching):
            await one.call("session/list")
            assert one.all(CHANGED) == []


async def test_a_watcher_at_another_relay_process_is_told_too(process, connector, redis_url):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second) as far,
    ):
        await far.initialize()
        await far.call("_bridge/watch")
        await connector.notify(uplink.SESSION, connector.card("s1", title="far"))
        await changed(far, "session", title="far")


async def test_a_relay_process_that_ends_leaves_no_watchers_behind(process, connector, redis_url):
    presence = process.relay.presence
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second, subject="far") as far,
    ):
        await far.initialize()
        await far.load()
        await connector.until(lambda m: m.get("method") == uplink.PRESENCE)
        second.server.should_exit = True
        assert await far.closed() == 1012
        await second.stopped()
    assert await presence.of("acme", ["s1"]) == [[]]
