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

ASKED_LIMIT = 1_000  # open at once at one client; it may load a session again for what is left
CLOSED_KEPT = 10_000  # ids of ended questions, which may be told of before they are asked


class Asked(msgspec.Struct, frozen=True):
    """One question as this client has it."""

    round_trip: str
    session_id: str
    hash: str
    kind: str
    tool_call_id: str


class _End(msgspec.Struct):
    id: str


class _EndEntry(msgspec.Struct):
    params: _End


_decode_end = msgspec.json.Decoder(_EndEntry).decode


class Questions:
    """The questions of one client; what it returns is to be sent."""

    __slots__ = ("_by_request", "_closed", "_count", "_over", "_requests")

    def __init__(self) -> None:
        """Begin unasked."""
        self._count = 0
        self._by_request: dict[Id, Asked] = {}
        self._requests: dict[str, Id] = {}  # round-trip → request
        # Round-trips whose request is answered or withdrawn; an empty set takes 200 bytes.
        self._over: dict[str, None] = {}
        self._closed: dict[str, None] = {}  # round-trips, the oldest first

    def ask(self, text: bytes, *, again: bool = False) -> bytes | None:
        """Give the request for a question's entry, unless it was asked already.

        ``again``: ask also when an earlier request is over and decided nothing.
        """
        envelope = entry.read(text)
        round_trip = envelope.meta.round_trip
        if round_trip is None or round_trip.id in self._closed:
            return None
        if round_trip.signed:  # only a paired device may answer, by _bridge/decide
            return None
        if round_trip.id in self._requests:
            if not again or round_trip.id not in self._over:
                return None
            self._drop(round_trip.id)
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
        if asked is None or asked.round_trip in self._over:
            return None
        self._over[asked.round_trip] = None
        if response.result is None:
            return None
        try:
            answer = _answer(asked.kind, jsonrpc.payload(response.result))
        except InvalidParams:
            return None
        return None if answer is None else (asked, answer)

    def close(self, round_trip: str) -> None:
        """Ask a question no more: its end came first."""
        self._closed[round_trip] = None
        if len(self._closed) > CLOSED_KEPT:
            del self._closed[next(iter(self._closed))]

    def withdraw(self, change: Change) -> list[bytes]:
        """Give what tells this client that a question is answered or over."""
        if change.state == "closed":
            self.close(change.id)
        request = self._requests.get(change.id)
        if request is None:
            return []
        asked = self._by_request[request]
        told = self._cancel(asked.round_trip)
        if asked.tool_call_id:
            told.append(_update(asked, resolved_json(change)))
        if change.state == "closed":
            self._drop(change.id)
        return told

    def late(self, asked: Asked, decided: Payload) -> list[bytes]:
        """Give what tells this client that its answer was not the first."""
        if not asked.tool_call_id:
            return []
        return [_update(asked, {"id": asked.round_trip, **decided})]

    def forget(self, session_id: str) -> list[bytes]:
        """Forget a session that the client has left; gives what withdraws its questions."""
        told = []
        for asked in list(self._by_request.values()):
            if asked.session_id == session_id:
                told += self._cancel(asked.round_trip)
                self._drop(asked.round_trip)
        return told

    def _cancel(self, round_trip: str) -> list[bytes]:
        """End a request that the client has not answered."""
        if round_trip in self._over:
            return []
        self._over[round_trip] = None
        params = {"requestId": self._requests[round_trip]}
        return [jsonrpc.notification(acp.CANCEL_REQUEST, params)]

    def _drop(self, round_trip: str) -> None:
        del self._by_request[self._requests.pop(round_trip)]
        self._over.pop(round_trip, None)


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


def ended(text: bytes) -> str:
    """Give the round-trip that a stored ``_bridge/resolved`` ends."""
    return _decode_end(text).params.id


def open_entry(record: RoundTripRecord) -> bytes | None:
    """Give the entry of a question that can still be answered."""
    return record.entry if record.state == "open" else None


def _update(asked: Asked, resolved: Payload) -> bytes:
    """Encode an update of the question's tool call that says how it stands."""
    update = {
        "sessionUpdate": "tool_call_update",
        "toolCallId": asked.tool_call_id,
        "_meta": {META_KEY: {"resolved": resolved}},
    }
    params = {"sessionId": asked.session_id, "update": update}
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
