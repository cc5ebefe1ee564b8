"""Whether the store takes what this process writes: looked at every second, said once.

Operations that fail say only that they are in doubt; a small write to each master decides. So what
one broken connection does is no outage, and reading that still works ends none.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NoReturn

from redis.exceptions import RedisError

from bridge import fitness
from bridge.protocol.attachment import Reason
from bridge.protocol.entry import timestamp
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store

LOOK_SECONDS = 1.0
PROBE_SECONDS = 1.5
LEAST_SECONDS = 0.1  # between two looks, however much is in doubt

logger = logging.getLogger(__name__)


class Health:
    """The store as this process finds it."""

    def __init__(self, store: Store) -> None:
        """Take it for well until it was looked at."""
        self.trouble: str | None = None  # in words for people
        self.since = 0  # Unix milliseconds, of the trouble
        self.outages = 0
        self.changed: set[Callable[[], None]] = set()
        self.recovered: set[Callable[[], None]] = set()
        self._store = store
        self._failures_before = 0

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(LEAST_SECONDS)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._store.in_doubt.wait()
            except TimeoutError:
                pass
            self._store.in_doubt.clear()

    def as_json(self) -> Payload:
        """Give the wire shape."""
        if self.trouble is None:
            return {"state": "ok"}
        return {
            "state": "degraded",
            "reason": Reason.STORE_DOWN.value,
            "message": self.trouble,
            "since": timestamp(self.since),
        }

    @property
    def seconds(self) -> float:
        """How long the trouble lasts by now."""
        return time.time() - self.since / 1000 if self.trouble else 0.0

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                await fitness.probe(self._store)
        except (RedisError, OSError) as error:
            self._fail(error)
        else:
            self._pass()

    def _fail(self, error: Exception) -> None:
        if self.trouble is not None:
            return
        self.trouble = f"redis at {self._store.address} {fitness.said(error)}"
        self.since = time.time_ns() // 10**6
        self.outages += 1
        self._failures_before = self._store.failures
        logger.warning("%s; nothing is acknowledged or decided meanwhile", self.trouble)
        _call(self.changed)

    def _pass(self) -> None:
        if self.trouble is None:
            return
        logger.warning(
            "redis at %s takes writes again after %.1f s; %d operations failed meanwhile",
            self._store.address,
            self.seconds,
            self._store.failures - self._failures_before,
        )
        self.trouble = None
        _call(self.changed)
        _call(self.recovered)


def _call(callbacks: set[Callable[[], None]]) -> None:
    for callback in tuple(callbacks):
        callback()
