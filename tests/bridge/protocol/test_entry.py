"""The entries of a log: stamped by the connector, of which the relay reads only the envelope."""

import contextlib
import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol import entry, jsonrpc
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import META_KEY, Meta, Origin, RoundTrip
from bridge.protocol.errors import InvalidRequest

law = settings(max_examples=50, deadline=None)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
origins = st.builds(Origin, words, words, words, words)
round_trips = st.builds(
    RoundTrip, words, st.sampled_from(["permission", "elicitation"]), words, words, st.lists(words)
)
metas = st.builds(
    Meta,
    st.integers(1, 2**53),
    st.integers(1, 2**53),
    words,
    st.none() | origins,
    st.none() | round_trips,
    st.none() | words,
    st.none() | words,
)


@law
@given(st.sampled_from(sorted(entry.METHODS)), words, metas)
def test_an_entry_is_read_as_it_was_stamped(method, session, meta):
    text = entry.stamp(method, session, meta, {"update": {"a": 1}})
    for envelope in (entry.read(text), entry.sift(text)):
        assert (envelope.method, envelope.session_id, envelope.meta) == (method, session, meta)
        assert envelope.cursor == Cursor(meta.epoch, meta.seq)


@law
@given(st.binary(max_size=80))
def test_any_bytes_are_an_entry_another_message_or_refused(text):
    with contextlib.suppress(InvalidRequest):
        assert entry.sift(text) is None


def test_fields_and_the_agents_own_meta_stay_as_they_are():
    raw = msgspec.Raw(b'{"text":  "as it is"}')
    text = entry.stamp(
        entry.UPDATE, "s1", Meta(1, 1), {"update": raw}, agent_meta={"claude": {"x": 1}}
    )
    assert bytes(raw) in text
    assert json.loads(text)["params"]["_meta"] == {
        "claude": {"x": 1},
        META_KEY: {"epoch": 1, "seq": 1},
    }


def test_an_agent_cannot_stamp_an_entry_itself():
    forged = {META_KEY: {"epoch": 9, "seq": 9}}
    text = entry.stamp(entry.UPDATE, "s1", Meta(1, 1), {"sessionId": "s9"}, agent_meta=forged)
    envelope = entry.read(text)
    assert (envelope.session_id, envelope.cursor) == ("s1", Cursor(1, 1))


def test_a_question_is_a_request_under_its_own_id():
    text = entry.stamp(entry.PERMISSION, "s1", Meta(1, 1), {}, id_="rt-1")
    assert jsonrpc.parse(text).id == "rt-1"


@pytest.mark.parametrize(
    ("method", "origin", "plain"),
    [
        (entry.UPDATE, None, True),
        (entry.UPDATE, Origin("alice"), False),
        (entry.TURN, None, False),
        (entry.PERMISSION, None, False),
    ],
)
def test_only_updates_that_no_person_caused_go_to_everybody_as_they_are(method, origin, plain):
    text = entry.stamp(method, "s1", Meta(1, 1, origin=origin), {})
    assert entry.read(text).is_plain is plain


@pytest.mark.parametrize(
    "text",
    [
        jsonrpc.notification("uplink/ping", {"n": 1}),
        jsonrpc.notification("uplink/ack", {"sessionId": "s1", "seq": 1}),
        jsonrpc.request(1, "uplink/hello", {}),
        jsonrpc.result(1, {}),
        entry.stamp("session/prompt", "s1", Meta(1, 1), {}),
    ],
)
def test_other_messages_are_no_entries(text):
    assert entry.sift(text) is None
    with pytest.raises(InvalidRequest):
        entry.read(text)


@pytest.mark.parametrize("text", [b"0", b"[]", b"null", b'{"method":{}}', b"{}"])
def test_what_is_no_message_is_no_entry(text):
    assert entry.sift(text) is None


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"sessionId": "s1"},
        {"sessionId": "s1", "_meta": {META_KEY: {"epoch": 1}}},
        {"sessionId": "s1", "_meta": {META_KEY: {"epoch": 1.5, "seq": 1}}},
        {"sessionId": 7, "_meta": {META_KEY: {"epoch": 1, "seq": 1}}},
    ],
)
def test_an_entry_without_its_stamp_is_refused(params):
    with pytest.raises(InvalidRequest):
        entry.sift(jsonrpc.notification(entry.UPDATE, params))


@pytest.mark.parametrize("text", [b"", b"NaN", b'{"method":"m","x":' + b'{"a":' * 10_000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(InvalidRequest):
        entry.sift(text)


@law
@given(st.integers(0, 4_102_444_800_000))
def test_a_time_is_read_as_it_was_written(ms):
    assert entry.milliseconds(entry.timestamp(ms)) == ms
    assert entry.timestamp(ms).endswith("Z")


def test_without_a_time_it_is_now():
    assert abs(entry.milliseconds(entry.timestamp()) - entry.milliseconds(entry.timestamp())) < 5000
