"""What is said of an agent is true: at once when it goes, and never wrong while it streams."""

import pytest
from e2e.asking import chosen, opened_question
from fakes.running import asks

from bridge.agents import LEASE_MS
from bridge.protocol.attachment import GRACE_MS, SILENCE_MS, Reason, Seen, State, reduce

NOW = 1_800_000_000_000
HERE = Seen(connected_at=NOW, last_seen=NOW, lease_until=NOW + LEASE_MS)


async def test_a_killed_connector_is_told_at_once_and_its_sessions_stay_usable(stage):
    """C01."""
    at = await stage(turns=[[{"chunks": 3}, asks()]])
    alice, session = await at.opened(decide=True)
    await alice.call("_bridge/watch")
    alice.prompt(session, "go", echo=True)
    await opened_question(alice, session)
    await at.connector.kill()
    gone = await alice.until(is_attachment(at.name, "disconnected"))
    assert gone["params"]["agent"]["attachment"]["reason"] == "socket_closed"
    shown = await alice.session(session)
    assert shown["attachment"]["state"] == "disconnected"
    bob = await at.joined(session, "bob", role="viewer")
    assert bob.seqs(session) == alice.seqs(session)
    assert await bob.call("session/close", sessionId=session) == {}
    assert len(await bob.round_trips(session=session)) == 1


async def test_a_killed_connector_that_starts_again_goes_on_and_closes_what_was_open(stage):
    at = await stage(turns_by_text={"go": [asks()]}, load=[])
    alice, session = await at.opened()
    turn = alice.prompt(session, "go")
    asked = await alice.question()
    await at.connector.kill()
    await at.connect()
    await alice.withdrawn(asked)
    (record,) = await alice.round_trips("all", session)
    assert (record["result"], record["reason"]) == ("void", "restarted")
    with pytest.raises(Exception, match="not known|restarted"):
        await alice.answer(turn)
    await alice.answer(alice.prompt(session, "again"))
    assert chosen(at.agent) == {}


async def test_an_agent_that_streams_at_full_speed_is_never_said_to_be_away(stage):
    """C02."""
    at = await stage(turns=[[{"chunks": 3_000, "text": "x" * 2_000, "apart": True}]])
    alice, session = await at.opened()
    bob = await at.enter("bob", role="viewer")
    turn = alice.prompt(session, "go")
    states = set()
    while alice.count(session) < 3_000:
        status = await bob.call("_bridge/status", sessionId=session)
        states.add((status["state"], status["reason"]))
        await alice.has(session, min(alice.count(session) + 100, 3_000))
    await alice.answer(turn)
    assert states == {("attached", "ok")}


async def test_an_orderly_end_is_no_loss(stage):
    at = await stage()
    alice = await at.enter()
    await at.connector.end()
    attachment = (await alice.agent(at.name))["attachment"]
    assert (attachment["state"], attachment["reason"]) == ("ended", "said_goodbye")


@pytest.mark.parametrize(
    ("seen", "after", "state", "reason"),
    [
        (Seen(), 0, State.DETACHED, Reason.NEVER_CONNECTED),
        (HERE, SILENCE_MS, State.ATTACHED, Reason.OK),
        (HERE, SILENCE_MS + 1, State.UNRESPONSIVE, Reason.PONG_MISSED),
        (HERE, LEASE_MS, State.DISCONNECTED, Reason.RELAY_UNREACHABLE),
        (HERE, LEASE_MS + GRACE_MS, State.DETACHED, Reason.RELAY_UNREACHABLE),
        *(
            (Seen(NOW, NOW, NOW + LEASE_MS, NOW, reason), after, state, reason)
            for reason in (
                Reason.SOCKET_CLOSED,
                Reason.RELAY_RESTARTING,
                Reason.PONG_MISSED,
                Reason.REFUSED,
                Reason.REPLACED,
                Reason.TOKEN_REVOKED,
                Reason.TOKEN_EXPIRED,
            )
            for after, state in ((0, State.DISCONNECTED), (GRACE_MS, State.DETACHED))
        ),
        *(
            (Seen(NOW, NOW, NOW + LEASE_MS, NOW, reason), 0, State.ENDED, reason)
            for reason in (Reason.SAID_GOODBYE, Reason.AGENT_EXITED, Reason.AGENT_CRASHED)
        ),
    ],
)
def test_every_way_to_be_away_has_its_own_reason(seen, after, state, reason):
    """C17; and C01's lease."""
    found = reduce(seen, NOW + after)
    assert (found.state, found.reason) == (state, reason)


async def test_both_ends_tell_the_same_status_and_who_watches(stage):
    at = await stage(connect=False, turns=[[asks()]])
    editor = await at.editor()
    session = await editor.new(at.site.work)
    alice = await at.joined(session, "alice")
    turn = editor.prompt(session, "go")
    asked = await alice.question()
    here = there = None
    while here is None or not here["watching"]:
        here = await editor.call("session/bridgeStatus", sessionId=session)
        there = await alice.call("session/bridgeStatus", sessionId=session)
    assert here.keys() - {"detail"} == there.keys()
    same = ("state", "reason", "watching", "open")
    assert {name: here[name] for name in same} == {name: there[name] for name in same}
    (watcher,) = here["watching"]
    assert (watcher["subject"], watcher["role"], watcher["visible"]) == ("alice", "operator", True)
    assert len(here["open"]) == 1
    alice.choose(asked, "yes")
    await editor.answer(turn)


def is_attachment(name, state):
    def matches(message):
        agent = message["params"].get("agent", {}) if "params" in message else {}
        return (
            message["method"] == "_bridge/changed"
            and agent.get("name") == name
            and agent["attachment"]["state"] == state
        )

    return matches
