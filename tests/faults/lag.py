"""How late the test's own loop is: what the machine adds to a time that is measured in it."""

from __future__ import annotations

import asyncio
import time
from typing import Self

PACE_SECONDS = 0.01


class Lag:
    """The longest delay of this process within ``async with Lag() as lag``."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()

    async def _watch(self) -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(PACE_SECONDS)
            self.worst = max(self.worst, time.monotonic() - begun - PACE_SECONDS)
