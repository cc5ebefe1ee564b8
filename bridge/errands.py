"""What one connection has to wait for, done in order and without a task while there is nothing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from bridge.protocol.errors import StoreUnavailable
from bridge.tasks import Tasks

Work: TypeAlias = Callable[[], Awaitable[None]]

logger = logging.getLogger(__name__)


class Errands:
    """A queue of work of one connection; one thing's failure is logged and the next one begins."""

    __slots__ = ("_name", "_running", "_tasks", "_waiting")

    def __init__(self, tasks: Tasks, name: str) -> None:
        """Run in tasks of this owner."""
        self._tasks = tasks
        self._name = name
        self._waiting: deque[Work] | None = None  # empty, it would still take 600 bytes
        self._running = False

    def __len__(self) -> int:
        """How much waits."""
        return len(self._waiting or ())

    def add(self, work: Work) -> None:
        """Do this after all that was added before."""
        if self._waiting is None:
            self._waiting = deque()
        self._waiting.append(work)
        if not self._running:
            self._running = True
            self._tasks.start(self._name, self._run())

    def clear(self) -> None:
        """Forget what has not begun."""
        self._waiting = None

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._do(self._waiting.popleft())
        finally:
            self._running = False
            self._waiting = None

    async def _do(self, work: Work) -> None:
        try:
            await work()
        except StoreUnavailable as error:  # Health says it aloud, once for all
            logger.debug("%s: %s", self._name, error)
        except Exception:
            logger.exception("%s failed", self._name)
