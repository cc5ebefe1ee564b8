"""Envelopes: what goes in comes out, byte for byte; what is no message is refused."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol import jsonrpc
from bridge.protocol.errors import InvalidParams, InvalidRequest, NotFound, ParseError
from bridge.protocol.jsonrpc import Notification, Request, Response

law = settings(max_examples=50, deadline=None)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.integers(-(2**53), 2**53) | texts
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(texts, values, max_size=4)
ANY_TEXT = st.lists(
    st.sampled_from(
        ["\\", "\\\\", '\\"', "\\ud83d", "\\ude00", "\\uD800", "\\u0041", "\\n", "a", "é"]
    )
).map("".join)


# Laws.


@law
@given(ids, texts, objects)
def test_a_request_is_read_as_it_was_written(id_, method, params):
    message = jsonrpc.parse_strict(jsonrpc.request(id_, method, params))
    assert isinstance(message, Request)
    assert (message.id, message.method, jsonrpc.payload(message.params)) == (id_, method, params)


@law
@given(texts, objects)
def test_a_notification_is_read_as_it_was_written(method, params):
    message = jsonrpc.parse(jsonrpc.notification(method, params))
    assert isinstance(message, Notification)
    assert (message.method, jsonrpc.payload(message.params)) == (method, params)


@law
@given(ids, values)
def test_a_result_is_read_as_it_was_written(id_, value):
    message = jsonrpc.parse(jsonrpc.result(id_, value))
    assert isinstance(message, Response)
    assert message.error is None
    assert (message.id, jsonrpc.value(message.result)) == (id_, value)


@law
@given(objects, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_params_stay_the_bytes_they_came_as(params, indent, ascii_only):
    text = json.dumps(params, indent=indent, ensure_ascii=ascii_only)
    line = f'{{"jsonrpc": "2.0", "method": "m", "params": {text}}}'.encode()
    message = jsonrpc.parse(line)
    assert bytes(message.params) == text.encode()
    assert text.encode() in jsonrpc.notification("m", message.params)


@law
@given(ANY_TEXT)
def test_mending_gives_valid_json_and_changes_nothing_else(inside):
    text = f'{{"a": "{inside}"}}'.encode()
    try:
        meant = json.loads(text)["a"]
    except ValueError:
        return  # it ended in an escape
    mended = jsonrpc.mend_surrogates(text)
    expected = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in meant)
    assert msgspec.json.decode(mended)["a"] == expected
    if expected == meant:
        assert mended == text


@law
@given(st.binary(max_size=60))
def test_any_bytes_are_a_message_or_one_of_two_errors(text):
    for read in (jsonrpc.parse, jsonrpc.parse_strict, jsonrpc.parse_lenient):
        with contextlib.suppress(ParseError, InvalidRequest):
            assert isinstance(read(text), Request | Notification | Response)


# Lines of agents.


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (rb'{"method":"m","params":{"a":"\ud800!"}}', "\ufffd!"),
        (rb'{"method":"m","params":{"a":"\udc00"}}', "\ufffd"),
        (rb'{"method":"m","params":{"a":"\ud83d\ude00"}}', "\U0001f600"),
        (rb'{"method":"m","params":{"a":"\\ud800"}}', r"\ud800"),
        (rb'{"method":"m","params":{"a":"\ud800\ud83d\ude00"}}', "\ufffd\U0001f600"),
        (b'{"method":"m","params":{"a":"\xff"}}', "\ufffd"),
    ],
    ids=["high", "low", "a pair", "an escaped backslash", "high before a pair", "bad UTF-8"],
)
def test_what_an_agent_breaks_is_mended(line, text):
    assert jsonrpc.value(jsonrpc.mend_surrogates(bytes(jsonrpc.parse_lenient(line).params))) == {
        "a": text
    }


def test_a_broken_envelope_of_an_agent_is_mended_too():
    assert jsonrpc.parse_lenient(rb'{"id":1,"method":"\ud800"}').method == "\ufffd"


# Hostile text.

DEEP = b'{"a":' * 10_000


@pytest.mark.parametrize("read", [jsonrpc.parse, jsonrpc.parse_strict, jsonrpc.parse_lenient])
@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", ParseError),
        (b"NaN", ParseError),
        (b'{"method":"m","params":{"a":NaN}}', ParseError),
        (b'{"method":"m","params":{"a":Infinity}}', ParseError),
        (b'{"id":1,"method":"m","params":' + DEEP, ParseError),
        (b'{"id":1,"method":"m","params":' + DEEP + b"1" + b"}" * 10_001, ParseError),
        (b"[" * 10_000, (ParseError, InvalidRequest)),
        (b'[{"id":1,"method":"m"}]', InvalidRequest),
        (b"7", InvalidRequest),
        (b'"text"', InvalidRequest),
        (b"null", InvalidRequest),
        (b"{}", InvalidRequest),
        (b'{"id":1}', InvalidRequest),
        (b'{"id":1,"result":1,"error":{}}', InvalidRequest),
        (b'{"result":1}', InvalidRequest),
        (b'{"id":1.5,"method":"m"}', InvalidRequest),
        (b'{"id":1e400,"method":"m"}', InvalidRequest),
        (b'{"id":true,"method":"m"}', InvalidRequest),
        (b'{"id":{},"method":"m"}', InvalidRequest),
        (b'{"id":null,"method":"m"}', InvalidRequest),
        (b'{"id":"' + b"x" * 10_000 + b'","method":"m"}', InvalidRequest),
        (b'{"id":' + b"9" * 10_000 + b',"method":"m"}', InvalidRequest),
        (b'{"id":1,"method":7}', InvalidRequest),
        (b'{"id":1,"method":"m","params":[]}', InvalidRequest),
        (b'{"id":1,"method":"m","params":"x"}', InvalidRequest),
    ],
    ids=lambda value: f"{value[-24:].decode()} {len(value)}" if isinstance(value, bytes) else None,
)
def test_what_is_no_message_is_refused(read, text, error):
    with pytest.raises(error):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        b'{"id":1,"id":2,"method":"m"}',
        b'{"id":1,"method":"m","params":{"a":1,"a":2}}',
        b'{"id":1,"method":"m","params":{"b":[{"a":1,"a":1}]}}',
    ],
    ids=["envelope", "params", "deeper"],
)
def test_a_key_that_is_there_twice_is_refused_from_clients(text):
    assert jsonrpc.parse(text)
    with pytest.raises(InvalidRequest, match="twice"):
        jsonrpc.parse_strict(text)


def test_a_lone_surrogate_from_a_client_is_no_json():
    with pytest.raises(ParseError):
        jsonrpc.parse_strict(rb'{"id":1,"method":"m","params":{"a":"\ud800"}}')


def test_an_id_that_is_no_utf8_is_no_json():
    with pytest.raises(ParseError):
        jsonrpc.parse(b'{"id":"\xff","method":"m"}')


def test_an_id_may_be_as_long_as_the_limit():
    text = b'{"id":"' + b"x" * (jsonrpc.ID_LIMIT - 2) + b'","method":"m"}'
    assert len(jsonrpc.parse(text).id) == jsonrpc.ID_LIMIT - 2


def test_params_that_are_null_or_left_out_are_an_empty_object():
    for text in (b'{"method":"m","params":null}', b'{"method":"m"}'):
        assert jsonrpc.payload(jsonrpc.parse(text).params) == {}


# Answers and values.


def test_an_error_carries_code_sentence_and_reason():
    reply = json.loads(jsonrpc.error(3, NotFound("unknown session 's1'")))
    assert reply == {
        "jsonrpc": "2.0",
        "id": 3,
        "error": {
            "code": -32002,
            "message": "unknown session 's1'",
            "data": {"reason": "not_found"},
        },
    }


def test_an_agents_error_goes_on_as_it_is():
    failure = {"code": -1, "message": "x", "data": [1]}
    assert json.loads(jsonrpc.error("a", failure))["error"] == failure


def test_fields_are_raw_and_only_objects_have_them():
    found = jsonrpc.fields(msgspec.Raw(b'{"a": [1,  2], "b": {}}'))
    assert {name: bytes(raw) for name, raw in found.items()} == {"a": b"[1,  2]", "b": b"{}"}
    for text in (b"[1]", b"7", b"no json", DEEP):
        with pytest.raises(InvalidParams):
            jsonrpc.fields(msgspec.Raw(text))


def test_a_payload_is_an_object():
    with pytest.raises(InvalidParams, match="got list"):
        jsonrpc.payload(b"[1]")
    with pytest.raises(InvalidParams, match="not a JSON value"):
        jsonrpc.payload(DEEP)
