"""The connector's background work: nothing is forgotten, no failure is silent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

Work: TypeAlias = Coroutine[Any, Any, None]
Spawn: TypeAlias = Callable[[Work], None]

logger = logging.getLogger(__name__)


class Tasks:
    """Tasks that live until they are done or ``stop`` ends them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Work) -> None:
        """Begin some work; a failure that it does not handle itself is logged."""
        task = asyncio.get_running_loop().create_task(_guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End all of them and wait for their end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _guarded(work: Work) -> None:
    try:
        await work
    except Exception:
        logger.exception("a task of the connector failed")
