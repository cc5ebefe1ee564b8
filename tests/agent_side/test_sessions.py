"""Sessions by themselves: ids and tool calls."""

import uuid

import pytest

from agent_side.sessions import _title, new_session_id
from agent_side.tool_cards import CARDS_KEPT, ToolCards


def call(id_, kind="tool_call", **more):
    return {"sessionUpdate": kind, "toolCallId": id_, **more}


def test_session_ids_are_random_and_sort_by_time():
    ids = [uuid.UUID(new_session_id()) for _ in range(100)]
    assert {(i.version, i.variant) for i in ids} == {(7, uuid.RFC_4122)}
    assert len(set(ids)) == 100
    assert [i.int >> 80 for i in ids] == sorted(i.int >> 80 for i in ids)


def test_a_card_is_what_the_agent_said_last_of_each_field():
    cards = ToolCards()
    cards.take(call("c", title="Terminal", rawInput={}))
    cards.take(call("c", "tool_call_update", rawInput={"command": "ls"}, title=None))
    assert cards.get("c") == {
        "status": "pending",
        "title": "Terminal",
        "rawInput": {"command": "ls"},
    }


def test_ended_calls_are_forgotten_and_the_open_ones_named():
    cards = ToolCards()
    cards.take(call("a"))
    cards.take(call("b", status="in_progress"))
    cards.take(call("a", "tool_call_update", status="completed"))
    cards.take(call("ghost", "tool_call_update", title="never begun"))
    cards.take({"sessionUpdate": "plan"})
    cards.take(call(7))
    assert cards.get("a") == {}
    assert cards.close_all() == ["b"]
    assert cards.close_all() == []


def test_an_agent_that_closes_nothing_does_not_fill_the_memory():
    cards = ToolCards()
    for number in range(CARDS_KEPT + 10):
        cards.take(call(f"c{number}"))
    assert cards.get("c0") == {}
    assert len(cards.close_all()) == CARDS_KEPT


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("fix\nthe\tparser", "fix the parser"),
        ("main\u202e && rm\u200b", "main && rm"),
        ("bell\x07 \ud800", "bell "),
        ("x" * 3_000_000, "x" * 80),
    ],
    ids=["lines", "direction", "controls", "long"],
)
def test_a_title_is_one_short_line_that_hides_nothing(given, shown):
    assert _title(given) == shown
