"""How the connector tells that it is attached, or why not."""

from agent_side.status import Status
from bridge.protocol.attachment import Reason
from bridge.protocol.uplink import Presence, Watcher


def status():
    told = []
    return Status("wss://r.test", lambda: told.append(1)), told


def test_it_begins_unconnected_and_says_when_it_is_attached():
    it, told = status()
    assert it.as_json([])["reason"] == "never_connected"
    it.connect()
    shown = it.as_json(["rt-1"])
    assert (shown["state"], shown["reason"], shown["open"]) == ("attached", "ok", ["rt-1"])
    assert shown["since"].endswith("Z")
    assert told == [1]


def test_the_same_failure_is_news_once():
    it, told = status()
    assert it.lose(Reason.RELAY_UNREACHABLE, "nothing listens there")
    assert not it.lose(Reason.RELAY_UNREACHABLE, "nothing listens there")
    assert it.lose(Reason.RELAY_UNREACHABLE, "HTTP 502")
    assert len(told) == 2
    assert it.as_json([])["detail"] == "HTTP 502"


def test_since_is_when_it_was_lost_not_when_it_failed_again(monkeypatch):
    now = [1_000_000]
    monkeypatch.setattr("agent_side.status.now_ms", lambda: now[0])
    it, _ = status()
    it.connect()
    now[0] += 5_000
    it.lose(Reason.SOCKET_CLOSED, "gone")
    now[0] += 61_000
    it.lose(Reason.RELAY_UNREACHABLE, "nothing listens there")
    found = it.attachment()
    assert (found.state, found.since, found.last_seen) == ("detached", 1_005_000, 1_000_000)


def test_watchers_are_counted_once_and_forgotten_with_the_connection():
    it, _ = status()
    it.connect()
    alice, bob = Watcher("alice", "approver", "pixel"), Watcher("bob", "viewer")
    it.watch(Presence("s1", [alice]))
    it.watch(Presence("s2", [alice, bob]))
    assert it.watching("s1") == [alice]
    assert it.watching() == [alice, bob]
    it.lose(Reason.SOCKET_CLOSED, "gone")
    assert it.watching() == []
