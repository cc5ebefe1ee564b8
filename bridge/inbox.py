"""This process's wake-ups, and the follower of every stream it watches: logs, mail, changes.

What must wake a relay process is a small entry of its inbox stream. A wake-up carries nothing: the
stream it names is read from the follower's own place, and everything watched is read once a second
anyway. So a lost wake-up costs at most that second, never an entry. Three tasks share the work: one
listens to the inbox, one reads what is due, one keeps the watch leases.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from bridge import keys
from bridge.outage import Outage
from bridge.protocol.errors import InvalidParams, StoreUnavailable
from bridge.redis import Store

BLOCK_MS = 1000  # shorter than the reader's read timeout
TICK_SECONDS = 1.0
LEASE_MS = 60_000
RENEW_SECONDS = 5.0
INBOX_SECONDS = 60
INBOX_ENTRIES = 2000
PAGE = 1000  # entries of one stream in one read
STREAMS = 500  # in one read: one timeout covers the whole reply

Entries = list[tuple[str, dict[bytes, bytes]]]

_logger = logging.getLogger(__name__)


class Followed:
    """One follower's place in one stream."""

    __slots__ = ("_inbox", "_place", "_registered", "on_entries", "stream", "tenant")

    def __init__(
        self,
        inbox: Inbox,
        tenant: str,
        stream: str,
        after: str,
        on_entries: Callable[[Entries], None],
    ) -> None:
        """Stand after an id; the inbox calls ``on_entries`` with what follows."""
        self._inbox = inbox
        self.tenant = tenant
        self.stream = stream
        self.on_entries = on_entries
        self._place = _place(after)
        self._registered = asyncio.Event()

    @property
    def after(self) -> str:
        """The stream id of the last entry this follower had."""
        return f"{self._place[0]}-{self._place[1]}"

    @property
    def place(self) -> tuple[int, int]:
        """The same, for comparing."""
        return self._place

    def advance(self, place: tuple[int, int]) -> None:
        """Skip what was delivered otherwise; never goes back."""
        self._place = max(self._place, place)

    def stop(self) -> None:
        """Follow no longer."""
        self._registered.set()  # whoever still waits for it need not
        self._inbox._leave(self)  # noqa: SLF001 (the inbox made it)

    async def ready(self) -> None:
        """Wait until writers know that this node watches."""
        await self._registered.wait()

    def registered(self) -> None:
        """Tell whoever waits that the watch is there."""
        self._registered.set()

    def take(self, entries: list[tuple[bytes, Any]]) -> None:
        """Deliver those entries that this follower has not had."""
        fresh: Entries = []
        for raw_id, fields in entries:
            stream_id = raw_id.decode()
            place = _place(stream_id)
            if place > self._place:
                self._place = place
                fresh.append((stream_id, fields))
        if fresh:
            self.on_entries(fresh)


