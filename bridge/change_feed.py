"""The notices of those tenants that somebody on this process listens to."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial

from bridge import changes, keys
from bridge.changes import Change
from bridge.inbox import Entries, Followed, Inbox
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store

OPEN_SECONDS = 3.0  # to register the watch
TOLD_MS = 600_000  # longer than a lost reply may be repeated

logger = logging.getLogger(__name__)


class ChangeFeed:
    """Follows each tenant's stream of notices once, whatever the number of listeners."""

    def __init__(
        self, store: Store, inbox: Inbox, heed: Callable[[Change], None] = lambda _: None
    ) -> None:
        """Follow through this inbox; ``heed`` hears each notice once, before the listeners."""
        self._heed = heed
        self.hearers: set[Callable[[str, Change], None]] = set()  # of every tenant followed here
        self._store = store
        self._inbox = inbox
        self._tenants: dict[str, _Tenant] = {}

    async def listen(self, tenant: str, on_change: Callable[[Change], None]) -> Callable[[], None]:
        """Call back with what changes from now on; the result stops it; raises StoreUnavailable."""
        feed = self._tenants.setdefault(tenant, _Tenant(tenant, self._heard))
        place = object()
        feed.listeners[place] = on_change
        try:
            await feed.open(self._store, self._inbox)
        except BaseException:
            self._stop(feed, place)
            raise
        return partial(self._stop, feed, place)

    async def tell(self, tenant: str, change: Change) -> None:
        """Tell every process that listens of what no record shows; raises StoreUnavailable."""
        stream = keys.changes(tenant)
        names = [keys.told(tenant, secrets.token_hex(12)), stream, keys.watch(stream)]
        nodes = await self._store.run("notify", names, [changes.notice(change), TOLD_MS])
        await self._inbox.wake(nodes, stream)

    def _heard(self, tenant: str, change: Change) -> None:
        self._heed(change)
        for hearer in self.hearers:
            hearer(tenant, change)

    def _stop(self, feed: _Tenant, place: object) -> None:
        feed.listeners.pop(place, None)
        if not feed.listeners and self._tenants.get(feed.tenant) is feed:
            feed.stop()
            del self._tenants[feed.tenant]


class _Tenant:
    """One tenant's stream and who listens to it."""

    def __init__(self, tenant: str, heed: Callable[[str, Change], None]) -> None:
        self.tenant = tenant
        self._heed: Callable[[Change], None] = partial(heed, tenant)
        self.listeners: dict[object, Callable[[Change], None]] = {}
        self._followed: Followed | None = None
        self._opening = asyncio.Lock()

    async def open(self, store: Store, inbox: Inbox) -> None:
        """Follow the stream from its end, unless it is followed already."""
        async with self._opening:
            if self._followed is not None:
                return
            stream = keys.changes(self.tenant)
            async with store.operation():
                newest = await store.commands.xrevrange(stream, count=1)
            after = newest[0][0].decode() if newest else "0-0"
            followed = inbox.follow(self.tenant, stream, after, self._on_entries)
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    await followed.ready()
            except TimeoutError:
                followed.stop()
                raise StoreUnavailable("redis does not answer: nothing is watched") from None
            self._followed = followed

    def stop(self) -> None:
        """Follow no longer."""
        if self._followed is not None:
            self._followed.stop()

    def _on_entries(self, entries: Entries) -> None:
        for _, fields in entries:
            change = changes.parse(fields)
            for listener in (self._heed, *self.listeners.values()):
                try:
                    listener(change)
                except Exception:  # one listener's fault must not starve the others
                    logger.exception("a listener of %s failed", self.tenant)
