"""Thousands of messages that are almost right, at real doors: refused, and nothing breaks."""

import contextlib
import logging
import random

import pytest
from fakes.mutations import mutated
from fakes.peers import ClientPeer, UplinkPeer
from fakes.relay import FakeRelay
from fakes.running import Running, asks
from fakes.served import serving
from websockets.exceptions import ConnectionClosed

from bridge.protocol import entry, uplink

META = {entry.META_KEY: {"mailId": "m1", "agent": "a1", "cursor": "7:1"}}
PROMPT = [{"type": "text", "text": "go"}]
OF_CLIENTS = [
    ("initialize", {"protocolVersion": 1, "clientCapabilities": {"_meta": META}}),
    ("session/list", {"cursor": "x"}),
    ("session/new", {"cwd": "/app", "mcpServers": [], "_meta": META}),
    ("session/load", {"sessionId": "s1", "cwd": "/app", "mcpServers": [], "_meta": META}),
    ("session/resume", {"sessionId": "s1", "cwd": "/app", "_meta": META}),
    ("session/prompt", {"sessionId": "s1", "prompt": PROMPT, "_meta": META}),
    ("session/cancel", {"sessionId": "s1"}),
    ("session/set_mode", {"sessionId": "s1", "modeId": "plan"}),
    ("session/set_config_option", {"sessionId": "s1", "configId": "c", "value": "v"}),
    ("_bridge/decide", {"id": "rt-1", "hash": "9c", "answer": {}, "decisionId": "d"}),
    ("_bridge/decide", {"jws": "eyJh.eyJi.c2ln"}),
    ("_bridge/watch", {}),
    ("_bridge/round_trips", {"state": "all"}),
    ("_bridge/status", {"sessionId": "s1"}),
    ("_bridge/history", {"sessionId": "s1", "before": "7:1", "limit": 3}),
    ("_bridge/entry", {"sessionId": "s1", "at": "7:1", "offset": 0}),
    ("_bridge/visible", {"visible": True}),
    ("_bridge/token", {"token": "eyJh.eyJi.c2ln"}),
]
STAMP = {"epoch": 7, "seq": 1, "at": "2026-12-01T09:00:00.120Z"}
TRIP = {"id": "rt-1", "kind": "permission", "subject": '{"v":1}', "hash": "9c", "optionIds": ["a"]}
OF_CONNECTORS = [
    (uplink.HELLO, None),
    (
        entry.UPDATE,
        {
            "sessionId": "s1",
            "update": {"sessionUpdate": "x"},
            "_meta": {entry.META_KEY: STAMP},
        },
    ),
    (
        entry.PERMISSION,
        {
            "sessionId": "s1",
            "toolCall": {"toolCallId": "c"},
            "options": [{"optionId": "a", "name": "A", "kind": "allow_once"}],
            "_meta": {entry.META_KEY: {**STAMP, "roundTrip": TRIP}},
        },
    ),
    (
        entry.RESOLVED,
        {
            "sessionId": "s1",
            "id": "rt-1",
            "result": "void",
            "reason": "local",
            "_meta": {entry.META_KEY: {**STAMP, "seq": 2}},
        },
    ),
    (uplink.SESSION, {"sessionId": "s1", "agent": "a1", "counter": 1, "seq": 1, "state": "idle"}),
    (uplink.AGENT, {"id": "a1", "name": "claude", "roots": ["/"], "devices": [], "signed": "off"}),
    (uplink.MAIL_JOURNALED, {"upTo": 3}),
    (uplink.MAIL_DONE, {"mailId": "m1", "result": {"stopReason": "end_turn"}}),
    (uplink.PAIR, {"code": "234567", "agent": "a1", "offer": "{}", "mac": "ab"}),
    (uplink.PAIRED, {"code": "234567", "agent": "a1", "step": "paired", "mac": "ab"}),
    (uplink.PONG, {"n": 1}),
]
MAIL = {"n": 1, "mailId": "m1", "origin": {"subject": "alice", "tenant": "acme"}}
DECIDE = {"id": "rt-1", "sessionId": "s", "hash": "9c", "answer": {"optionId": "yes"}}
OF_RELAYS = [
    (uplink.ACK, {"sessionId": "s1", "epoch": 7, "seq": 1, "resend": True}),
    (uplink.MAIL, {**MAIL, "message": {"method": "session/prompt", "params": {"prompt": PROMPT}}}),
    (uplink.MAIL, {**MAIL, "message": {"method": "_bridge/decide", "params": DECIDE}}),
    (uplink.MAIL, {**MAIL, "message": {"method": "session/new", "params": {"cwd": "/"}}}),
    (uplink.PRESENCE, {"sessionId": "s1", "watching": [{"subject": "a", "device": "d"}]}),
    (uplink.PAIRING, {"code": "234567", "agent": "a", "step": "answered", "answer": "{}"}),
    (uplink.PONG, {"n": 1}),
]


