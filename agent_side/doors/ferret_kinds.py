"""The log in ferret's words: entries go in, flat updates with a ``kind`` come out. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

from agent_side.doors.calls import Begun, Calls, Output, Place, Step
from agent_side.doors.outcome import who
from agent_side.round_trips import Question
from bridge.protocol import entry
from bridge.protocol.entry import Origin
from bridge.protocol.jsonrpc import Payload

KINDS = (
    "agent_message_chunk",
    "tool_call_start",
    "tool_call_progress",
    "tool_call_end",
    "permission_request",
    "sandbox_violation",
    "approval_changed",
    "cost_update",
    "file_edit",
    "file_open",
    "notice",
    "turn_end",
)


_Translate: TypeAlias = "Callable[[FerretKinds, Payload, Payload], list[Payload]]"


class FerretKinds:
    """One session as one client of the dialect sees it."""

    def __init__(self) -> None:
        """Begin at the session's beginning."""
        self.final = ""  # what the agent has said since its last tool call
        self._calls = Calls()
        self._mode: str | None = None
        self._cost: Payload = dict.fromkeys(("input", "output", "cache", "reasoning", "total_usd"))

    def take(self, method: str, params: Payload) -> list[Payload]:
        """Give what an entry says in the dialect."""
        said = params
        translate = self._entries.get(method)
        if method == entry.UPDATE and isinstance(params.get("update"), dict):
            said = params["update"]
            translate = self._updates.get(str(said.get("sessionUpdate")))
        return [] if translate is None else translate(self, said, params)

    def asked(self, question: Question) -> list[Payload]:
        """Give a question of the agent."""
        told = question.params.get("toolCall")
        told = told if isinstance(told, dict) else {}
        begun = self._calls.asked(told)
        call = self._calls.get(str(told.get("toolCallId")))
        arguments = told.get("rawInput") or (call.arguments if call else None) or _form(question)
        tool = told.get("name") or (call.tool if call else None) or told.get("title")
        request = {
            "kind": "permission_request",
            "id": question.id,
            "tool": str(tool or told.get("kind") or "question"),
            "args": arguments,
            "risk": question.risk,
        }
        return [*self._steps(begun), request]

    # Updates.

    def _chunk(self, update: Payload, _params: Payload) -> list[Payload]:
        text = _text(update.get("content"))
        self.final += text
        return [{"kind": "agent_message_chunk", "text": text}] if text else []

    def _typed(self, update: Payload, params: Payload) -> list[Payload]:
        text = _text(update.get("content"))
        return [_notice("info", f"{_from(params)}: {text}")] if text else []

    def _call(self, update: Payload, params: Payload) -> list[Payload]:
        return self._steps(self._calls.take(update, at_of(params)))

    def _usage(self, update: Payload, _params: Payload) -> list[Payload]:
        cost = update.get("cost")
        if isinstance(cost, dict) and cost.get("currency") == "USD":
            self._cost["total_usd"] = cost.get("amount")
        return [{"kind": "cost_update", **self._cost}]

    def _moded(self, update: Payload, _params: Payload) -> list[Payload]:
        old, self._mode = self._mode, str(update.get("currentModeId"))
        if old == self._mode:
            return []
        return [{"kind": "approval_changed", "old": old, "new": self._mode}]

    # Our own entries.

    def _approval(self, params: Payload, _: Payload) -> list[Payload]:
        return [{"kind": "approval_changed", "old": params.get("old"), "new": params.get("new")}]

    def _violation(self, params: Payload, _: Payload) -> list[Payload]:
        told = {name: params.get(name) for name in ("tool", "path", "mode")}
        return [{"kind": "sandbox_violation", **told}]

    def _turn(self, params: Payload, _: Payload) -> list[Payload]:
        state, id_ = params.get("state"), params.get("turn")
        if state == "started":
            self.final = ""
        if state == "queued":
            return [_notice("info", waiting(params))]
        if state not in ("ended", "unknown"):
            return []
        ended = {"kind": "turn_end", "id": id_, "stop_reason": params.get("stopReason") or "error"}
        if isinstance(error := params.get("error"), dict):
            return [_notice("error", str(error.get("message"))), ended]
        if state == "unknown":
            return [_notice("error", "how this turn ended is not known"), ended]
        return [ended]

    def _gap(self, params: Payload, _: Payload) -> list[Payload]:
        return [_notice("warning", f"{params.get('count')} messages could not be kept")]

    def _steps(self, steps: list[Step]) -> list[Payload]:
        return [kind for step in steps for kind in self._step(step)]

    def _step(self, step: Step) -> list[Payload]:
        id_ = step.call.id
        if isinstance(step, Begun):
            self.final = ""
            call = step.call
            return [_kind("tool_call_start", id=id_, tool=call.tool, args=call.arguments)]
        if isinstance(step, Output):
            return [_kind("tool_call_progress", id=id_, **{step.stream.value: step.text})]
        if isinstance(step, Place):
            line = {} if step.line is None else {"line": step.line}
            return [_kind("file_open", path=step.path, **line)]
        edits = [_kind("file_edit", path=path, diff=diff) for path, _, diff in step.diffs]
        result = step.call.output or ("ok" if step.done else "failed")
        return [*edits, _kind("tool_call_end", id=id_, result=result, duration_ms=step.took_ms)]

    _updates: ClassVar[dict[str, _Translate]] = {
        "agent_message_chunk": _chunk,
        "user_message_chunk": _typed,
        "tool_call": _call,
        "tool_call_update": _call,
        "usage_update": _usage,
        "current_mode_update": _moded,
    }
    _entries: ClassVar[dict[str, _Translate]] = {
        "_bridge/approval_changed": _approval,
        "_bridge/sandbox_violation": _violation,
        entry.TURN: _turn,
        entry.GAP: _gap,
    }


def waiting(turn: Payload) -> str:
    """Say of a queued turn what it waits for."""
    title = turn.get("waitsForTitle")
    if turn.get("waitsFor"):
        return f"waits until “{title}” is done in this folder" if title else "the folder is busy"
    return "waits for its turn"


def at_of(params: Payload) -> int:
    """Give an entry's time in Unix milliseconds; 0 for a piece, which has none."""
    at = _stamp(params).get("at")
    return int(datetime.fromisoformat(at).timestamp() * 1000) if isinstance(at, str) else 0


def _from(params: Payload) -> str:
    origin = _stamp(params).get("origin")
    return who(Origin(**origin)) if isinstance(origin, dict) else "you"


def _stamp(params: Payload) -> Payload:
    meta = params.get("_meta")
    stamp = meta.get(entry.META_KEY) if isinstance(meta, dict) else None
    return stamp if isinstance(stamp, dict) else {}


def _form(question: Question) -> Payload:
    """Give what a question without arguments is about: a form, or only its title."""
    params = question.params
    form = ("message", "requestedSchema", "url")
    found: Payload = {name: params[name] for name in form if name in params}
    told = params.get("toolCall")
    return found or ({"title": told.get("title")} if isinstance(told, dict) else {})


def _kind(kind: str, /, **fields: Any) -> Payload:
    return {"kind": kind, **fields}


def _notice(level: str, text: str) -> Payload:
    return {"kind": "notice", "level": level, "text": text}


def _text(block: Any) -> str:
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""
