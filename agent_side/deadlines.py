"""When an open question is to be ended or called out again, as the owner's policy says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from agent_side.unanswered import End, Unanswered

GRACE_SECONDS = 1.0  # after a question's end, for an answer that was recorded before it


class Deadlines:
    """The timers of all open questions."""

    def __init__(
        self, policy: Iterable[Unanswered], on_due: Callable[[str, Unanswered], None]
    ) -> None:
        """Tell ``on_due`` which question's time has come, and for what."""
        self._policy = tuple(policy)
        self._on_due = on_due
        self._timers: dict[str, list[asyncio.TimerHandle]] = {}

    @property
    def ends_after_ms(self) -> int | None:
        """How long a question may be answered; None: for ever."""
        ends = [one.seconds for one in self._policy if one.end is not End.ESCALATE]
        return int(ends[0] * 1000) if ends else None

    def arm(self, id_: str, asked_at: int) -> None:
        """Watch a question that was asked at a time in Unix milliseconds."""
        if not self._policy:
            return
        loop, passed = asyncio.get_running_loop(), time.time() - asked_at / 1000
        self._timers[id_] = [
            loop.call_later(max(0.0, _seconds(one) - passed), self._on_due, id_, one)
            for one in self._policy
        ]

    def disarm(self, id_: str) -> None:
        """Watch a question no longer."""
        for timer in self._timers.pop(id_, ()):
            timer.cancel()


def _seconds(one: Unanswered) -> float:
    return one.seconds + (0 if one.end is End.ESCALATE else GRACE_SECONDS)
