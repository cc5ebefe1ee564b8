"""Whether an agent is reachable, from what is known of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol import attachment
from bridge.protocol.attachment import ENDING, GRACE_MS, SILENCE_MS, Reason, Seen, State, reduce

law = settings(max_examples=100, deadline=None)
ORDER = [State.ATTACHED, State.UNRESPONSIVE, State.DISCONNECTED, State.DETACHED, State.ENDED]
T = 1_000_000


@st.composite
def seen(draw):
    """What may be known of one connection."""
    connected = draw(st.integers(0, 2 * T))
    heard = draw(st.integers(connected, connected + T))
    lease = draw(st.integers(heard, heard + T))
    closed = draw(st.just(0) | st.integers(heard, heard + T))
    reasons = st.sampled_from([r for r in Reason if r is not Reason.OK])
    return Seen(connected, heard, lease, closed, draw(reasons) if closed else Reason.OK)


@law
@given(seen(), st.lists(st.integers(0, 5 * T), min_size=2, max_size=6))
def test_with_time_alone_an_agent_only_gets_further_away(known, times):
    begun = max(known.last_seen, known.closed_at)
    states = [ORDER.index(reduce(known, begun + time).state) for time in sorted(times)]
    assert states == sorted(states)


@law
@given(seen(), st.integers(0, 10 * T))
def test_there_is_always_a_reason_of_the_list_and_a_time_that_has_been(known, now):
    found = reduce(known, now)
    assert isinstance(found.state, State)
    assert isinstance(found.reason, Reason)
    assert (found.reason is Reason.OK) == (found.state is State.ATTACHED)
    if found.state is not State.ATTACHED and now >= max(known.last_seen, known.closed_at):
        assert found.since <= now


def test_who_never_came_is_detached():
    assert reduce(Seen(), 5).reason is Reason.NEVER_CONNECTED


@pytest.mark.parametrize(
    ("later", "state", "reason"),
    [
        (0, "attached", "ok"),
        (SILENCE_MS, "attached", "ok"),
        (SILENCE_MS + 1, "unresponsive", "pong_missed"),
        (30_000, "disconnected", "relay_unreachable"),
        (30_000 + GRACE_MS - 1, "disconnected", "relay_unreachable"),
        (30_000 + GRACE_MS, "detached", "relay_unreachable"),
    ],
)
def test_an_open_socket_that_falls_silent(later, state, reason):
    found = reduce(Seen(T, T, T + 30_000), T + later)
    assert (found.state, found.reason) == (state, reason)


@pytest.mark.parametrize("reason", sorted(ENDING))
def test_who_said_why_it_ends_has_ended_at_once(reason):
    found = reduce(Seen(T, T, T + 30_000, T + 1, reason), T + 2)
    assert (found.state, found.reason, found.since) == ("ended", reason, T + 1)


def test_a_lost_socket_has_its_grace():
    known = Seen(T, T, T + 30_000, T + 1, Reason.SOCKET_CLOSED)
    assert reduce(known, T + GRACE_MS).state is State.DISCONNECTED
    assert reduce(known, T + 1 + GRACE_MS).state is State.DETACHED
    assert reduce(known, T + GRACE_MS).since == T + 1


def test_unknown_is_a_state_and_the_times_are_those_of_the_uplink():
    assert State("unknown")
    assert attachment.SILENCE_MS <= 20_000
