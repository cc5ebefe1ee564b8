"""What reads what others wrote: whatever comes, it is read or refused, and never breaks."""

import contextlib
import json
import random

import msgspec
import pytest
from fakes.device import FakeDevice
from fakes.mutations import mutated
from hypothesis import given
from hypothesis import strategies as st

from agent_side import risk, subject
from agent_side.agent_text import clean
from agent_side.agents.lines import LineSplitter
from agent_side.redaction import Redaction
from bridge import address, logs
from bridge.effects import effect_of
from bridge.protocol import chunk, entry, jsonrpc, pairing, round_trip, signing, uplink
from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import BridgeError
from bridge.protocol.signing import DecisionClaims, MailClaims

DEVICE = FakeDevice()
DECISION = {
    "id": "rt-1",
    "sessionId": "s1",
    "epoch": 1,
    "hash": "9c",
    "answer": {"optionId": "yes"},
    "decisionId": "d1",
}
OPTIONS = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
CALL = {
    "toolCallId": "c1",
    "title": "Push",
    "kind": "execute",
    "rawInput": {"command": "git push", "cwd": "/w", "env": {"A": "b"}},
    "content": [{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}],
    "locations": [{"path": "/a", "line": 1}],
    "_meta": {"truncated": False},
}
ASKED = {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS, "_meta": {"x": 1}}
SUBJECT = json.loads(subject.of_permission(ASKED, {}, "/w"))
TRIP = {"id": "rt-1", "kind": "permission", "subject": json.dumps(SUBJECT), "hash": "9c"}
META = {"epoch": 7, "seq": 2, "at": "2026-12-01T09:00:00.120Z", "prev": "6:9"}
QUESTION = {
    "jsonrpc": "2.0",
    "id": "rt-1",
    "method": entry.PERMISSION,
    "params": {**ASKED, "_meta": {entry.META_KEY: {**META, "roundTrip": TRIP}}},
}
RESOLVED = {"sessionId": "s1", "id": "rt-1", "result": "applied", "reason": "decided"}
END = {
    "jsonrpc": "2.0",
    "method": entry.RESOLVED,
    "params": {**RESOLVED, "by": {"subject": "a"}, "_meta": {entry.META_KEY: META}},
}
CHUNK = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
HELLO = {
    "epoch": 7,
    "writer": "w",
    "connector": {"version": "1", "host": "h", "os": "o"},
    "agents": [{"id": "a1", "name": "claude", "roots": ["/"], "devices": []}],
    "sessions": [{"sessionId": "s1", "agent": "a1", "counter": 1, "seq": 1}],
    "open": ["rt-1"],
    "mail": {"journaled": 0},
}
MAIL = {
    "n": 1,
    "mailId": "m1",
    "origin": {"subject": "alice"},
    "message": {"method": "session/prompt", "params": {}},
}
ANSWER = {"v": 1, "key": DEVICE.key, "name": "Pixel", "subject": "alice", "nonce": "ab"}


def raw_fields(text):
    return clean(jsonrpc.fields(msgspec.Raw(text)), len(text))


def value(text):
    return msgspec.json.decode(text)


def opened(text):
    """What the relay makes of an entry that a connector sent."""
    return effect_of(None_claim, "s1", text, entry.read(text))


class None_claim:  # noqa: N801 (stands for a value that is only passed on)
    agent = "a1"


def typed(type_):
    return lambda text: jsonrpc.typed(msgspec.Raw(text), type_)


# What reads, a good message for it, and what it may raise.
READERS = {
    "a message": (jsonrpc.parse, QUESTION, BridgeError),
    "a client's message": (jsonrpc.parse_strict, QUESTION, BridgeError),
    "an agent's line": (jsonrpc.parse_lenient, QUESTION, BridgeError),
    "an entry": (entry.read, QUESTION, BridgeError),
    "an entry among others": (entry.sift, END, BridgeError),
    "a question's effect": (opened, QUESTION, BridgeError),
    "an end's effect": (opened, END, BridgeError),
    "a chunk": (chunk.read, CHUNK, ()),
    "an agent's fields": (raw_fields, ASKED, (BridgeError, msgspec.DecodeError)),
    "a greeting": (typed(uplink.Hello), HELLO, BridgeError),
    "a mail": (typed(uplink.Mail), MAIL, BridgeError),
    "a pairing's answer": (
        lambda text: pairing.read_answer(text.decode("utf-8", "surrogateescape")),
        ANSWER,
        BridgeError,
    ),
    "secrets": (Redaction(patterns=["x+y"]).text, QUESTION, ()),
    "kinds of secrets": (Redaction().kinds, QUESTION, ()),
}


