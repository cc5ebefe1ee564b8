"""Who watches what in this process: entries in, frames out to every subscriber, each built once.

A session that somebody watches has a channel. Its entries come live from an uplink on this process,
or from the log when another process stored them, in any interleaving; the channel lets each pass
once and in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from bridge import keys
from bridge.batch import Batch, Link, gap_reason, link, predecessor
from bridge.inbox import Followed, Inbox
from bridge.log import Log
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import InvalidRequest, StoreUnavailable
from bridge.subscriber import Subscriber
from bridge.viewer import Item, TextViewer, Viewer

__all__ = ["Channel", "Hub", "HubLimits", "Item", "Subscriber", "TextViewer", "Viewer"]

WATCH_SECONDS = 3.0  # to register the watch of a log
UNSTORED_ENTRIES = 2048  # kept per watched session for whoever joins; an uplink has no more open
LOOKS = 64  # at what viewers have not taken, while they get as many bytes as may wait for one
AHEAD_ENTRIES = 2048  # kept per watched session while the log is read up to them

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HubLimits:
    """What one subscriber may cost."""

    load_entries: int = 5_000  # of a session that is loaded without a cursor
    load_bytes: int = 16 << 20
    buffered_bytes: int = 4 << 20  # not taken by a viewer; beyond, it catches up from the log
    held_bytes: int = 1 << 20  # live entries kept while history is read
    drain_seconds: float = 30.0  # for a viewer over its bound to take its bytes


class Hub:
    """All channels of this process."""

    def __init__(self, log: Log, inbox: Inbox, limits: HubLimits | None = None) -> None:
        """Read from this log, and follow it through this inbox."""
        self.log = log
        self.inbox = inbox
        self.limits = limits or HubLimits()
        self._channels: dict[tuple[str, str], Channel] = {}
        self._behind: set[asyncio.Task[None]] = set()

    def channel(self, tenant: str, session_id: str) -> Channel:
        """Give a session's channel, made on first use; raises InvalidParams for a bad id."""
        name = (tenant, session_id)
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(self, tenant, session_id)
        return channel

    def publish(self, tenant: str, session_id: str, batch: list[Item]) -> None:
        """Show live entries of an uplink on this process, in order; they may not be stored yet."""
        channel = self._channels.get((tenant, session_id))
        if channel is not None:
            channel.publish(batch)

    def stored(
        self, tenant: str, session_id: str, questions: list[Item], last: Cursor | None = None
    ) -> None:
        """Ask questions that are stored now; ``last`` is how far the log is stored."""
        channel = self._channels.get((tenant, session_id))
        if channel is not None:
            if questions:
                channel.ask(questions)
            channel.forget_up_to(last or (questions[-1].cursor if questions else START))

    def drop(self, channel: Channel) -> None:
        """Forget a channel that nobody watches."""
        if self._channels.get(channel.name) is channel:
            del self._channels[channel.name]

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the catching up of a subscriber that fell behind."""
        task = asyncio.get_running_loop().create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._done)

    def close(self) -> None:
        """Stop whatever catches up."""
        for task in self._behind:
            task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._behind.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a subscriber could not catch up", exc_info=error)


class Channel:
    """One session's subscribers, and the last entry they were given."""

    __slots__ = (
        "_ahead",
        "_followed",
        "_live",
        "_look_after",
        "_opening",
        "_subscribers",
        "_unlooked",
        "_unstored",
        "hub",
        "last",
        "limits",
        "name",
        "session_id",
    )

    def __init__(self, hub: Hub, tenant: str, session_id: str) -> None:
        """Begin without subscribers; raises InvalidParams for a bad id."""
        keys.log(tenant, session_id)
        self.hub = hub
        self.limits = hub.limits
        self.name = (tenant, session_id)
        self.session_id = session_id
        self.last = START
        self._subscribers: dict[Subscriber, None] = {}
        self._live: dict[Subscriber, Callable[[bytes], None]] = {}  # those that take frames as is
        self._look_after = hub.limits.buffered_bytes // LOOKS
        self._unlooked = 0  # bytes shown since it was looked who does not take them
        self._followed: Followed | None = None
        self._opening = asyncio.Lock()
        self._unstored: deque[Item] = deque(maxlen=UNSTORED_ENTRIES)
        self._ahead: list[Item] = []

    # Subscribers.

    def join(self, subscriber: Subscriber) -> Channel:
        """Add a subscriber, to the channel that stands for this session now."""
        channel = self.hub.channel(*self.name)
        channel._subscribers[subscriber] = None  # noqa: SLF001 (it may be this one)
        return channel

    def part(self, subscriber: Subscriber) -> None:
        """Remove a subscriber; the last one ends the channel."""
        self._subscribers.pop(subscriber, None)
        self._live.pop(subscriber, None)
        if not self._subscribers:
            if self._followed is not None:
                self._followed.stop()
            self.hub.drop(self)

    def lives(self, subscriber: Subscriber, write: Callable[[bytes], None]) -> None:
        """Write plain entries straight to the viewer of one that has its history."""
        self._live[subscriber] = write

    def lags(self, subscriber: Subscriber) -> None:
        """Let a subscriber decide again what it does with entries."""
        self._live.pop(subscriber, None)

    async def open(self, log: Log) -> None:
        """Follow the log from its end; raises StoreUnavailable."""
        async with self._opening:
            if self._followed is not None:
                return
            self.last = await log.last(*self.name)
            stream, after = keys.log(*self.name), self.last.stream_id
            followed = self.hub.inbox.follow(self.name[0], stream, after, self._on_entries)
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await followed.ready()
            except TimeoutError:
                followed.stop()
                raise StoreUnavailable("redis does not answer: the log is not watched") from None
            except BaseException:
                followed.stop()
                raise
            self._followed = followed
            self._advance_ahead()

    def unstored(self) -> list[Item]:
        """Give what was shown live and may not be in the log yet."""
        return list(self._unstored)

    def forget_up_to(self, cursor: Cursor) -> None:
        """Forget what is stored by now."""
        unstored = self._unstored
        while unstored and unstored[0].cursor <= cursor:
            unstored.popleft()

    # Entries.

    def publish(self, items: list[Item]) -> None:
        """Show live entries; what does not follow is left to the log."""
        followed = self._followed
        if followed is None:
            self._keep_ahead(items)
            return
        before = self.last
        rest = self._advance(items, live=True)
        if rest:
            self._keep_ahead(rest)
        if self.last != before:
            followed.advance(self.last)

    def ask(self, questions: list[Item]) -> None:
        """Ask every subscriber that has its history."""
        self._tell(lambda subscriber: subscriber.ask(questions))

    def _on_entries(self, entries: list[tuple[str, dict[bytes, bytes]]]) -> None:
        """Take what the log has, in its order."""
        items = []
        for stream_id, fields in entries:
            try:
                text = fields[b"m"]
                items.append(Item(Cursor.from_stream_id(stream_id), text, entry.read(text)))
            except (KeyError, InvalidRequest):
                logger.exception("entry %s of %s cannot be read", stream_id, self.session_id)
        before = self.last
        self._advance(items, live=False)
        if items:
            self.forget_up_to(items[-1].cursor)
        fresh = [item for item in items if item.cursor > before]
        questions = [item for item in fresh if item.envelope.method in entry.QUESTIONS]
        if questions:
            self.ask(questions)
        self._advance_ahead()

    def _advance(self, items: list[Item], *, live: bool) -> list[Item]:
        """Show what is new; give back live entries from the first that has a hole before it."""
        if _is_next(self.last, items):
            self.last = items[-1].cursor
            self._show(items, live=live)
            return []
        fresh: list[Item] = []
        rest: list[Item] = []
        for index, item in enumerate(items):
            how = link(self.last, item)
            if how is Link.REPEAT:
                continue
            if how is Link.AHEAD and live:
                rest = items[index:]
                break
            if how is not Link.NEXT:
                self._show(fresh, live=live)
                fresh = []
                self._tell_gap(predecessor(item), gap_reason(how))
            fresh.append(item)
            self.last = item.cursor
        self._show(fresh, live=live)
        return rest

    def _show(self, items: list[Item], *, live: bool) -> None:
        if not items:
            return
        if live:
            self._unstored.extend(items)
        batch = Batch(items)
        self._unlooked += batch.size
        if self._unlooked > self._look_after:
            self._unlooked = 0
            self._tell(lambda subscriber: subscriber.look(batch))
        if batch.frames is None:
            self._tell(lambda subscriber: subscriber.take(batch))
        else:
            self._write(batch, batch.frames)

    def _write(self, batch: Batch, frames: bytes) -> None:
        """Write plain entries to those that are live; the others decide what they do with them."""
        live = self._live
        others = len(self._subscribers) > len(live) and [*self._subscribers.keys() - live.keys()]
        for subscriber, write in tuple(live.items()):
            try:
                write(frames)
            except Exception as error:  # noqa: BLE001 (it is logged)
                self._give_up(subscriber, error)
        for subscriber in others or ():
            self._act(subscriber, lambda one: one.take(batch))

    def _tell_gap(self, held_from: Cursor, reason: str) -> None:
        self._tell(lambda subscriber: subscriber.tell_gap(held_from, reason))

    def _tell(self, act: Callable[[Subscriber], None]) -> None:
        """Act on every subscriber; one viewer's fault must not starve the others."""
        for subscriber in tuple(self._subscribers):
            self._act(subscriber, act)

    def _act(self, subscriber: Subscriber, act: Callable[[Subscriber], None]) -> None:
        try:
            act(subscriber)
        except Exception as error:  # noqa: BLE001 (it is logged)
            self._give_up(subscriber, error)

    def _give_up(self, subscriber: Subscriber, error: Exception) -> None:
        """Take the place of a subscriber whose viewer failed."""
        text = "a viewer of %s failed and loses its place"
        logger.error(text, self.session_id, exc_info=error)
        subscriber.give_up()

    def _keep_ahead(self, items: list[Item]) -> None:
        self._ahead.extend(items)
        if len(self._ahead) > AHEAD_ENTRIES:
            self._ahead.clear()  # they come from the log

    def _advance_ahead(self) -> None:
        """Show what was ahead, as far as it follows now."""
        if self._ahead and self._followed is not None:
            ahead, self._ahead = self._ahead, []
            self.publish(ahead)


def _is_next(last: Cursor, items: list[Item]) -> bool:
    """Whether entries follow without a hole, in one epoch: the usual case."""
    epoch, seq = last
    for item in items:
        seq += 1
        if item[0] != (epoch, seq):
            return False
    return bool(items)
