"""A time in which Redis does not answer, as one background task sees it."""

from __future__ import annotations

import asyncio
import logging
import random

BACKOFF_SECONDS = (0.05, 0.5)

_logger = logging.getLogger(__name__)


class Outage:
    """One outage as its task sees it, waited out with growing jitter; ``Health`` says it aloud."""

    def __init__(self, whose: str) -> None:
        """Name what suffers, for the log."""
        self._whose = whose
        self._failures = 0

    async def wait(self, error: Exception) -> None:
        """Say the first failure, then wait a little longer each time."""
        if not self._failures:
            _logger.debug("%s: %s", self._whose, error)
        first, most = BACKOFF_SECONDS
        longest = min(most, first * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        await asyncio.sleep(random.uniform(first / 2, longest))

    def over(self) -> bool:
        """Note a success; True when it ended an outage."""
        was, self._failures = self._failures > 0, 0
        if was:
            _logger.debug("%s: redis answers again", self._whose)
        return was
