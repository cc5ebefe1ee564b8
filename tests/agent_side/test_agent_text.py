"""What agents send: bytes kept, forgeries out, huge values replaced on their way."""

import json

import msgspec
import pytest

from agent_side.agent_text import VALUE_LIMIT, clean, shortened_update
from bridge.protocol import jsonrpc

BIG = "x" * (VALUE_LIMIT + 1)


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
    size = len(BIG) + 2
    assert short["rawOutput"] == {"shortened": True, "bytes": size}
    assert short["_meta"] == {"k": {"shortened": True, "bytes": size}, "s": 1}
    assert decoded(found.short_meta) == {"big": {"shortened": True, "bytes": size}, "small": 1}


def test_huge_content_becomes_a_content_of_text():
    diff = {"type": "diff", "path": "/a", "newText": BIG}
    text = {"type": "content", "content": {"type": "text", "text": BIG}}
    small = {"type": "content", "content": {"type": "text", "text": "ok"}}
    one, two, three = shortened_update({"content": [diff, text, small]})["content"]
    assert one["content"]["text"].startswith("[changes to /a: ")
    assert two["content"]["text"].startswith("[output: ")
    assert three == small


def test_a_message_of_some_length_is_not_shortened():
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": BIG}}
    assert decoded(cleaned({"update": update}).short["update"]) == update
