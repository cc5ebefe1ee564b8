"""One viewer's place in one session: history first, then live; or too slow, and catching up.

Subscribe first, then read the log after the viewer's cursor while live entries are held, then
release those. A viewer that does not take its bytes loses the live entries, waits until it has
drained, and reads the log from where it was. Whatever happens, it sees every entry once and in
order, or is told of a gap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from bridge.batch import Batch, Link, gap_reason, items_of, link, predecessor
from bridge.compact import joined
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import StoreUnavailable
from bridge.viewer import Item, Reading, TextViewer, Viewer

if TYPE_CHECKING:
    from bridge.hub import Channel
    from bridge.log import Log

PAGE = 1000  # entries of one read
LOW_WATER = 1 << 20  # bytes; a viewer with fewer waiting may have the next page
POLL_SECONDS = 0.02  # while a viewer drains; only slow ones wait
RETRY_SECONDS = 0.5  # while the store is away
WHOLE = Reading()
STORING_SECONDS = 10.0  # for an entry that was shown to be stored


class Mode(Enum):
    """What a subscriber does with a live entry."""

    LIVE = "shows it"
    HOLDING = "keeps it until the log is read up to it"
    AHEAD = "shows what is newer than its cursor, which the store has not reached yet"
    SKIPPING = "ignores it: it is read from the log later"
    LEFT = "nothing, it is over"


class Subscriber:
    """A viewer's place in a session's log."""

    __slots__ = (
        "_after",
        "_channel",
        "_from_history",
        "_held",
        "_held_bytes",
        "_hold_from",
        "_last",
        "_loaded",
        "_mode",
        "_reading",
        "_text_viewer",
        "_viewer",
    )

    def __init__(
        self,
        channel: Channel,
        viewer: Viewer | TextViewer,
        after: Cursor,
        *,
        history: bool,
        reading: Reading = WHOLE,
    ) -> None:
        """Stand after a cursor; START is the newest part of the log; without history, its end."""
        self._channel = channel
        self._viewer = viewer
        self._text_viewer: TextViewer | None = None
        if getattr(viewer, "wants_text", False):
            self._text_viewer = viewer  # type: ignore[assignment]
        self._after = after
        self._from_history = history
        self._reading = reading
        self._last = after
        self._mode = Mode.HOLDING
        self._held: list[Item] = []
        self._held_bytes = 0
        self._hold_from = START
        self._loaded = False

    @property
    def last(self) -> Cursor:
        """The last entry that the viewer was given, or that it came with."""
        return self._channel.last if self._mode is Mode.LIVE else self._last

    async def start(self, log: Log) -> None:
        """Give the viewer the history, then let it live; raises StoreUnavailable, InvalidParams."""
        channel = self._channel = self._channel.join(self)
        try:
            await channel.open(log)
            self._hold()
            if not self._from_history:
                self._last = channel.last
            elif self._after == START:
                await self._load_newest(log)
            await self._read_up(log)
        except TooSlow:
            self.give_up()
        except BaseException:
            self.leave()
            raise
        self._loaded = True
        self._release()

    def leave(self) -> None:
        """Take nothing more."""
        if self._mode is not Mode.LEFT:
            self._last = self.last
            self._mode = Mode.LEFT
            self._held = []
            self._channel.part(self)

    def give_up(self) -> None:
        """Leave, and tell the viewer that it must come again."""
        self.leave()
        self._viewer.too_slow()

    def has_passed(self, cursor: Cursor) -> bool:
        """Whether the viewer was sent all up to a cursor, or is sent no more."""
        return self._mode is Mode.LEFT or self.last >= cursor

    # What the channel calls, synchronously and in order.

    def take(self, batch: Batch) -> None:
        """Take live entries: they follow all that this channel had before."""
        if self._mode is Mode.LIVE:
            self._show_batch(batch)
        elif self._mode is Mode.HOLDING:
            self._keep(batch)
        elif self._mode is Mode.AHEAD:
            self._held.extend(batch.items)
            self._release()

    def tell_gap(self, held_from: Cursor, reason: str) -> None:
        """Tell a live viewer of a gap; one that reads the log finds it there."""
        if self._mode is Mode.LIVE:
            self._viewer.gap(self._channel.session_id, held_from, reason)

    def ask(self, questions: list[Item]) -> None:
        """Ask a viewer that has its history; the others are asked when they have it."""
        if self._loaded and self._text_viewer is None and self._mode is not Mode.LEFT:
            for question in questions:
                self._viewer.ask(question)  # type: ignore[union-attr]

    # History.

    async def _load_newest(self, log: Log) -> None:
        """Read the newest part of the log backwards, then show it forwards."""
        limits = self._channel.limits
        pages: list[list[tuple[Cursor, bytes]]] = []
        wanted = self._reading.entries or limits.load_entries
        before, left, room = None, min(wanted, limits.load_entries), limits.load_bytes
        while left > 0 and room > 0:
            asked = min(PAGE, left)
            page = await log.read_before(*self._channel.name, before, asked)
            pages.append(page)
            if len(page) < asked:
                break
            before = page[0][0]
            left -= len(page)
            room -= sum(len(text) for _, text in page)
        items = [item for page in reversed(pages) for item in items_of(page)]
        # What nobody holds any more is not waited for.
        self._last = predecessor(items[0]) if items else self._hold_from
        if self._last != START:
            self._viewer.gap(self._channel.session_id, self._last, "history_starts_here")
        for start in range(0, len(items), PAGE):
            self._accept(items[start : start + PAGE])
            await self._drain()

    async def _read_up(self, log: Log) -> None:
        """Read the log until what is held follows; raises TooSlow, StoreUnavailable."""
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while self._is_below_held():
            page = await log.read(*self._channel.name, self._last, PAGE)
            if page:
                deadline = None
                self._accept(items_of(page))
                await self._drain()
                continue
            deadline = deadline or loop.time() + STORING_SECONDS
            if loop.time() > deadline:
                raise StoreUnavailable(f"the log of {self._channel.session_id} does not go on")
            await asyncio.sleep(POLL_SECONDS)

    def _is_below_held(self) -> bool:
        """Whether the log has to be read on, after holding anew if too much had come."""
        if self._mode is Mode.SKIPPING:
            self._hold()
        return self._mode is Mode.HOLDING and self._last < self._hold_from

    def _accept(self, items: Iterable[Item]) -> None:
        """Show what is new to the viewer, and say where something is missing."""
        fresh: list[Item] = []
        for item in items:
            how = link(self._last, item)
            if how is Link.REPEAT:
                continue
            if how is not Link.NEXT:
                self._show(fresh)
                fresh = []
                self._viewer.gap(self._channel.session_id, predecessor(item), gap_reason(how))
            fresh.append(item)
            self._last = item.cursor
        self._show(fresh)

    def _show(self, items: list[Item]) -> None:
        if items and self._mode is not Mode.LEFT:
            self._show_batch(Batch(joined(items) if self._reading.compact else items))

    def _show_batch(self, batch: Batch) -> None:
        if self._text_viewer is not None:
            self._text_viewer.texts(batch.session_id, batch.items)
        else:
            batch.show(self._viewer)  # type: ignore[arg-type]

    # Holding.

    def _hold(self) -> None:
        """Keep live entries from here on, and those shown to others but not stored yet."""
        self._mode = Mode.HOLDING
        self._held = self._channel.unstored()
        self._held_bytes = sum(len(item.text) for item in self._held)
        self._hold_from = predecessor(self._held[0]) if self._held else self._channel.last

    def _keep(self, batch: Batch) -> None:
        self._held.extend(batch.items)
        self._held_bytes += batch.size
        if self._held_bytes > self._channel.limits.held_bytes:
            self._held = []
            self._mode = Mode.SKIPPING  # until the next page is read

    def _release(self) -> None:
        """Show what was held; live from then on."""
        if self._mode is Mode.LEFT:
            return
        held, self._held = self._held, []
        self._mode = Mode.AHEAD
        self._accept(held)
        if self._is_level():
            self._mode = Mode.LIVE
            if self._text_viewer is None:
                self._channel.lives(self, self._viewer.write)  # type: ignore[union-attr]

    def _is_level(self) -> bool:
        return self._mode is Mode.AHEAD and self._last == self._channel.last

    # Too slow.

    def look(self, batch: Batch) -> None:
        """Fall behind, before a batch, if the viewer has not taken what it was given."""
        if self._mode is not Mode.LIVE or not self._is_over():
            return
        self._channel.lags(self)
        self._last = predecessor(batch.items[0])
        self._mode = Mode.SKIPPING
        self._channel.hub.start(self._catch_up())

    def _is_over(self) -> bool:
        return self._viewer.buffered > self._channel.limits.buffered_bytes

    async def _catch_up(self) -> None:
        """Wait until the viewer has drained, then read the log from where it was."""
        while self._mode is not Mode.LEFT:
            try:
                await self._drain()
                await self._read_up(self._channel.hub.log)
                self._release()
            except TooSlow:
                self.give_up()
            except StoreUnavailable:
                self._mode = Mode.SKIPPING
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    async def _drain(self) -> None:
        """Wait until the viewer has taken most of its bytes; raises TooSlow."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._channel.limits.drain_seconds
        while self._viewer.buffered > LOW_WATER and self._mode is not Mode.LEFT:
            if loop.time() > deadline:
                raise TooSlow
            await asyncio.sleep(POLL_SECONDS)


class TooSlow(Exception):
    """The viewer did not take its bytes in time."""