@pytest.mark.attack("FUZZ", "every parser of bytes: torn and changed messages")
@pytest.mark.parametrize("name", READERS)
def test_whatever_comes_is_read_or_refused(name, attack_length, figure):
    read, good, refusals = READERS[name]
    read(json.dumps(good).encode())
    refused, rounds = 0, attack_length(300, 20_000)
    chance = random.Random(name)
    for number in range(rounds):
        text = mutated(good, chance)
        try:
            read(text)
        except refusals:
            refused += 1
        except Exception as error:
            raise AssertionError(f"{name}, {number}: {text[:500]!r}") from error
    figure(f"{name}: {rounds:,}, refused {refused:,}")


@pytest.mark.attack("FUZZ", "a question composed from whatever an agent sends")
def test_any_question_has_a_subject_that_says_what_it_was_made_of(attack_length, figure):
    rounds, chance = attack_length(300, 20_000), random.Random(1)
    for _ in range(rounds):
        try:
            asked = json.loads(mutated(ASKED, chance))
        except ValueError:
            continue
        if not isinstance(asked, dict):
            continue
        text = subject.of_permission(asked, asked, "/w")
        again = json.loads(text)
        assert json.dumps(again, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert again["v"] == 1
        assert risk.rate(text) in {"low", "medium", "high"}
        assert round_trip.is_decidable(text) is not again.get("truncated", False)
    figure(f"{rounds:,} questions")


@pytest.mark.attack("FUZZ", "signatures: torn tokens of changed claims, signed or not")
def test_no_changed_signature_is_taken_for_another(attack_length, figure):
    good = DEVICE.decision(**DECISION)
    chance, taken = random.Random(2), 0
    for _ in range(attack_length(100, 5_000)):
        claims = {**json.loads(signing._bytes64(good.split(".")[1]))}
        signed = DEVICE.jws({"alg": "ES256", "typ": "decision+jwt"}, mutated(claims, chance))
        cut = chance.randrange(len(signed))
        for jws in (
            signed,
            signed[:cut] + chance.choice("._-A=\n") + signed[cut + 1 :],
            signed[cut:],
        ):
            for read in (
                lambda text: signing.verify(text, DEVICE.key, DecisionClaims),
                lambda text: signing.unverified(text, MailClaims),
                signing.claimed_by,
            ):
                try:
                    found = read(jws)
                except BridgeError:
                    continue
                if isinstance(found, DecisionClaims):
                    taken += jws != signed
                    assert found.device == DEVICE.id
    figure(f"changed after signing and taken {taken}")
    assert taken == 0


@pytest.mark.parametrize(
    ("read", "refusals"),
    [
        (Cursor.parse, BridgeError),
        (pairing.read_code, BridgeError),
        (signing.device_id, BridgeError),
        (address.shown, BridgeError),
        (logs.safe, ()),
        (entry.milliseconds, (ValueError, OverflowError)),
        (round_trip.is_cut, ()),
        (Redaction().words, ()),
        (Redaction().is_open, ()),
    ],
    ids=lambda read: getattr(read, "__qualname__", ""),
)
@given(
    text=st.text() | st.from_regex(r"[\d:.\-TZ+]{0,30}") | st.from_regex(r"redis[+a-z]*://.{0,40}")
)
def test_whatever_is_written_is_read_or_refused(read, refusals, text):
    with contextlib.suppress(refusals):
        read(text)


@given(st.integers(1, 1 << 53), st.integers(1, 1 << 53))
def test_a_cursor_is_read_as_it_is_written(epoch, seq):
    cursor = Cursor(epoch, seq)
    assert Cursor.parse(str(cursor)) == cursor
    assert Cursor.from_stream_id(cursor.stream_id) == cursor


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 7))
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines, step):
    lines = [line.replace(b"\n", b"") for line in lines]
    text, splitter, found = b"".join(line + b"\n" for line in lines), LineSplitter(1000), []
    for at in range(0, len(text), step):
        found += splitter.feed(text[at : at + step])
    assert found == lines
    assert splitter.rest() == b""


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | st.text(), st.lists)
)
def test_what_is_encoded_is_decoded_the_same(params):
    text = jsonrpc.notification("a/b", {"value": params})
    message = jsonrpc.parse(text)
    assert jsonrpc.payload(message.params) == {"value": params}
