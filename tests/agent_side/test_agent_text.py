"""What agents send: bytes kept, forgeries out, huge values replaced on their way."""

import json

import msgspec
import pytest

from agent_side.agent_text import (
    FIELD_LIMIT,
    HEAD_LENGTH,
    VALUE_LIMIT,
    clean,
    shortened_update,
)
from bridge.protocol import jsonrpc

BIG = "x" * (VALUE_LIMIT + 1)
HEADED = f"{BIG[:HEAD_LENGTH]}…\n[{len(BIG):,} bytes in all, kept on the machine]"


def cleaned(params):
    raw = params if isinstance(params, bytes) else json.dumps(params).encode()
    return clean(jsonrpc.fields(msgspec.Raw(raw)), len(raw))


def decoded(fields):
    return json.loads(jsonrpc.encode(fields))


def test_the_agent_s_bytes_stay():
    found = cleaned(b'{"sessionId": "s", "update": {"a" :  1.50, "b":"\\u00e9"}}')
    assert bytes(found.fields["update"]) == b'{"a" :  1.50, "b":"\\u00e9"}'
    assert list(found.fields) == ["update"]


@pytest.mark.parametrize("key", ["chimera.bridge", r"chimera\u002ebridge", r"\u0063himera.bridge"])
def test_our_key_is_taken_out_of_every_meta(key):
    mine = f'{{"{key}": {{"seq": 1}}, "other": 2}}'
    update = f'{{"_meta": {mine}, "content": [{{"_meta": {mine}}}]}}'
    found = cleaned(f'{{"sessionId": "s", "_meta": {mine}, "update": {update}}}'.encode())
    assert decoded(found.meta) == {"other": 2}
    kept = {"_meta": {"other": 2}, "content": [{"_meta": {"other": 2}}]}
    assert decoded(found.fields["update"]) == kept


def test_what_runs_is_never_edited():
    update = {"rawInput": {"_meta": {"chimera.bridge": "an argument"}}}
    assert decoded(cleaned({"update": update}).fields["update"]) == update


def test_a_meta_that_is_no_object_is_left_out():
    assert cleaned({"update": {}, "_meta": 5}).meta is None


def test_a_small_message_has_no_short_form():
    assert cleaned({"update": {"rawOutput": "x"}}).short is None


def test_a_huge_output_and_meta_are_replaced_and_the_full_text_stays():
    update = {"sessionUpdate": "tool_call_update", "rawOutput": BIG, "_meta": {"k": BIG, "s": 1}}
    found = cleaned({"update": update, "_meta": {"big": BIG, "small": 1}})
    assert decoded(found.fields["update"]) == update
    short = decoded(found.short["update"])
    assert short["rawOutput"] == HEADED
    assert short["_meta"] == {"k": HEADED, "s": 1}
    assert decoded(found.short_meta) == {"big": HEADED, "small": 1}


def test_an_output_of_too_many_small_parts_gives_way_to_its_length():
    parts = list(range(VALUE_LIMIT))
    size = len(jsonrpc.encode(parts))
    assert shortened_update({"rawOutput": parts})["rawOutput"] == {"shortened": True, "bytes": size}


def test_huge_content_becomes_a_content_of_text():
    diff = {"type": "diff", "path": "/a", "newText": BIG}
    text = {"type": "content", "content": {"type": "text", "text": BIG}}
    small = {"type": "content", "content": {"type": "text", "text": "ok"}}
    one, two, three = shortened_update({"content": [diff, text, small]})["content"]
    assert one["content"]["text"].startswith("[changes to /a: ")
    assert two["content"]["text"] == HEADED
    assert three == small


def test_a_message_of_some_length_is_not_shortened():
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": BIG}}
    assert cleaned({"update": update}).short is None


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 2**21}},
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "rawInput": "x" * 2**21},
        {"sessionUpdate": "plan", "entries": [{"content": "é" * 50}] * 40_000},
        {"sessionUpdate": "not_known", "deep": {"list": [["x" * 2**21]]}},
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_whatever_is_huge_in_an_update_its_short_form_has_the_same_types(update):
    """B21, G02."""
    short = decoded(cleaned({"update": update}).short["update"])
    assert len(jsonrpc.encode(short)) <= FIELD_LIMIT
    assert {k: type(v) for k, v in short.items()} == {k: type(v) for k, v in update.items()}
    assert short["sessionUpdate"] == update["sessionUpdate"]


def test_what_a_question_will_run_is_not_shortened_as_far_as_it_can_be_allowed():
    content = [{"type": "diff", "path": "/a", "newText": BIG}]
    call = {"toolCallId": "c", "rawInput": {"text": BIG}, "content": content, "rawOutput": BIG}
    short = decoded(cleaned({"toolCall": call}).short["toolCall"])
    assert short == {**call, "rawOutput": HEADED}
