"""The uplink's words, and the check that entries come without a hole."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol import uplink
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.uplink import (
    AgentCard,
    Arrivals,
    ConnectorCard,
    Hello,
    MailPosition,
    SessionCard,
    Stored,
)

law = settings(max_examples=100, deadline=None)


@st.composite
def logs(draw):
    """A log over several epochs, each beginning behind the one before."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    found, prev = [], None
    for number, length in enumerate(lengths, 1):
        found += [
            (Cursor(number * 10, seq), prev if seq == 1 else None) for seq in range(1, length + 1)
        ]
        prev = found[-1][0]
    return found


@law
@given(st.data())
def test_any_mix_of_repeats_and_holes_accepts_exactly_the_log_in_order(data):
    log = data.draw(logs())
    arrivals, accepted = Arrivals(), []
    while len(accepted) < len(log):
        # Anything up to the next one comes, or a jump ahead, as after a lost frame.
        index = data.draw(st.integers(0, len(log) - 1))
        cursor, prev = log[index]
        before = arrivals.last
        verdict = arrivals.accept(cursor, prev)
        if verdict:
            accepted.append(cursor)
            assert index == len(accepted) - 1
        elif verdict is False:
            assert cursor <= before
        else:
            assert index > len(accepted)
            assert arrivals.last == before
            accepted += self_heal(arrivals, log, len(accepted), index)
    assert accepted == [cursor for cursor, _ in log]


def self_heal(arrivals, log, first, last):
    """Send again from what is stored, as a connector does that was told of a hole."""
    healed = []
    for cursor, prev in log[first : last + 1]:
        assert arrivals.accept(cursor, prev) is True
        healed.append(cursor)
    return healed


def test_an_epoch_never_goes_back():
    arrivals = Arrivals(Cursor(20, 1))
    assert arrivals.accept(Cursor(10, 99)) is False
    assert arrivals.last == Cursor(20, 1)


def test_an_epoch_begins_at_one_behind_what_is_stored():
    assert Arrivals(Cursor(10, 5)).accept(Cursor(20, 2)) is None
    assert Arrivals(Cursor(10, 5)).accept(Cursor(20, 1), Cursor(10, 6)) is None
    assert Arrivals(Cursor(10, 5)).accept(Cursor(20, 1), Cursor(10, 5)) is True
    assert Arrivals(Cursor(10, 5)).accept(Cursor(20, 1)) is True
    assert Arrivals().accept(Cursor(20, 1), START) is True


def test_an_epoch_after_a_tail_that_only_the_relay_has_is_taken():
    assert Arrivals(Cursor(10, 9)).accept(Cursor(20, 1), Cursor(10, 5)) is True


@pytest.mark.parametrize(
    "value",
    [
        Hello(
            5,
            "w",
            ConnectorCard("1", "mbp", "os"),
            [AgentCard("a1", "claude", roots=["/app"], capabilities={"x": 1}, modes=["plan"])],
            [SessionCard("s1", "a1", 3, seq=2, usage={"used": 1}, config_options=[{}])],
            ["rt-1"],
            MailPosition(7),
        ),
        Stored("s1", 5, 6, resend=True),
        uplink.Mail(4, "m-1", uplink.Origin("alice"), {"method": "x", "params": {}}, 9),
        uplink.MailDone("m-1", {"stopReason": "end_turn"}),
        uplink.Presence("s1", [uplink.Watcher("bob", "viewer", "pixel", visible=False)]),
        uplink.HelloResult({"version": "1"}, {"frameBytes": 1}, [Stored("s1", 0, 0)], [], 8),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_said_is_read_as_it_was_meant(value):
    text = msgspec.json.encode(value)
    assert msgspec.json.decode(text, type=type(value)) == value


def test_words_on_the_wire_are_camel_case():
    text = msgspec.json.encode(SessionCard("s1", "a1", 3, config_options=[]))
    assert {"sessionId", "configOptions"} <= set(msgspec.json.decode(text))
    assert Stored("s1", 5, 6).cursor == Cursor(5, 6)
