"""Viewers of a session that write down what they are given and insist on order."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import read
from bridge.viewer import Item

WITHIN = 10.0


class Recorder:
    """What both kinds share: the record, and waiting for it."""

    def __init__(self) -> None:
        self.record: list[tuple[Any, ...]] = []
        self.buffered = 0
        self.lost_place = False
        self._changed = asyncio.Event()

    def gap(self, session_id: str, held_from: Cursor, reason: str) -> None:
        self.note("gap", held_from, reason)

    def too_slow(self) -> None:
        self.lost_place = True
        self._changed.set()

    def note(self, *what: Any) -> None:
        self.record.append(what)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def has(self, cursor: Cursor) -> None:
        """Wait until an entry was shown."""
        await self.until(lambda: cursor in self.seen)

    @property
    def seen(self) -> list[Cursor]:
        """The entries shown, as they came."""
        return [what[1] for what in self.record if what[0] == "shown"]

    @property
    def gaps(self) -> list[tuple[Cursor, str]]:
        return [(what[1], what[2]) for what in self.record if what[0] == "gap"]

    def kept(self) -> list[Cursor]:
        """The log as a client has it that drops what a gap takes back."""
        kept: list[Cursor] = []
        for kind, cursor, *_ in self.record:
            if kind == "gap":
                kept = [one for one in kept if one <= cursor]
            elif kind == "shown":
                assert not kept or kept[-1] < cursor, f"{cursor} after {kept[-1]}"
                kept.append(cursor)
        return kept


class FrameViewer(Recorder):
    """A dashboard."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[bytes] = []
        self.asked: list[Cursor] = []

    def write(self, frames: bytes) -> None:
        self.frames.append(frames)
        for text in payloads(frames):
            self.note("shown", read(text).cursor, text)

    def special(self, item: Item, frame: bytes) -> None:
        assert payloads(frame) == [item.text]
        self.note("shown", item.cursor, item.text)

    def ask(self, item: Item) -> None:
        self.asked.append(item.cursor)
        self.note("asked", item.cursor)


class Stream(Recorder):
    """A reader of server-sent events."""

    wants_text = True

    def texts(self, session_id: str, items: Sequence[Item]) -> None:
        for item in items:
            self.note("shown", item.cursor, item.text)


def payloads(frames: bytes) -> list[bytes]:
    """The text messages in a server's bytes."""
    found, position = [], 0
    while position < len(frames):
        assert frames[position] == 0x81
        size, position = frames[position + 1], position + 2
        if size > 125:
            width = 2 if size == 126 else 8
            size = int.from_bytes(frames[position : position + width], "big")
            position += width
        found.append(frames[position : position + size])
        position += size
    return found
