"""The text of what will run, from every place in which agents name it."""

import json

import pytest

from agent_side import subject
from bridge.protocol import round_trip

OPTIONS = [{"optionId": "a", "name": "Allow", "kind": "allow_once"}]


def compose(call, card=None, cwd="/work"):
    text = subject.of_permission({"toolCall": call, "options": OPTIONS}, card or {}, cwd)
    return json.loads(text)


def test_a_command_is_shown_with_its_other_arguments():
    found = compose({"kind": "execute", "title": "t", "rawInput": {"command": "ls", "timeout": 5}})
    assert found == {
        "v": 1,
        "kind": "execute",
        "title": "t",
        "cwd": "/work",
        "command": "ls",
        "arguments": {"timeout": 5},
        "scope": 'run exactly “ls” with {"timeout": 5} in /work',
        "options": [["a", "Allow", "allow_once"]],
    }


def test_a_command_that_is_a_list_stays_a_list_and_has_its_own_folder():
    raw = {"command": ["/bin/bash", "-lc", "make"], "cwd": "/other"}
    found = compose({"kind": "execute", "rawInput": raw})
    assert (found["command"], found["cwd"]) == (raw["command"], "/other")


def test_a_diff_comes_from_the_content_and_keeps_the_arguments():
    content = [{"type": "diff", "path": "/work/a", "oldText": None, "newText": "x"}]
    call = {"kind": "edit", "rawInput": {"file_path": "/work/a"}, "content": content}
    found = compose({**call, "locations": [{"path": "/work/a", "line": 3}]})
    assert found["diffs"] == [{"path": "/work/a", "oldText": None, "newText": "x"}]
    assert found["arguments"] == {"file_path": "/work/a"}
    assert found["paths"] == ["/work/a"]


def test_what_the_question_leaves_out_comes_from_the_earlier_card():
    card = {"kind": "execute", "title": "Run", "rawInput": {"command": "make", "cwd": "/w2"}}
    found = compose({"toolCallId": "c", "rawInput": {}}, card)
    assert (found["command"], found["kind"], found["title"]) == ("make", "execute", "Run")
    assert found["cwd"] == "/w2"


def test_the_question_s_own_facts_win_over_the_card_s():
    card = {"kind": "execute", "rawInput": {"command": "old"}}
    assert compose({"rawInput": {"command": "new"}}, card)["command"] == "new"


def test_an_agent_that_names_it_only_in_the_title_makes_no_command_of_it():
    note = [{"type": "content", "content": {"type": "text", "text": "[in /work]"}}]
    found = compose({"kind": "execute", "title": "echo hi", "content": note})
    assert "command" not in found
    assert (found["title"], found["texts"]) == ("echo hi", ["[in /work]"])


def test_odd_types_are_shown_and_break_nothing():
    found = compose(
        {"kind": 3, "rawInput": "text", "content": "x", "locations": [7], "title": None}
    )
    assert (found["kind"], found["arguments"]) == ("3", "text")
    assert compose(None)["kind"] == "other"


def test_the_same_facts_give_the_same_bytes():
    one = {"toolCall": {"rawInput": {"b": 1, "a": "é"}}, "options": OPTIONS}
    two = {"options": OPTIONS, "toolCall": {"rawInput": {"a": "é", "b": 1}}}
    assert subject.of_permission(one, {}, "/") == subject.of_permission(two, {}, "/")
    assert "é" in subject.of_permission(one, {}, "/")


def test_what_no_message_can_carry_says_so_and_may_not_be_allowed_from_afar():
    call = {"kind": "edit", "rawInput": {"text": "x" * (7 << 20)}}
    text = subject.of_permission({"toolCall": call, "options": OPTIONS}, {}, "/w")
    found = json.loads(text)
    assert found["truncated"] is True
    assert found["options"] == [["a", "Allow", "allow_once"]]
    assert not round_trip.is_decidable(text)


@pytest.mark.parametrize(
    "cut",
    [
        {"truncated": True},
        {"_meta": {"truncated": True}},
        {"toolCall": {"kind": "execute", "truncated": True}},
        {"toolCall": {"kind": "execute", "rawInput": {"command": "make", "truncated": True}}},
        {"toolCall": {"kind": "execute", "_meta": {"truncated": 1}}},
    ],
)
def test_what_an_agent_cut_says_so(cut):
    """A33."""
    asked = {"toolCall": {"kind": "execute"}, "options": OPTIONS, **cut}
    text = subject.of_permission(asked, {}, "/w")
    assert json.loads(text)["truncated"] is True
    assert not round_trip.is_decidable(text)


def test_a_form_that_was_cut_says_so():
    assert json.loads(subject.of_elicitation({"message": "M", "truncated": True}, "/w"))[
        "truncated"
    ]


def test_a_form_is_shown_whole():
    schema = {"type": "object", "properties": {"a": {"oneOf": [{"const": "x"}]}}}
    text = subject.of_elicitation({"message": "M", "mode": "form", "requestedSchema": schema}, "/w")
    assert json.loads(text)["form"] == {"message": "M", "mode": "form", "requestedSchema": schema}
