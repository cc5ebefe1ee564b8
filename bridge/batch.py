"""Entries on their way to viewers: how one follows another, and frames built once for all."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from bridge.frames import text_frame
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.viewer import Item, Viewer


class Link(Enum):
    """How an entry stands to the last one before it."""

    NEXT = "nothing lies between"
    REPEAT = "not newer"
    AHEAD = "something lies between"
    REWOUND = "it follows an earlier one: what lay between was lost in a crash"


_GAPS = {Link.AHEAD: "trimmed", Link.REWOUND: "tail_lost"}


def link(last: Cursor, item: Item) -> Link:
    """Say how an entry follows a cursor."""
    cursor = item.cursor
    if cursor[0] == last[0]:
        if cursor[1] == last[1] + 1:
            return Link.NEXT
        return Link.REPEAT if cursor[1] <= last[1] else Link.AHEAD
    if cursor[0] < last[0]:
        return Link.REPEAT
    before = predecessor(item)
    if before == last:
        return Link.NEXT
    return Link.AHEAD if before > last else Link.REWOUND


def predecessor(item: Item) -> Cursor:
    """Give the cursor that an entry follows, as its connector numbered it."""
    if item.cursor.seq > 1:
        return Cursor(item.cursor.epoch, item.cursor.seq - 1)
    prev = item.envelope.meta.prev
    return Cursor.parse(prev) if prev else START


def gap_reason(how: Link) -> str:
    """Name the gap that a link stands for."""
    return _GAPS[how]


def items_of(entries: Iterable[tuple[Cursor, bytes]]) -> list[Item]:
    """Decode stored entries' envelopes."""
    return [Item(cursor, text, entry.read(text)) for cursor, text in entries]


class Batch:
    """Entries without a hole, framed and joined once for everybody."""

    __slots__ = ("frames", "items", "runs", "session_id", "size")

    def __init__(self, items: list[Item]) -> None:
        """Frame what will be seen as a frame; questions are not."""
        self.items = items
        self.session_id = items[0].envelope.session_id
        self.runs: list[tuple[bytes, Item, bool]] = []  # frames, last item, whether plain
        # The frames of all, if all are plain: the usual case.
        self.frames: bytes | None = None
        plain = [text_frame(item.text) for item in items if item.envelope.is_plain]
        if len(plain) == len(items):
            self.frames = b"".join(plain)
            self.runs.append((self.frames, items[-1], True))
            self.size = len(self.frames)
        else:
            self._frame(items)
            self.size = sum(len(frames) for frames, _, _ in self.runs)

    def show(self, viewer: Viewer) -> None:
        """Give a viewer the frames."""
        for frames, last, is_plain in self.runs:
            if is_plain:
                viewer.write(frames)
            else:
                viewer.special(last, frames)

    def _frame(self, items: list[Item]) -> None:
        plain: list[bytes] = []
        before = items[0]
        for item in items:
            if item.envelope.is_plain:
                plain.append(text_frame(item.text))
                before = item
                continue
            if plain:
                self.runs.append((b"".join(plain), before, True))
                plain = []
            if item.envelope.method not in entry.QUESTIONS:
                self.runs.append((text_frame(item.text), item, False))
        if plain:
            self.runs.append((b"".join(plain), before, True))