class Inbox:
    """What wakes this process."""

    def __init__(self, store: Store, node: str | None = None) -> None:
        """Name the node (default: at random) whose inbox this is."""
        self.node = node or secrets.token_hex(6)
        self.recovered: set[Callable[[], None]] = set()  # called when Redis is back, perhaps older
        self._store = store
        self._key = keys.inbox(self.node)
        self._followers: dict[str, set[Followed]] = {}
        self._tenants: dict[str, str] = {}  # stream → tenant, of what is followed
        self._unregistered: set[str] = set()
        self._left: set[str] = set()
        self._due: set[str] = set()
        self._to_read = asyncio.Event()
        self._to_register = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()  # for leases: two tasks keep them

    # Following.

    def follow(
        self,
        tenant: str,
        stream: str,
        after: str,
        on_entries: Callable[[Entries], None],
    ) -> Followed:
        """Call ``on_entries`` with what comes after an id, in order, each entry once."""
        if not stream.startswith(f"b:{{{keys.check_tenant(tenant)}}}:"):
            raise InvalidParams(f"{stream!r:.80} is no stream of tenant {tenant!r}")
        followed = Followed(self, tenant, stream, after, on_entries)
        self._followers.setdefault(stream, set()).add(followed)
        self._tenants[stream] = tenant
        self._unregistered.add(stream)
        self._left.discard(stream)
        self._to_register.set()
        return followed

    def is_behind(self, stream: str, place: tuple[int, int]) -> bool:
        """Whether a follower of this process has not had that entry of a stream yet."""
        return any(followed.place < place for followed in self._followers.get(stream, ()))

    def _leave(self, followed: Followed) -> None:
        followers = self._followers.get(followed.stream, set())
        followers.discard(followed)
        if not followers and self._followers.pop(followed.stream, None) is not None:
            self._tenants.pop(followed.stream, None)
            self._unregistered.discard(followed.stream)
            self._left.add(followed.stream)
            self._to_register.set()

    # Waking.

    async def wake(self, nodes: Iterable[bytes | str], stream: str) -> None:
        """Wake the nodes for a stream; a failure is left to their tick."""
        await self.wake_all({_text(node): [stream] for node in nodes})

    async def wake_all(self, streams: Mapping[str, list[str]]) -> None:
        """Wake each node for its streams, with one small entry each."""
        others = {node: names for node, names in streams.items() if node != self.node}
        self._mark(streams.get(self.node, ()))
        if not others:
            return
        try:
            async with self._store.operation():
                pipe = self._store.commands.pipeline(transaction=False)
                for node, names in others.items():
                    pipe.xadd(
                        keys.inbox(node),
                        {"s": " ".join(names)},
                        maxlen=INBOX_ENTRIES,
                        approximate=True,
                        nomkstream=True,
                    )
                await pipe.execute()
        except StoreUnavailable as error:
            _logger.debug("wake-ups lost, the ticks repair it: %s", error)

    def _mark(self, streams: Iterable[str]) -> None:
        due = [stream for stream in streams if stream in self._followers]
        if due:
            self._due.update(due)
            self._to_read.set()

    # Running.

    async def run(self) -> None:
        """Listen, read and keep the leases until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen(), name="inbox listens")
            tasks.create_task(self._read(), name="inbox reads")
            tasks.create_task(self._register(), name="inbox keeps its leases")

    async def _listen(self) -> NoReturn:
        outage = Outage("the inbox")
        again = False
        while True:
            try:
                last = await self._begin()
                outage.over()
                if again:
                    for callback in tuple(self.recovered):
                        callback()
                again = True
                await self._hear(last)
            except StoreUnavailable as error:
                await outage.wait(error)

    async def _begin(self) -> bytes:
        """Make the inbox, renew every watch, take the newest wake-up's id, read everything."""
        reader = self._store.reader
        async with self._store.operation():
            await reader.xadd(self._key, {"s": ""}, maxlen=INBOX_ENTRIES, approximate=True)
            await reader.expire(self._key, INBOX_SECONDS)
        await self._keep_leases(everything=True)
        async with self._store.operation():
            newest = await reader.xrevrange(self._key, count=1)
        self._mark(self._followers)
        return newest[0][0] if newest else b"0-0"

    async def _hear(self, last: bytes) -> None:
        """Turn wake-ups into streams to read, until the inbox is gone or a master was away."""
        reader, tick = self._store.reader, time.monotonic() + TICK_SECONDS
        moves = self._store.moves()
        while True:
            block = max(1, min(BLOCK_MS, int((tick - time.monotonic()) * 1000)))
            async with self._store.operation(seconds=BLOCK_MS / 1000 + 3):
                reply = await reader.xread({self._key: last}, count=PAGE, block=block)
            for _, entries in reply:
                last = entries[-1][0]
                self._mark({s for _, fields in entries for s in fields[b"s"].decode().split()})
            if time.monotonic() >= tick:
                tick = time.monotonic() + TICK_SECONDS
                self._mark(self._followers)
                async with self._store.operation():
                    there = await reader.expire(self._key, INBOX_SECONDS)
                if self._store.moves() != moves:
                    return  # another master than the inbox's may have come back with less
                if not there:  # Redis has lost it, or this process slept for a minute
                    _logger.warning("the inbox of node %s was gone; it is made again", self.node)
                    return

    async def _read(self) -> NoReturn:
        outage = Outage("the followed streams")
        while True:
            await self._to_read.wait()
            self._to_read.clear()
            try:
                while self._due:
                    await self._read_page()
                outage.over()
            except StoreUnavailable as error:
                self._to_read.set()
                await outage.wait(error)

    async def _read_page(self) -> None:
        """Read one page of what is due, of one tenant; a full page makes its stream due again."""
        streams = self._next_due()
        if not streams:
            return
        try:
            async with self._store.operation():
                reply = await self._store.commands.xread(streams, count=PAGE)
        except StoreUnavailable:
            self._due.update(streams)
            raise
        for raw_name, entries in reply:
            name = raw_name.decode()
            for followed in tuple(self._followers.get(name, ())):
                _deliver(followed, entries)
            if len(entries) == PAGE:
                self._due.add(name)

    def _next_due(self) -> dict[str, str]:
        """Take streams of one tenant off what is due, each with the place to read from."""
        tenant: str | None = None
        taken: dict[str, str] = {}
        for stream in tuple(self._due):
            followers = self._followers.get(stream)
            if not followers:
                self._due.discard(stream)
                continue
            tenant = tenant or self._tenants[stream]
            if self._tenants[stream] == tenant and len(taken) < STREAMS:
                self._due.discard(stream)
                taken[stream] = min(followers, key=lambda followed: followed.place).after
        return taken

    # Watch leases.

    async def _register(self) -> NoReturn:
        outage = Outage("the watch leases")
        renew_at = time.monotonic() + RENEW_SECONDS
        while True:
            try:
                async with asyncio.timeout(max(0.0, renew_at - time.monotonic())):
                    await self._to_register.wait()
            except TimeoutError:
                pass
            self._to_register.clear()
            try:
                everything = time.monotonic() >= renew_at
                await self._keep_leases(everything=everything)
                if everything:  # only now: what failed is due until it is done
                    renew_at = time.monotonic() + RENEW_SECONDS
                outage.over()
            except StoreUnavailable as error:
                self._to_register.set()
                await outage.wait(error)

    async def _keep_leases(self, *, everything: bool) -> None:
        """End what nobody follows any more, register what is new or renew everything."""
        async with self._one_at_a_time:
            await self._unwatch()
            await self._lease(list(self._followers if everything else self._unregistered))

    async def _lease(self, streams: list[str]) -> None:
        by_tenant: defaultdict[str, list[str]] = defaultdict(list)
        for stream in streams:
            if stream in self._tenants:
                by_tenant[self._tenants[stream]].append(stream)
        for names in by_tenant.values():
            for start in range(0, len(names), STREAMS):
                batch = names[start : start + STREAMS]
                await self._store.run(
                    "watch", [keys.watch(s) for s in batch], [self.node, LEASE_MS]
                )
                self._registered(batch)

    def _registered(self, streams: list[str]) -> None:
        fresh = [stream for stream in streams if stream in self._unregistered]
        self._unregistered.difference_update(fresh)
        for stream in fresh:
            for followed in self._followers.get(stream, ()):
                followed.registered()
        self._mark(fresh)

    async def _unwatch(self) -> None:
        left = [stream for stream in self._left if stream not in self._followers]
        if left:
            async with self._store.operation():
                pipe = self._store.commands.pipeline(transaction=False)
                for stream in left:
                    pipe.hdel(keys.watch(stream), self.node)
                await pipe.execute()
        self._left.difference_update(left)


def _deliver(followed: Followed, entries: list[tuple[bytes, Any]]) -> None:
    try:
        followed.take(entries)
    except Exception:  # one follower's fault must not stop the others
        _logger.exception("a follower of %s failed", followed.stream)


def _place(stream_id: str) -> tuple[int, int]:
    ms, seq = stream_id.split("-")
    return int(ms), int(seq)


def _text(node: bytes | str) -> str:
    return node.decode() if isinstance(node, bytes) else node