@pytest.fixture
def broken(caplog):
    """Gives what was logged of failures inside."""
    caplog.set_level(logging.ERROR)
    return lambda: [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


def message(method, params, number):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def send_all(make, messages, rounds, greet):
    """Send changed messages one by one; come again when thrown out. Gives how often that was."""
    chance, left, thrown = random.Random(9), rounds, 0
    while left:
        with contextlib.suppress(ConnectionClosed, AssertionError):
            async with make() as peer:
                if chance.random() < 0.9:
                    await greet(peer)
                while left:
                    left -= 1
                    method, params = chance.choice(messages)
                    await peer.socket.send(mutated(message(method, params, left), chance))
                    await (await peer.socket.ping())
        thrown += 1
    return thrown


@pytest.mark.attack("FUZZ", "changed messages of dashboards, at a relay")
async def test_no_message_of_a_dashboard_breaks_anything(redis_url, broken, figure, attack_length):
    rounds = attack_length(300, 30_000)
    async with serving(redis_url) as served, UplinkPeer(served) as machine:
        await machine.hello("s1")
        async with ClientPeer(served) as bystander:
            await bystander.initialize()
            thrown = await send_all(
                lambda: ClientPeer(served, subject="mallory"),
                OF_CLIENTS,
                rounds,
                lambda peer: peer.initialize(),
            )
            listed = await bystander.call("session/list")
    figure(f"{rounds:,} messages, thrown out {thrown:,} times, broken {len(broken())}")
    assert [one["sessionId"] for one in listed["sessions"]] == ["s1"]
    assert broken() == []


@pytest.mark.attack("FUZZ", "changed messages of connectors, at a relay")
async def test_no_message_of_a_connector_breaks_anything(redis_url, broken, figure, attack_length):
    rounds = attack_length(300, 30_000)
    async with serving(redis_url) as served, UplinkPeer(served, "good") as machine:
        await machine.hello("s-good")

        async def greet(peer):
            await peer.hello("s1")

        greeting = {
            "epoch": 7,
            "writer": "w1",
            "connector": {"version": "1", "host": "h", "os": "o"},
            "agents": [{"id": "a1", "name": "claude", "roots": ["/"]}],
            "sessions": [{"sessionId": "s1", "agent": "a1", "counter": 1, "seq": 1}],
        }
        known = [(m, greeting if p is None else p) for m, p in OF_CONNECTORS]
        thrown = await send_all(lambda: UplinkPeer(served), known, rounds, greet)
        async with ClientPeer(served) as bystander:
            await bystander.initialize()
            listed = await bystander.call("session/list")
    figure(f"{rounds:,} messages, thrown out {thrown:,} times, broken {len(broken())}")
    assert "s-good" in {one["sessionId"] for one in listed["sessions"]}
    assert broken() == []


@pytest.mark.attack("FUZZ", "changed messages of a relay, at a connector")
async def test_no_message_of_a_relay_breaks_a_connector(
    tmp_path, monkeypatch, broken, *, figure, attack_length
):
    for name in ("FIRST_DELAY_SECONDS", "LONGEST_DELAY_SECONDS"):
        monkeypatch.setattr(f"agent_side.uplink.{name}", 0.01)
    rounds, chance = attack_length(100, 10_000), random.Random(4)
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        await relay.attached()
        running.prompt(await running.session())
        [question] = await relay.until(relay.questions)
        for number in range(rounds):
            method, params = chance.choice(OF_RELAYS)
            told = {"jsonrpc": "2.0", "method": method, "params": params}
            relay._send(mutated(told, chance))
            await heard(relay, number)
        relay.decide(question, {"optionId": "yes"}, "d-last")
        assert (await relay.outcome("d-last")).result["result"] == "applied"
        await running.until(running.agent.answers)
    figure(f"{rounds:,} messages, greeted {len(relay.hellos):,} times, broken {len(broken())}")
    assert broken() == []


async def heard(relay, number):
    """Wait until the connector has read on, or has left and come again."""
    greeted, ping = len(relay.hellos), {"n": number}
    relay.told.clear()
    relay.notify(uplink.PING, ping)
    await relay.until(lambda: (uplink.PONG, ping) in relay.told or len(relay.hellos) > greeted)


@pytest.mark.attack("FUZZ", "Last-Event-ID and cursors of every kind")
async def test_any_cursor_is_taken_or_refused(redis_url, broken, attack_length):
    chance = random.Random(5)
    async with serving(redis_url) as served, UplinkPeer(served) as machine, served.client() as http:
        await machine.hello("s1")
        for _ in range(attack_length(60, 3_000)):
            cursor = mutated({"c": "7:1"}, chance).decode("latin-1")[6:-1]
            header = "".join(c for c in cursor if c.isprintable() and c.isascii())
            headers = {"last-event-id": header.strip()[:4000]}
            async with http.stream("GET", "/api/sessions/s1/events", headers=headers) as events:
                assert events.status_code in {200, 400}
            log = await http.get("/api/sessions/s1/log", params={"after": cursor[:4000]})
            assert log.status_code in {200, 400}
    assert broken() == []
