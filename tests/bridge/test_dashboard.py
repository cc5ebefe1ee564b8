"""An ACP client at the relay: what it is shown and asked, and in which order."""

import asyncio
import dataclasses
import json

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.served import serving

from bridge import dashboard, keys
from bridge.protocol import acp, entry, jsonrpc, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY, Origin
from bridge.protocol.round_trip import Decision

# The beginning.


@pytest.mark.parametrize(
    "first",
    ['{"jsonrpc":"2.0","id":1,"method":"session/list"}', "no json", '{"method":"initialize"}'],
    ids=["another request", "no JSON", "a notification"],
)
async def test_whatever_comes_before_initialize_closes_as_a_protocol_error(process, first):
    async with ClientPeer(process) as peer:
        await peer.say(first)
        assert await peer.closed() == 1002


async def test_initialize_says_who_one_is_and_what_can_be_done(process, connector):
    async with ClientPeer(process, Role.VIEWER) as peer:
        result = await peer.initialize()
    ours = result["_meta"][META_KEY]
    assert result["protocolVersion"] == 1
    assert result["agentCapabilities"]["loadSession"] is True
    assert set(result["agentCapabilities"]["sessionCapabilities"]) == {"list", "resume", "close"}
    assert (ours["subject"], ours["role"], ours["tenant"]) == ("alice", "viewer", "acme")
    assert ours["node"] == process.relay.node


async def test_who_says_initialize_twice_leaves_nothing_behind(process):
    async with ClientPeer(process) as peer:
        await peer.initialize()
        assert (await peer.initialize(decide=True))["protocolVersion"] == 1
    async with asyncio.timeout(10):
        while process.relay.changes._tenants:  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.005)


async def test_several_lines_in_a_frame_and_a_binary_frame_are_read(client):
    lines = [jsonrpc.request(f"r{n}", "_bridge/agents", {}) for n in (1, 2)]
    await client.say(b"\n".join(lines) + b"\n")
    await client.socket.send(jsonrpc.request("r3", "_bridge/agents", {}))
    for name in ("r1", "r2", "r3"):
        await client.until(lambda m, name=name: m.get("id") == name)


# Text that is no request.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no json", -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":NaN}}', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":"\\ud800"}}', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":[]}', -32600),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":"' + "x" * 10_000 + '","method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"x","params":' + '{"a":' * 10_000, -32700),
    ],
    ids=["words", "NaN", "surrogate", "list", "two ids", "fraction", "long id", "deep"],
)
async def test_what_is_no_request_is_refused_and_the_socket_stays(client, text, code):
    before = len(client.got)
    await client.say(text)
    refused = await client.until(lambda m: "error" in m, after=before)
    assert refused["error"]["code"] == code
    assert await client.call("session/list")


async def test_a_notification_that_cannot_be_served_changes_nothing(process, connector):
    async with ClientPeer(process, Role.VIEWER) as viewer:
        await viewer.initialize()
        await viewer.notify("session/cancel", {"sessionId": "s1"})
        await viewer.notify("session/whatever", {})
        await viewer.notify(acp.CANCEL_REQUEST, {"requestId": [1]})
        assert await viewer.call("session/list")
    assert connector.all(uplink.MAIL) == []


# Loading.


async def test_load_gives_the_history_then_the_result_then_the_open_questions(connector, client):
    await connector.store(connector.update(1), connector.update(2), connector.question(3))
    result = await client.load()
    await client.question()
    kinds = [m.get("method", "result") for m in client.got[1:]]
    assert kinds == [entry.UPDATE, entry.UPDATE, "result", entry.PERMISSION]
    assert result["_meta"][META_KEY]["cursor"] == f"{connector.epoch}:3"
    assert result["_meta"][META_KEY]["session"]["open"] == ["rt-1"]


async def test_load_gives_the_modes_as_the_agent_gave_them(connector, client):
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan"}]}
    await connector.notify(uplink.SESSION, connector.card("s1", modes=modes))
    await connector.store(connector.update(1))
    result = await client.load()
    assert result["modes"] == modes
    assert "models" not in result


async def test_entries_are_the_bytes_that_the_connector_sent(connector, client):
    await client.load()
    text = connector.update(1, "as\u2028it is")
    await connector.store(text)
    assert json.loads(text) in client.got


async def test_resume_gives_the_result_first_and_then_what_follows_the_cursor(connector, client):
    await connector.store(*(connector.update(seq) for seq in range(1, 5)), connector.question(5))
    meta = {META_KEY: {"cursor": f"{connector.epoch}:2"}}
    await client.call("session/resume", sessionId="s1", cwd="/app", _meta=meta)
    await client.question()
    kinds = [m.get("method", "result") for m in client.got[1:]]
    assert kinds == ["result", entry.UPDATE, entry.UPDATE, entry.PERMISSION]
    assert client.seqs() == [3, 4]


async def test_resume_without_a_cursor_shows_only_what_comes(connector, client):
    await connector.store(connector.update(1))
    await client.call("session/resume", sessionId="s1", cwd="/app")
    await connector.store(connector.update(2))
    await client.told(entry.UPDATE)
    assert client.seqs() == [2]


async def test_resume_with_a_cursor_that_is_none_is_refused(client):
    meta = {META_KEY: {"cursor": "yesterday"}}
    with pytest.raises(Refused, match="epoch:seq"):
        await client.call("session/resume", sessionId="s1", cwd="/app", _meta=meta)


