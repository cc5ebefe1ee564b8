"""What one client was asked: each open question once, under an id of its own connection."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.changes import Change
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Id, Payload
from bridge.round_trips import RoundTripRecord, origin_json

ASKED_LIMIT = 1_000  # open at once at one client; the others are asked when these are closed


class Asked(msgspec.Struct, frozen=True):
    """One question as this client has it."""

    round_trip: str
    session_id: str
    hash: str
    kind: str
    tool_call_id: str


class Questions:
    """The questions of one client; what it returns is to be sent."""

    __slots__ = ("_answered", "_by_request", "_count", "_requests")

    def __init__(self) -> None:
        """Begin unasked."""
        self._count = 0
        self._by_request: dict[Id, Asked] = {}
        self._requests: dict[str, Id] = {}  # round-trip → request
        self._answered: set[str] = set()

    def ask(self, text: bytes) -> bytes | None:
        """Give the request for a question's entry, unless it was asked already."""
        envelope = entry.read(text)
        round_trip = envelope.meta.round_trip
        if round_trip is None or round_trip.id in self._requests:
            return None
        if len(self._requests) >= ASKED_LIMIT:
            return None
        params = jsonrpc.fields(jsonrpc.fields(msgspec.Raw(text))["params"])
        self._count += 1
        call = _tool_call_id(params)
        asked = Asked(round_trip.id, envelope.session_id, round_trip.hash, round_trip.kind, call)
        self._by_request[self._count] = asked
        self._requests[round_trip.id] = self._count
        return jsonrpc.request(self._count, envelope.method, params)

    def take(self, response: jsonrpc.Response) -> tuple[Asked, Payload] | None:
        """Read an answer; None for what is no answer: an error, a cancellation, nobody's id."""
        asked = self._by_request.get(response.id) if response.id is not None else None
        if asked is None or response.result is None:
            return None
        try:
            answer = _answer(asked.kind, jsonrpc.payload(response.result))
        except InvalidParams:
            return None
        if answer is not None:
            self._answered.add(asked.round_trip)
        return None if answer is None else (asked, answer)

    def not_recorded(self, round_trip: str) -> None:
        """Note that this client's answer did not count."""
        self._answered.discard(round_trip)

    def withdraw(self, change: Change) -> list[bytes]:
        """Give what tells this client that a question is answered or over."""
        request = self._requests.get(change.id)
        if request is None:
            return []
        asked = self._by_request[request]
        told = []
        if change.id not in self._answered:
            told.append(jsonrpc.notification(acp.CANCEL_REQUEST, {"requestId": request}))
        if asked.tool_call_id:
            told.append(_card(asked, change))
        self._answered.add(change.id)  # the request is over, whoever answered
        if change.state == "closed":
            del self._requests[change.id], self._by_request[request]
            self._answered.discard(change.id)
        return told

    def late(self, asked: Asked, decided: Payload) -> list[bytes]:
        """Give what tells this client that its answer was not the first."""
        update = {"sessionUpdate": "tool_call_update", "toolCallId": asked.tool_call_id}
        if not asked.tool_call_id:
            return []
        resolved = {"id": asked.round_trip, **decided}
        return [_update(asked.session_id, update, resolved)]

    def forget(self, session_id: str) -> None:
        """Forget a session that the client has left."""
        for request, asked in list(self._by_request.items()):
            if asked.session_id == session_id:
                del self._by_request[request], self._requests[asked.round_trip]


def resolved_json(change: Change) -> Payload:
    """Give how a question stands now, as our metadata says it."""
    shown: Payload = {"id": change.id, "state": change.state, "at": entry.timestamp(change.at)}
    if change.by is not None:
        shown["by"] = origin_json(change.by)
    for name in ("answer", "result", "reason"):
        value = getattr(change, name)
        if value is not None:
            shown[name] = value
    return shown


def open_entry(record: RoundTripRecord) -> bytes | None:
    """Give the entry of a question that can still be answered."""
    return record.entry if record.state == "open" else None


def _card(asked: Asked, change: Change) -> bytes:
    update = {"sessionUpdate": "tool_call_update", "toolCallId": asked.tool_call_id}
    return _update(asked.session_id, update, resolved_json(change))


def _update(session_id: str, update: Payload, resolved: Payload) -> bytes:
    meta = {META_KEY: {"resolved": resolved}}
    params = {"sessionId": session_id, "update": {**update, "_meta": meta}}
    return jsonrpc.notification(entry.UPDATE, params)


def _answer(kind: str, result: Payload) -> Payload | None:
    if kind == "permission":
        outcome: Any = result.get("outcome")
        if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
            return None
        return {"optionId": outcome.get("optionId")}
    if result.get("action") not in {"accept", "decline"}:
        return None
    return {name: result[name] for name in ("action", "content") if name in result}


def _tool_call_id(params: dict[str, msgspec.Raw]) -> str:
    raw = params.get("toolCall")
    card = jsonrpc.value(raw) if raw is not None else None
    call = card.get("toolCallId") if isinstance(card, dict) else None
    return call if isinstance(call, str) else ""
