"""The background tasks a relay process lives from: one owner, and none dies unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

ENDING_SECONDS = 1.5  # the whole process ends within five
AGAIN_SECONDS = 0.1

logger = logging.getLogger(__name__)


class Tasks:
    """Starts tasks and awaits them at the end; ``failed`` names the first one that died."""

    def __init__(self) -> None:
        """Begin with none."""
        self._running: set[asyncio.Task[None]] = set()
        self.failed: str | None = None

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work until it is done or the process ends; when it raises, the process ends."""
        task = asyncio.create_task(self._watch(name, work), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # cancelled before it began
        return task

    async def end(self) -> None:
        """Cancel what still runs and wait for it, but not for ever."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ENDING_SECONDS
        while self._running and loop.time() < deadline:
            # Again and again: redis-py waits with asyncio.wait_for, and before Python 3.12 that
            # forgets a cancellation which comes together with its result.
            for task in self._running:
                task.cancel()
            await asyncio.wait(set(self._running), timeout=AGAIN_SECONDS)
        for task in self._running:
            logger.warning("the task %s does not end; leaving it", task.get_name())

    async def _watch(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("the task %s died; the relay stops, start it again", name)
            self.failed = self.failed or name
