"""A session's tool calls as plain steps: begun, a place in a file, output, ended.

Agents tell of a call in any number of updates, in any order, some of them only at its end; what
comes out is the same for all: each call begins once and ends once, and what it did lies between.
No I/O: updates go in, steps come out.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

from bridge.protocol.jsonrpc import Payload

ENDED = frozenset({"completed", "failed"})
FILES = frozenset({"read", "edit", "delete", "move"})  # kinds whose places are worth showing


class Stream(Enum):
    """Where a command's output came from."""

    OUT = "stdout"
    ERR = "stderr"


@dataclass
class Call:
    """What is known of one tool call."""

    id: str
    kind: str = "other"
    title: str = ""
    name: str = ""
    arguments: Payload = field(default_factory=dict)
    diffs: list[Payload] = field(default_factory=list)
    began_at: int = 0  # Unix milliseconds
    begun: bool = False
    shown: dict[Stream, str] = field(default_factory=dict)  # output so far
    places: set[tuple[str, int | None]] = field(default_factory=set)

    @property
    def tool(self) -> str:
        """What people call the tool: by its name where the agent gives one."""
        return self.name or self.title or self.kind

    @property
    def output(self) -> str:
        """All output so far."""
        return "".join(self.shown.values())


@dataclass(frozen=True)
class Begun:
    """A call begins; its arguments are known as far as the agent tells them."""

    call: Call


@dataclass(frozen=True)
class Place:
    """A call looks at or changes a file."""

    call: Call
    path: str
    line: int | None


@dataclass(frozen=True)
class Output:
    """A call gave more output."""

    call: Call
    stream: Stream
    text: str


@dataclass(frozen=True)
class Ended:
    """A call is over; ``diffs``: what it changed, as unified diffs by path."""

    call: Call
    done: bool
    took_ms: int
    diffs: list[tuple[str, str, str]]  # path, kind of change, unified diff


Step: TypeAlias = Begun | Place | Output | Ended


class Calls:
    """The calls of one session that have not ended."""

    def __init__(self) -> None:
        """Begin without a call."""
        self._open: dict[str, Call] = {}

    def get(self, id_: str) -> Call | None:
        """Give a call that has not ended."""
        return self._open.get(id_)

    def take(self, update: Payload, at: int) -> list[Step]:
        """Take a ``tool_call`` or ``tool_call_update`` of a time; give what happened by it."""
        id_ = str(update.get("toolCallId"))
        is_new = id_ not in self._open
        call = self._open.setdefault(id_, Call(id_, began_at=at))
        _merge(call, update)
        status = update.get("status")
        # Some agents announce a call before they know what it is about.
        waits = is_new and update.get("rawInput") == {} and status in (None, "pending")
        return self._steps(call, update, at, waits=waits)

    def asked(self, told: Payload) -> list[Step]:
        """Take what a question tells of a call that has been announced; it has begun then."""
        call = self._open.get(str(told.get("toolCallId")))
        if call is None:
            return []
        _merge(call, told)
        return _begin(call)

    def _steps(self, call: Call, update: Payload, at: int, *, waits: bool) -> list[Step]:
        outputs = _outputs(call, update)
        status = update.get("status")
        if waits and not outputs:
            return []
        steps = _begin(call) + _places(call, update) + outputs
        if status in ENDED:
            del self._open[call.id]
            done = status == "completed"
            diffs = [_unified(diff) for diff in call.diffs] if done else []
            steps.append(Ended(call, done, max(0, at - call.began_at), diffs))
        return steps


def unified(path: str, old: str, new: str) -> str:
    """Give a change as a unified diff."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), path, path
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _begin(call: Call) -> list[Step]:
    if call.begun:
        return []
    call.begun = True
    return [Begun(call)]


def _merge(call: Call, update: Payload) -> None:
    call.kind = _text(update.get("kind")) or call.kind
    call.title = _text(update.get("title")) or call.title
    call.name = _text(update.get("name")) or _named(update) or call.name
    if isinstance(raw := update.get("rawInput"), dict) and raw:
        call.arguments = raw
    content = _objects(update.get("content"))
    if diffs := [item for item in content if item.get("type") == "diff"]:
        call.diffs = diffs


def _named(update: Payload) -> str:
    """Give the tool's name that some agents put beside their own facts."""
    meta = update.get("_meta")
    for own in meta.values() if isinstance(meta, dict) else ():
        if isinstance(own, dict) and isinstance(own.get("toolName"), str):
            return str(own["toolName"])
    return ""


def _places(call: Call, update: Payload) -> list[Step]:
    steps: list[Step] = []
    for place in _objects(update.get("locations")) if call.kind in FILES else []:
        path, line = place.get("path"), place.get("line")
        line = line if type(line) is int else None
        if isinstance(path, str) and (path, line) not in call.places:
            call.places.add((path, line))
            steps.append(Place(call, path, line))
    return steps


def _outputs(call: Call, update: Payload) -> list[Step]:
    steps: list[Step] = []
    for stream, text in _told(update).items():
        shown = call.shown.get(stream, "")
        more = text.removeprefix(shown)
        if more and not shown.startswith(text):
            call.shown[stream] = text
            steps.append(Output(call, stream, more))
    return steps


def _told(update: Payload) -> dict[Stream, str]:
    """Give the whole output that an update tells, wherever the agent put it."""
    raw = update.get("rawOutput")
    if isinstance(raw, dict) and any(isinstance(raw.get(s.value), str) for s in Stream):
        return {s: raw[s.value] for s in Stream if raw.get(s.value)}
    texts = [_block_text(item) for item in _objects(update.get("content"))]
    for text in (raw, *_inner(raw), "\n".join(filter(None, texts))):
        if isinstance(text, str) and text:
            return {Stream.OUT: text}
    return {}


def _inner(raw: Any) -> list[Any]:
    names = ("aggregated_output", "formatted_output", "output", "text")
    return [raw.get(name) for name in names] if isinstance(raw, dict) else []


def _block_text(item: Payload) -> str:
    block = item.get("content")
    return _text(block.get("text")) if isinstance(block, dict) else ""


def _unified(diff: Payload) -> tuple[str, str, str]:
    path, old, new = _text(diff.get("path")), diff.get("oldText"), diff.get("newText")
    kind = "add" if not old and new else "delete" if old and not new else "update"
    return path, kind, unified(path, _text(old), _text(new))


def _objects(value: Any) -> list[Payload]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
