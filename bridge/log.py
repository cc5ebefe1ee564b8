"""The session logs: append in batches, read after a cursor, trim.

Uplinks hand their entries over without waiting. One flush is in flight per process; what arrives
meanwhile is the next batch. A batch that Redis did not take is sent again until it is stored: the
script skips what it has already, so nothing is ever stored twice or lost here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

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
from bridge.agents import DEFAULT_AGE_SECONDS, Claim, agent_life_ms
from bridge.changes import Change, notice
from bridge.cluster import is_lost
from bridge.effects import NO_EFFECT, Effect, effect_of
from bridge.inbox import Inbox
from bridge.outage import Outage
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Argument, Script, Store, script

BATCH_ENTRIES = 256  # in one script call: Redis serves nobody else meanwhile
BATCH_BYTES = 4 << 20
NAMED_SESSIONS = 4096  # whose names are at hand; building them costs more than sending them
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

State: TypeAlias = Literal["ok", "gap", "fenced", "foreign", "failed"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LogLimits:
    """How much of each session is kept."""

    entries: int = 20_000
    bytes: int = 32 << 20
    age_seconds: int = DEFAULT_AGE_SECONDS


class Appended(NamedTuple):
    """What became of a batch.

    ``ok``: stored, or there already. ``gap``: an entry is missing, send again from the cursor.
    ``fenced``: the claim is another's. ``foreign``: the session is another agent's. ``failed``:
    Redis refuses it for good.
    """

    state: State
    cursor: Cursor  # the last entry that is stored


class _Entry(NamedTuple):
    cursor: Cursor
    prev: str  # stream id, '' if none is named
    payload: bytes
    effect: Effect

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return (self.cursor.epoch, self.cursor.seq, self.prev, self.payload, self.effect.text)


class _Pending(NamedTuple):
    claim: Claim
    entries: list[_Entry]
    on_stored: Callable[[Appended], None]


class _Batch(NamedTuple):
    """What one script call takes of one session."""

    claim: Claim
    session: str
    entries: list[_Entry]
    told: list[Callable[[Appended], None]]


class Log:
    """The logs of all sessions."""

    def __init__(self, store: Store, inbox: Inbox, limits: LogLimits = LogLimits()) -> None:
        """Write through ``store`` and wake through ``inbox``; ``run`` does the writing."""
        self._store = store
        self._inbox = inbox
        self._limits = limits
        self._queued: dict[tuple[str, str], deque[_Pending]] = {}
        self._wanted = asyncio.Event()
        self._watchers: dict[str, list[str]] = {}  # other nodes by log, as of its last append
        self._again: deque[_Batch] = deque()  # not taken yet, before anything queued

    # Writing.

    def append(
        self,
        claim: Claim,
        session_id: str,
        entries: list[tuple[Cursor, bytes, Envelope | None]],
        on_stored: Callable[[Appended], None],
    ) -> None:
        """Queue entries; raises InvalidParams when an id in them cannot be one."""
        keys.check_id(session_id, "session id")
        prepared = [_prepare(claim, session_id, *each) for each in entries]
        waiting = self._queued.setdefault((claim.tenant, session_id), deque())
        waiting.append(_Pending(claim, prepared, on_stored))
        # Behind what this turn of the loop sends: people see an entry before it is stored.
        asyncio.get_running_loop().call_soon(self._wanted.set)

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

    def _take(self) -> list[_Batch]:
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
            size += sum(len(each.payload) for each in batch.entries)
        return batches

    def _take_of(self, place: tuple[str, str]) -> _Batch:
        """Take one session's next batch; what is left goes behind the other sessions."""
        waiting = self._queued.pop(place)
        claim = waiting[0].claim
        batch = _Batch(claim, place[1], [], [])
        size = 0
        while waiting and waiting[0].claim == claim:
            pending = waiting.popleft()
            count = _fitting(pending.entries, BATCH_ENTRIES - len(batch.entries), size)
            if not count and pending.entries and batch.entries:
                waiting.appendleft(pending)
                break
            count = max(count, 1)
            batch.entries.extend(pending.entries[:count])
            size += sum(len(each.payload) for each in pending.entries[:count])
            if pending.on_stored not in batch.told:
                batch.told.append(pending.on_stored)
            if count < len(pending.entries):
                waiting.appendleft(pending._replace(entries=pending.entries[count:]))
                break
        if waiting:
            self._queued[place] = waiting
        return batch

    async def _flush(self, batches: list[_Batch]) -> Exception | None:
        """Store the batches and tell; give the error of those that have to be sent again."""
        expected = self._expected_wakes(batches)
        if expected:
            # Behind the append on the same connection: one trip for both.
            replies, _ = await asyncio.gather(self._send(batches), self._inbox.wake_all(expected))
        else:
            replies = await self._send(batches)
        wakes: defaultdict[str, list[str]] = defaultdict(list)
        refused: Exception | None = None
        for batch, reply in zip(batches, replies, strict=True):
            if isinstance(reply, Exception) and _is_transient(reply):
                self._again.append(batch)
                refused = reply
                continue
            appended = _appended(batch, reply)
            _tell(batch, appended)
            if appended.state != "failed":
                self._note_wakes(wakes, batch, appended.cursor, reply[3], reply[4])
        for node in wakes.keys() & expected.keys():
            wakes[node] = [stream for stream in wakes[node] if stream not in expected[node]]
        await self._inbox.wake_all({node: streams for node, streams in wakes.items() if streams})
        return refused

    def _expected_wakes(self, batches: list[_Batch]) -> dict[str, list[str]]:
        """Give the nodes that watched at the last append, where the wake arrives after this one.

        In a Cluster the two take different ways; with replicas the append takes a way of its own.
        """
        expected: defaultdict[str, list[str]] = defaultdict(list)
        if self._watchers and self._store.form != "cluster" and not self._store.replicas:
            for batch in batches:
                stream = keys.log(batch.claim.tenant, batch.session)
                for node in self._watchers.get(stream, ()):
                    expected[node].append(stream)
        return expected

    def _note_wakes(
        self,
        wakes: defaultdict[str, list[str]],
        batch: _Batch,
        cursor: Cursor,
        log_nodes: list[bytes],
        changes_nodes: list[bytes],
    ) -> None:
        stream = keys.log(batch.claim.tenant, batch.session)
        self._note_watchers(stream, log_nodes)
        for node in log_nodes:
            name = node.decode()
            # Here the entries were mostly shown when they came, before they were stored.
            if name != self._inbox.node or self._inbox.is_behind(stream, cursor.stream_id):
                wakes[name].append(stream)
        for node in changes_nodes:
            wakes[node.decode()].append(keys.changes(batch.claim.tenant))

    def _note_watchers(self, stream: str, nodes: list[bytes]) -> None:
        self._watchers.pop(stream, None)
        others = [name for node in nodes if (name := node.decode()) != self._inbox.node]
        if others and len(self._watchers) < WATCHERS_KEPT:
            self._watchers[stream] = others

    async def _send(self, batches: list[_Batch]) -> list[Any]:
        wanted = script("append")
        async with self._store.operation():
            replies = await self._pipeline(wanted, batches)
            if any(isinstance(reply, NoScriptError) for reply in replies):
                # Redis has restarted. What other calls did already is skipped the second time;
                # the nodes that were woken look again within a second.
                await self._store.commands.script_load(wanted.text)
                replies = await self._pipeline(wanted, batches)
        return replies

    async def _pipeline(self, wanted: Script, batches: list[_Batch]) -> list[Any]:
        pipe = self._store.commands.pipeline(transaction=False)
        logs: list[str] = []
        for batch in batches:
            names, arguments = self._call(batch)
            logs.append(names[0])
            pipe.execute_command("EVALSHA", wanted.sha, len(names), *names, *arguments)
        return await self._store.execute(pipe, logs)

    def _call(self, batch: _Batch) -> tuple[list[str], list[Argument]]:
        claim, session, limits = batch.claim, batch.session, self._limits
        tenant = claim.tenant
        names = [*_names(tenant, session, claim.agent)]
        names += [keys.round_trip(tenant, e.effect.about) for e in batch.entries if e.effect.text]
        arguments: list[Argument] = [
            session,
            claim.agent,
            claim.epoch,
            claim.writer,
            limits.entries,
            limits.bytes,
            limits.age_seconds * 1000,
            agent_life_ms(limits.age_seconds),
            notice(Change("session", session, agent=claim.agent)),
        ]
        for each in batch.entries:
            arguments += each.arguments
        return names, arguments

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