async def test_where_entries_are_no_longer_held_it_is_said_and_the_rest_follows(
    process, connector, client
):
    await connector.store(*(connector.update(seq) for seq in range(1, 6)))
    await process.relay.store.commands.xtrim(keys.log("acme", "s1"), maxlen=2, approximate=False)
    await client.load()
    gap = (await client.told(entry.GAP))["from"]
    assert (gap, client.seqs()) == (f"{connector.epoch}:3", [4, 5])
    before = len(client.got)
    meta = {META_KEY: {"cursor": f"{connector.epoch}:1"}}
    await client.call("session/resume", sessionId="s1", cwd="/app", _meta=meta)
    assert (await client.told(entry.GAP, after=before))["from"] == gap


async def test_loading_again_shows_all_again_once_and_asks_nothing_twice(connector, client):
    await connector.store(connector.update(1), connector.question(2))
    await client.load()
    await client.question()
    await client.load()
    await connector.store(connector.update(3))
    await client.until(lambda _: client.seqs()[-1:] == [3])
    assert client.seqs() == [1, 1, 3]
    assert len(client.questions) == 1


async def test_one_client_may_watch_so_many_sessions(redis_url):
    """R30."""
    async with (
        serving(redis_url, max_sessions_per_dashboard=2) as served,
        UplinkPeer(served) as connector,
        ClientPeer(served) as client,
    ):
        await connector.hello("s1", "s2", "s3")
        await client.initialize()
        for session in ("s1", "s2", "s3"):
            await connector.store(connector.update(1, session=session), session=session)
        for session in ("s1", "s1", "s2"):
            await client.load(session)
        with pytest.raises(Refused, match="close some first") as refused:
            await client.load("s3")
    assert refused.value.data["reason"] == "too_many_sessions"


async def test_so_many_requests_may_wait(monkeypatch, client):
    monkeypatch.setattr(dashboard, "MAX_REQUESTS", 3)
    ids = range(900, 910)
    await client.say(b"\n".join(jsonrpc.request(id_, "session/list", {}) for id_ in ids))
    last = await client.until(lambda m: m.get("id") == 909)
    assert last["error"]["code"] == -32014
    assert "send fewer" in last["error"]["message"]
    assert (await client.until(lambda m: m.get("id") == 900))["result"]


# Status, presence, tokens.


async def test_who_looks_away_is_still_there_but_not_visible(connector, client):
    await client.load()
    await connector.until(lambda m: m.get("method") == uplink.PRESENCE)
    before = len(connector.got)
    await client.notify("_bridge/visible", {"visible": False})
    told = await connector.told(uplink.PRESENCE, after=before)
    assert told["watching"][0]["visible"] is False


async def test_signing_out_ends_the_socket(process, client):
    (mine,) = process.relay.dashboards._all
    process.relay.identities.closed(mine.identity.token_id)
    assert await client.closed() == 4401


async def test_a_token_that_has_ended_ends_the_socket(process, client):
    (mine,) = process.relay.dashboards._all
    mine.renew(dataclasses.replace(mine.identity, expires_at=1))
    assert await client.closed() == 4401


async def test_a_fresh_token_is_taken_in_band(process, client):
    fresh = process.token(Role.OPERATOR)
    assert (await client.call("_bridge/token", token=fresh))["expiresAt"]
    with pytest.raises(Refused, match="another subject"):
        await client.call("_bridge/token", token=process.token(subject="mallory"))


# Two relay processes.


async def test_through_another_relay_process_all_is_the_same(process, connector, redis_url):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second) as far,
    ):
        await far.initialize()
        await connector.store(connector.update(1))
        await far.load()
        asked = await far.prompt("m-1")
        mail = await connector.mail("session/prompt")
        await connector.store(connector.update(2), connector.question(3))
        await far.choose(await far.question())
        await connector.mail("_bridge/decide")
        await connector.store(connector.resolved(4), connector.turn(5, "ended", "m-1"))
        await connector.done(mail, result={"stopReason": "end_turn"})
        assert await far.answer(asked) == {"stopReason": "end_turn"}
        assert far.seqs() == [1, 2, 4, 5]
        told = await connector.until(
            lambda m: m.get("method") == uplink.PRESENCE and m["params"]["watching"]
        )
    assert told["params"]["watching"][0]["subject"] == "alice"


async def test_an_outcome_wakes_whoever_waits_at_another_relay_process(
    process, connector, redis_url
):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second) as far,
    ):
        await far.initialize()
        asked = await far.ask("session/set_mode", {"sessionId": "s1", "modeId": "plan"})
        await connector.done(await connector.mail("session/set_mode"), result={})
        assert await far.answer(asked) == {}


async def test_one_of_two_answers_wins_across_relay_processes(
    process, connector, client, redis_url
):
    await client.load()
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second, subject="bob") as far,
    ):
        await far.initialize()
        await far.load()
        await connector.store(connector.question(1))
        mine, theirs = await client.question(), await far.question()
        await asyncio.gather(client.choose(mine, "allow"), far.choose(theirs, "no"))
        mail = await connector.mail("_bridge/decide")
        winner = mail["origin"]["subject"]
        for one in (client, far):
            assert (await one.resolved("decided"))["by"]["subject"] == winner
        await connector.call(uplink.TOKEN, token=connector.token)
        assert len(connector.all(uplink.MAIL)) == 1


async def test_a_decision_over_rest_withdraws_the_question(process, connector, client):
    await client.load()
    await connector.store(connector.question(1))
    asked = await client.question()
    trip = asked["params"]["_meta"][META_KEY]["roundTrip"]
    decision = Decision("rt-1", trip["hash"], {"optionId": "no"}, "d-9")
    await process.relay.round_trips.decide("acme", decision, Origin("dora", "acme"))
    await client.told(acp.CANCEL_REQUEST, requestId=asked["id"])
    assert (await client.resolved("decided"))["by"]["subject"] == "dora"
