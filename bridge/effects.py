"""What an entry does beside being stored: a question opens a round-trip, its end closes it.

Of a turn's beginning and end those are told who do not read the session. The append script does it
in the same step. An effect is JSON of flat text fields, because Lua's JSON turns empty lists into
objects and long numbers into floats.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import msgspec

from bridge import keys
from bridge.agents import Claim
from bridge.changes import Change, notice
from bridge.protocol import entry, jsonrpc, round_trip
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import InvalidParams
from bridge.protocol.round_trip import Resolved

NOTED = frozenset({entry.APPROVAL_CHANGED, entry.VIOLATION})
WORDS_LIMIT = 500  # characters of what the audit keeps of them
TITLE_LIMIT = 200  # characters; the record keeps the whole subject


class Effect(NamedTuple):
    """One entry's effect; no text, no effect."""

    text: bytes  # {"open" | "resolved": {field: text}, "notice": text}, or the notice alone
    about: str  # the round-trip's id, or the turn's


NO_EFFECT = Effect(b"", "")
_TOLD_TURNS = frozenset({"started", "ended", "unknown"})


class _Turn(msgspec.Struct, rename="camel"):
    turn: str
    state: str
    stop_reason: str | None = None
    error: Any = None


class _TurnEntry(msgspec.Struct):
    params: _Turn


_decode_turn = msgspec.json.Decoder(_TurnEntry).decode


def effect_of(claim: Claim, session: str, payload: bytes, envelope: Envelope) -> Effect:
    """Find out an entry's effect; raises InvalidParams when a round-trip in it is malformed."""
    if envelope.method in entry.QUESTIONS and envelope.meta.round_trip is not None:
        return _opening(claim, session, payload, envelope)
    if envelope.method == entry.RESOLVED:
        return _closing(claim, session, payload)
    if envelope.method == entry.ESCALATED:
        return _escalating(claim, session, payload)
    if envelope.method in NOTED:
        return _noting(claim, session, payload, envelope)
    if envelope.method == entry.TURN:
        return _turning(claim, session, payload)
    return NO_EFFECT


def _opening(claim: Claim, session: str, payload: bytes, envelope: Envelope) -> Effect:
    """Describe the record that a question opens, as fields of text."""
    asked = envelope.meta.round_trip
    assert asked is not None
    keys.check_id(asked.id, "round-trip id")
    asked_at = (
        _milliseconds(envelope.meta.at, "at") if envelope.meta.at else time.time_ns() // 10**6
    )
    kinds = _kinds(asked.subject)
    params = jsonrpc.payload(jsonrpc.fields(msgspec.Raw(payload))["params"])
    card = params.get("toolCall")
    call = card.get("toolCallId", "") if isinstance(card, dict) else params.get("toolCallId", "")
    fields = {
        "id": asked.id,
        "kind": asked.kind,
        "subject": asked.subject,
        "hash": asked.hash,
        "risk": asked.risk,
        "truncated": "1" if round_trip.is_cut(asked.subject) else "",
        "title": _title(asked.subject),
        "option_ids": json.dumps(asked.option_ids),
        "option_kinds": json.dumps({id_: kinds.get(id_, "") for id_ in asked.option_ids}),
        "asked_at": str(asked_at),
        "expires_at": str(_milliseconds(asked.expires_at, "expiresAt")) if asked.expires_at else "",
        "calls": "" if asked.calls is None else json.dumps(asked.calls),
        "people": str(asked.people),
        "relay_rules": "1" if asked.relay_rules else "",
        "tool_call_id": call if isinstance(call, str) else "",
    }
    told = Change("roundTrip", asked.id, session_id=session, agent=claim.agent, state="open")
    return _effect("open", fields, told)