@lru_cache(maxsize=NAMED_SESSIONS)
def _names(tenant: str, session: str, agent: str) -> tuple[str, ...]:
    """Give the names of all that an append of a session touches, but for its questions."""
    log, changes = keys.log(tenant, session), keys.changes(tenant)
    return (
        log,
        keys.meta(tenant, session),
        keys.chunks(tenant, session),
        keys.asked(tenant, session),
        keys.watch(log),
        keys.claim(tenant, agent),
        keys.open_round_trips(tenant),
        keys.closed_round_trips(tenant),
        keys.sessions(tenant),
        keys.sessions_of(tenant, agent),
        changes,
        keys.watch(changes),
        keys.audit(tenant),
    )


def _prepare(
    claim: Claim, session: str, cursor: Cursor, payload: bytes, envelope: Envelope | None
) -> _Entry:
    if envelope is None:
        return _Entry(cursor, "", payload, NO_EFFECT)
    prev = envelope.meta.prev
    before = "" if prev is None else Cursor.parse(prev).stream_id
    return _Entry(cursor, before, payload, effect_of(claim, session, payload, envelope))


def _fitting(entries: list[_Entry], room: int, size: int) -> int:
    """Count the first entries that still fit into a batch."""
    count = 0
    for each in entries[:room]:
        size += len(each.payload)
        if size > BATCH_BYTES:
            break
        count += 1
    return count


def _read(stream_id: bytes, fields: dict[bytes, bytes]) -> tuple[Cursor, bytes]:
    return Cursor.from_stream_id(stream_id), fields[b"m"]


def _appended(batch: _Batch, reply: Any) -> Appended:
    if isinstance(reply, Exception):
        _logger.error("redis refuses entries of session %s: %s", batch.session, reply)
        return Appended("failed", START)
    return Appended(reply[0].decode(), Cursor(int(reply[1]), int(reply[2])))


def _tell(batch: _Batch, appended: Appended) -> None:
    for on_stored in batch.told:
        try:
            on_stored(appended)
        except Exception:  # one uplink's fault must not stop the others
            _logger.exception("an uplink failed on what was stored of %s", batch.session)


def _is_transient(error: Exception) -> bool:
    if is_lost(error) or isinstance(error, _TRANSIENT):
        return True
    return str(error).startswith(_TRANSIENT_WORDS)
