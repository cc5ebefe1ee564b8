"""The log as the events of an HTTP stream: entries go in, named and numbered frames come out.

The IDE kinds bracket what a call did: a ``tool_call`` step before, a ``response`` step after. The
same entries always give the same numbers, whichever kinds a stream leaves out. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

from agent_side.doors.calls import Begun, Call, Calls, Ended, Output, Place, Step
from agent_side.doors.ferret_kinds import at_of
from bridge.protocol import entry
from bridge.protocol.jsonrpc import Payload

IDE_KINDS = frozenset({"code/diff", "editor/open_file", "terminal/output", "progress/step"})
LOOP_TYPES = {  # ferret's names for what the agent says
    "agent_message_chunk": "assistant_chunk",
    "agent_thought_chunk": "thinking_chunk",
    "tool_call": "tool_use",
    "tool_call_update": "tool_progress",
}

_Translate: TypeAlias = "Callable[[Frames, Payload], None]"


class Frame(NamedTuple):
    """One event."""

    number: int
    event: str
    data: Payload


class Frames:
    """One session's frames; its counters and open calls are its own."""

    def __init__(self) -> None:
        """Begin at the session's beginning."""
        self.count = 0
        self._new: list[Frame] = []
        self._calls = Calls()
        self._step = 0
        self._chunks: dict[str, int] = {}  # per call, of its output
        self._message: str | None = None  # the running turn's
        self._turn = 0
        self._final = ""
        self._cost: object = None

    def take(self, method: str, params: Payload) -> list[Frame]:
        """Give the frames of an entry."""
        translate = self._entries.get(method)
        if translate is not None:
            translate(self, params)
        new, self._new = self._new, []
        return new

    # Entries.

    def _updated(self, params: Payload) -> None:
        update = params.get("update")
        if not isinstance(update, dict):
            return
        kind = str(update.get("sessionUpdate"))
        if kind == "user_message_chunk":
            self._typed(update, params)
            return
        ended = kind == "tool_call_update" and update.get("status") in ("completed", "failed")
        self._loop("tool_result" if ended else LOOP_TYPES.get(kind, "system"), update, params)
        if kind in ("tool_call", "tool_call_update"):
            for step in self._calls.take(update, at_of(params)):
                self._show(step)
        elif kind == "agent_message_chunk":
            self._final += _text(update)
        elif kind == "usage_update" and isinstance(update.get("cost"), dict):
            self._cost = update["cost"].get("amount")

    def _typed(self, update: Payload, params: Payload) -> None:
        id_ = _stamp(params).get("mailId") or self._message
        self._add("user_message", {"message_id": id_, "text": _text(update)})

    def _asked(self, params: Payload) -> None:
        round_trip = _stamp(params).get("roundTrip") or {}
        told = params.get("toolCall")
        told = told if isinstance(told, dict) else {}
        for step in self._calls.asked(told):
            self._show(step)
        asked = {
            "permission_id": round_trip.get("id"),
            "tool": told.get("name") or told.get("title") or params.get("message"),
            "args": told.get("rawInput"),
            "risk": round_trip.get("risk", "medium"),
            "options": params.get("options"),
        }
        self._add("permission_request", asked)

    def _resolved(self, params: Payload) -> None:
        ended = {"permission_id": params.get("id"), "result": params.get("result")}
        self._add("permission_resolved", {**ended, "reason": params.get("reason")})

    def _turned(self, params: Payload) -> None:
        state = params.get("state")
        if state == "started":
            self._turn += 1
            self._message = params.get("mailId") or params.get("turn")
            self._final = ""
            self._loop("stream_start", None, params)
        elif state in ("ended", "unknown"):
            self._ended(params)

    def _ended(self, params: Payload) -> None:
        id_ = params.get("mailId") or params.get("turn")
        error = params.get("error")
        if isinstance(error, dict):
            self._add("error", {"message_id": id_, "error": error.get("message")})
        result = {
            "message_id": id_,
            "output": self._final,
            "steps": None,  # not known of an agent that is not ours, and not 0
            "cost": self._cost,
            "success": params.get("stopReason") == "end_turn",
            "stop_reason": params.get("stopReason"),
        }
        self._add("result", result)

    def _gap(self, params: Payload) -> None:
        self._add("gap", {name: params.get(name) for name in ("count", "bytes", "reason")})

    _entries: ClassVar[dict[str, _Translate]] = {
        entry.UPDATE: _updated,
        entry.PERMISSION: _asked,
        entry.ELICITATION: _asked,
        entry.RESOLVED: _resolved,
        entry.TURN: _turned,
        entry.GAP: _gap,
    }

    # Frames.

    def _loop(self, kind: str, data: Payload | None, params: Payload) -> None:
        told = {"message_id": self._message, "type": kind, "data": data, "turn": self._turn}
        self._add("loop_event", {**told, "timestamp": at_of(params) / 1000})

    def _show(self, step: Step) -> None:
        if isinstance(step, Begun):
            self._progress("tool_call", step.call.tool)
        elif isinstance(step, Place):
            line = {} if step.line is None else {"line": step.line}
            self._ide("editor/open_file", path=step.path, **line)
        elif isinstance(step, Output):
            self._output(step.call, step)
        elif isinstance(step, Ended):
            for path, kind, diff in step.diffs:
                self._ide("code/diff", path=path, changeKind=kind, unifiedDiff=diff)
            self._chunks.pop(step.call.id, None)
            self._progress("response", "ok" if step.done else "error")

    def _output(self, call: Call, output: Output) -> None:
        if call.kind != "execute":
            return
        sequence = self._chunks[call.id] = self._chunks.get(call.id, 0) + 1
        told = {"stream": output.stream.value, "chunk": output.text, "sequence": sequence}
        self._ide("terminal/output", processId=call.id, **told, capReached=False)

    def _progress(self, phase: str, detail: str) -> None:
        self._step += 1
        self._ide("progress/step", phase=phase, step=self._step, detail=detail)

    def _ide(self, kind: str, /, **told: object) -> None:
        self._add(kind, {"sessionUpdate": kind, **told})

    def _add(self, event: str, data: Payload) -> None:
        self.count += 1
        self._new.append(Frame(self.count, event, data))


def _text(update: Payload) -> str:
    content = update.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def _stamp(params: Payload) -> Payload:
    meta = params.get("_meta")
    stamp = meta.get(entry.META_KEY) if isinstance(meta, dict) else None
    return stamp if isinstance(stamp, dict) else {}
