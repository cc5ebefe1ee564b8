"""The session logs: append in batches, read after a cursor, trim.

Uplinks hand their entries over without waiting. One flush is in flight per process; what arrives
meanwhile is the next batch. A batch that Redis did not take is sent again until it is stored: the
script skips what it has already, so nothing is ever stored twice or lost here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from redis.exceptions import (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)

from bridge import keys
from bridge.agents import Claim
from bridge.append import (
    CALL_BYTES,
    CALL_ENTRIES,
    Appended,
    Batch,
    Entry,
    LogLimits,
    arguments_of,
    calls_of,
    session_names,
)
from bridge.cluster import is_lost
from bridge.inbox import Inbox
from bridge.outage import Outage
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Script, Store, script

__all__ = ["Appended", "Log", "LogLimits"]

FLUSH_ENTRIES = 4096  # over all sessions: one read timeout covers the whole reply
FLUSH_BYTES = 8 << 20
WATCHERS_KEPT = 10_000  # logs whose other nodes are remembered
_TRANSIENT = (
    AskError,
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
_TRANSIENT_WORDS = ("BUSY", "MISCONF", "NOREPLICAS", "UNKILLABLE")

_logger = logging.getLogger(__name__)


class _Pending(NamedTuple):
    claim: Claim
    entries: list[Entry]
    on_stored: Callable[[Appended], None]


class Log:
    """The logs of all sessions."""

    def __init__(self, store: Store, inbox: Inbox, limits: LogLimits | None = None) -> None:
        """Write through ``store`` and wake through ``inbox``; ``run`` does the writing."""
        self._store = store
        self._inbox = inbox
        self._limits = limits or LogLimits()
        self._queued: dict[tuple[str, str], deque[_Pending]] = {}
        self._wanted = asyncio.Event()
        self._is_called = False  # in this turn of the loop
        self._watchers: dict[str, list[str]] = {}  # other nodes by log, as of its last append
        self._again: deque[Batch] = deque()  # not taken yet, before anything queued

    # Writing.

    def append(
        self,
        claim: Claim,
        session_id: str,
        entries: Sequence[tuple[Cursor, bytes, Envelope | None]],
        on_stored: Callable[[Appended], None],
    ) -> None:
        """Queue entries; raises InvalidParams when an id in them cannot be one."""
        session_names(claim.tenant, session_id, claim.agent)  # they can be made
        prepared = [Entry.of(claim, session_id, *each) for each in entries]
        waiting = self._queued.setdefault((claim.tenant, session_id), deque())
        waiting.append(_Pending(claim, prepared, on_stored))
        if not self._is_called:
            # Behind what this turn of the loop sends: people see an entry before it is stored.
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._call)

    async def run(self) -> NoReturn:
        """Write what is queued until cancelled."""
        outage = Outage("the log")
        while True:
            await self._wanted.wait()
            batches = self._take()
            if not batches:
                self._wanted.clear()
                continue
            try:
                refused = await self._flush(batches)
            except StoreUnavailable as error:
                self._again.extend(batches)
                await outage.wait(error)
                continue
            if refused:
                await outage.wait(refused)
            else:
                outage.over()

    def _call(self) -> None:
        self._is_called = False
        self._wanted.set()

    def _take(self) -> list[Batch]:
        """Take the next batches off the queues: at most one of a session, refused ones first."""
        batches = list(self._again)
        self._again.clear()
        busy = {(batch.claim.tenant, batch.session) for batch in batches}
        entries, size = 0, 0
        for place in tuple(self._queued):
            if entries >= FLUSH_ENTRIES or size >= FLUSH_BYTES:
                break
            if place in busy:
                continue
            batch = self._take_of(place)
            batches.append(batch)
            entries += len(batch.entries)
            size += batch.size
        return batches

    def _take_of(self, place: tuple[str, str]) -> Batch:
        """Take one session's next batch; what is left goes behind the other sessions."""
        waiting = self._queued.pop(place)
        claim = waiting[0].claim
        batch = Batch(claim, place[1])
        while waiting and waiting[0].claim == claim:
            pending = waiting.popleft()
            count = _fitting(pending.entries, CALL_ENTRIES - len(batch.entries), batch.size)
            if not count and pending.entries and batch.entries:
                waiting.appendleft(pending)
                break
            count = max(count, 1)
            batch.entries.extend(pending.entries[:count])
            batch.size += sum([len(each.payload) for each in pending.entries[:count]])
            if pending.on_stored not in batch.told:
                batch.told.append(pending.on_stored)
            if count < len(pending.entries):
                waiting.appendleft(pending._replace(entries=pending.entries[count:]))
                break
        if waiting:
            self._queued[place] = waiting
        return batch

    async def _flush(self, batches: list[Batch]) -> Exception | None:
        """Store the batches and tell; give the error of those that have to be sent again."""
        expected = self._expected_wakes(batches)
        if expected:
            # Behind the append on the same connection: one trip for both.
            replies, _ = await asyncio.gather(self._send(batches), self._inbox.wake_all(expected))
        else:
            replies = await self._send(batches)
        wakes: defaultdict[str, list[str]] = defaultdict(list)
        refused: Exception | None = None
        for call, reply in replies:
            if not isinstance(reply, Exception):
                self._note(call, reply, wakes)
            elif _is_transient(reply):
                self._again.extend(call)
                refused = reply
            else:
                _fail(call, reply)
        for node in wakes.keys() & expected.keys():
            wakes[node] = [stream for stream in wakes[node] if stream not in expected[node]]
        await self._inbox.wake_all({node: streams for node, streams in wakes.items() if streams})
        return refused

    def _expected_wakes(self, batches: list[Batch]) -> dict[str, list[str]]:
        """Give the nodes that watched at the last append, where the wake arrives after this one.

        In a Cluster the two take different ways; with replicas the append takes a way of its own.
        """
        expected: defaultdict[str, list[str]] = defaultdict(list)
        if self._watchers and self._store.form != "cluster" and not self._store.replicas:
            for batch in batches:
                stream = batch.log
                for node in self._watchers.get(stream, ()):
                    expected[node].append(stream)
        return expected

    def _note(self, call: list[Batch], reply: Any, wakes: defaultdict[str, list[str]]) -> None:
        """Tell what became of a call's batches, and note whom to wake."""
        changes_nodes, found = reply
        for node in changes_nodes:
            wakes[node.decode()].append(keys.changes(call[0].claim.tenant))
        for batch, (state, epoch, seq, nodes) in zip(call, found, strict=True):
            cursor = Cursor(int(epoch), int(seq))
            _tell(batch, Appended(state.decode(), cursor))
            here, others = self._inbox.node, [node.decode() for node in nodes]
            if here in others:
                others.remove(here)
                # The entries were mostly shown here when they came, before they were stored.
                if self._inbox.is_behind(batch.log, cursor):
                    wakes[here].append(batch.log)
            self._note_watchers(batch.log, others)
            for name in others:
                wakes[name].append(batch.log)

    def _note_watchers(self, stream: str, others: list[str]) -> None:
        self._watchers.pop(stream, None)
        if others and len(self._watchers) < WATCHERS_KEPT:
            self._watchers[stream] = others

    async def _send(self, batches: list[Batch]) -> list[tuple[list[Batch], Any]]:
        """Send the batches; gives each call's reply, or the error of Redis."""
        async with self._store.operation():
            replies = await self._pipeline(calls_of(batches))
            # One of them may be what Redis refuses: each is tried alone.
            refused = [reply for reply in replies if len(reply[0]) > 1 and _is_final(reply[1])]
            alone = [[batch] for call, _ in refused for batch in call]
            if alone:
                kept = [reply for reply in replies if reply not in refused]
                replies = kept + await self._pipeline(alone)
        return replies

    async def _pipeline(self, calls: list[list[Batch]]) -> list[tuple[list[Batch], Any]]:
        wanted = script("append")
        replies = await self._evaluate(wanted, calls)
        if any(isinstance(reply, NoScriptError) for reply in replies):
            # Redis has restarted. What other calls did already is skipped the second time;
            # the nodes that were woken look again within a second.
            await self._store.commands.script_load(wanted.text)
            replies = await self._evaluate(wanted, calls)
        return list(zip(calls, replies, strict=True))

    async def _evaluate(self, wanted: Script, calls: list[list[Batch]]) -> list[Any]:
        pipe = self._store.commands.pipeline(transaction=False)
        for call in calls:
            names, arguments = arguments_of(call, self._limits)
            pipe.execute_command("EVALSHA", wanted.sha, len(names), *names, *arguments)
        return await self._store.execute(pipe, [call[0].log for call in calls])

    # Reading.

    async def read(
        self, tenant: str, session_id: str, after: Cursor, count: int = 1000
    ) -> list[tuple[Cursor, bytes]]:
        """Give the entries after a cursor, the oldest first."""
        name = keys.log(tenant, session_id)
        async with self._store.operation():
            found = await self._store.commands.xrange(name, f"({after.stream_id}", "+", count)
        return [_read(*each) for each in found]

    async def read_before(
        self, tenant: str, session_id: str, before: Cursor | None, count: int
    ) -> list[tuple[Cursor, bytes]]:
        """Give the newest entries (before a cursor), the oldest of them first."""
        name = keys.log(tenant, session_id)
        end = "+" if before is None else f"({before.stream_id}"
        async with self._store.operation():
            found = await self._store.commands.xrevrange(name, end, "-", count)
        return [_read(*each) for each in reversed(found)]

    async def last(self, tenant: str, session_id: str) -> Cursor:
        """Give the cursor of the newest entry; START when there is none."""
        name = keys.meta(tenant, session_id)
        async with self._store.operation():
            epoch, seq = await self._store.commands.hmget(name, "epoch", "seq")
        return Cursor(int(epoch), int(seq)) if epoch else START

    async def first(self, tenant: str, session_id: str) -> Cursor | None:
        """Give the cursor of the oldest entry held."""
        name = keys.log(tenant, session_id)
        async with self._store.operation():
            found = await self._store.commands.xrange(name, count=1)
        return Cursor.from_stream_id(found[0][0]) if found else None


def _fitting(entries: list[Entry], room: int, size: int) -> int:
    """Count the first entries that still fit into a batch."""
    count = 0
    for each in entries[:room]:
        size += len(each.payload)
        if size > CALL_BYTES:
            break
        count += 1
    return count


def _read(stream_id: bytes, fields: dict[bytes, bytes]) -> tuple[Cursor, bytes]:
    return Cursor.from_stream_id(stream_id), fields[b"m"]


def _fail(call: list[Batch], error: Exception) -> None:
    for batch in call:
        _logger.error("redis refuses entries of session %s: %s", batch.session, error)
        _tell(batch, Appended("failed", START))


def _tell(batch: Batch, appended: Appended) -> None:
    for on_stored in batch.told:
        try:
            on_stored(appended)
        except Exception:  # one uplink's fault must not stop the others
            _logger.exception("an uplink failed on what was stored of %s", batch.session)


def _is_transient(error: Exception) -> bool:
    if is_lost(error) or isinstance(error, _TRANSIENT):
        return True
    return str(error).startswith(_TRANSIENT_WORDS)


def _is_final(reply: Any) -> bool:
    return isinstance(reply, Exception) and not _is_transient(reply)
