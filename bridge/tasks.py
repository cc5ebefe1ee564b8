"""The background tasks a relay process lives from: one owner, and none dies unnoticed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class Tasks:
    """Starts tasks in the application's task group; ``failed`` names the first one that died."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        """Use the group, whose owner awaits what is started here."""
        self._group = group
        self._running: set[asyncio.Task[None]] = set()
        self.failed: str | None = None

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run work until it is done or the process ends; when it raises, the process ends."""
        task = self._group.create_task(self._watch(name, work), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def stop(self) -> None:
        """Cancel what still runs."""
        for task in self._running:
            task.cancel()

    async def _watch(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("the task %s died; the relay stops, start it again", name)
            self.failed = self.failed or name