def _closing(claim: Claim, session: str, payload: bytes) -> Effect:
    """Describe how a round-trip ended, as fields of text."""
    params = jsonrpc.fields(msgspec.Raw(payload))["params"]
    end = jsonrpc.typed(params, Resolved)
    keys.check_id(end.id, "round-trip id")
    fields = {
        "id": end.id,
        "result": end.result.value,
        "reason": end.reason.value,
        "answer": "" if end.answer is None else msgspec.json.encode(end.answer).decode(),
        "by": "" if end.by is None else msgspec.json.encode(end.by).decode(),
        "rule": end.rule.id if end.rule else "",
        "words": end.rule.words if end.rule else "",
        **(msgspec.structs.asdict(end.asked) if end.asked else {}),
    }
    told = Change(
        "roundTrip",
        end.id,
        session_id=session,
        agent=claim.agent,
        state="closed",
        by=end.by,
        answer=end.answer,
        result=end.result.value,
        reason=end.reason.value,
    )
    return _effect("resolved", fields, told)


def _escalating(claim: Claim, session: str, payload: bytes) -> Effect:
    """Describe that a question is open for too long, as its machine says."""
    id_ = _params(payload).get("id")
    try:
        keys.check_id(id_ if isinstance(id_, str) else "", "round-trip id")
    except InvalidParams:  # it is shown as it is, and told to nobody
        return NO_EFFECT
    told = Change(
        "roundTrip",
        str(id_),
        session_id=session,
        agent=claim.agent,
        state="open",
        reason="escalated",
    )
    return _effect("escalated", {"id": str(id_)}, told)


def _noting(claim: Claim, session: str, payload: bytes, envelope: Envelope) -> Effect:
    """Describe what the audit keeps of a preset that changed, or of what one refused."""
    params, origin = _params(payload), envelope.meta.origin
    if envelope.method == entry.APPROVAL_CHANGED:
        words = f"{params.get('old')} → {params.get('new')}"
    else:
        about = params.get("path") or params.get("command") or ""
        words = f"{params.get('mode')}: {params.get('tool')} {about}"
    fields = {
        "event": envelope.method.removeprefix("_bridge/"),
        "sessionId": session,
        "agent": claim.agent,
        "words": words[:WORDS_LIMIT],
        "by": "" if origin is None else msgspec.json.encode(origin).decode(),
    }
    told = notice(Change("session", session, agent=claim.agent)).decode()
    flat = [text for pair in fields.items() for text in pair]
    return Effect(msgspec.json.encode({"noted": flat, "notice": told}), session)


def _params(payload: bytes) -> jsonrpc.Payload:
    return jsonrpc.payload(jsonrpc.fields(msgspec.Raw(payload))["params"])


def _turning(claim: Claim, session: str, payload: bytes) -> Effect:
    """Describe how far a turn is; one that only waits is nobody's news."""
    try:
        turn = _decode_turn(payload).params
        keys.check_id(turn.turn, "turn id")
    except (msgspec.DecodeError, InvalidParams):  # it is shown as it is, and told to nobody
        return NO_EFFECT
    if turn.state not in _TOLD_TURNS:
        return NO_EFFECT
    reason = "error" if turn.error is not None else turn.stop_reason
    told = Change("turn", turn.turn, 0, session, claim.agent, turn.state, reason=reason or None)
    return Effect(msgspec.json.encode({"notice": notice(told).decode()}), turn.turn)


def _effect(word: str, fields: dict[str, str], told: Change) -> Effect:
    text = msgspec.json.encode({word: fields, "notice": notice(told).decode()})
    return Effect(text, fields["id"])


def _kinds(subject: str) -> dict[str, str]:
    """Give the kind of each option that a subject shows; none if it shows them otherwise."""
    try:
        options = msgspec.json.decode(subject)["options"]
        return {str(id_): str(kind) for id_, _, kind in options}
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError, ValueError):
        return {}


def _title(subject: str) -> str:
    """Give what a subject calls itself, for lists; '' if nothing."""
    try:
        title = msgspec.json.decode(subject)["title"]
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError):
        return ""
    return title[:TITLE_LIMIT] if isinstance(title, str) else ""


def _milliseconds(text: str, what: str) -> int:
    try:
        return entry.milliseconds(text)
    except (ValueError, OverflowError):
        raise InvalidParams(f"invalid {what} {text!r:.60}: write ISO 8601 in UTC") from None
