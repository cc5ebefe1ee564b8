"""Notices that an agent gets nowhere: it ignores a cancel, or says nothing while a turn runs."""

from __future__ import annotations

import asyncio

from agent_side.sessions import Session, StallReason

UNHEEDED_SECONDS = 30.0  # after a cancel; an agent may have to end its tools first
SILENT_SECONDS = 600.0  # without a word; a long build or test says nothing for minutes


class Stall:
    """Watches one session's running turn and says in its card when nothing comes of it."""

    def __init__(self, session: Session) -> None:
        """Watch nothing yet."""
        self._session = session
        self._silence: asyncio.TimerHandle | None = None
        self._unheeded: asyncio.TimerHandle | None = None

    @property
    def ignores_cancel(self) -> bool:
        """Whether the agent was told to stop and has not for a while."""
        return self._session.stalled == StallReason.CANCEL_UNACKNOWLEDGED

    def begin(self) -> None:
        """Note that a turn runs."""
        self._session.heard()
        self._listen(SILENT_SECONDS)

    def cancelled(self) -> None:
        """Note that the agent was told to stop."""
        if self._unheeded is None:
            self._unheeded = asyncio.get_running_loop().call_later(
                UNHEEDED_SECONDS, self._session.stall, StallReason.CANCEL_UNACKNOWLEDGED
            )

    def end(self) -> None:
        """Note that the turn is over."""
        for timer in (self._silence, self._unheeded):
            if timer is not None:
                timer.cancel()
        self._silence = self._unheeded = None
        self._session.stall("")

    def _listen(self, seconds: float) -> None:
        self._silence = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        left = SILENT_SECONDS - self._session.silence()
        if left <= 0 and not self._session.questions and not self._session.stalled:
            self._session.stall(StallReason.SILENT)
        self._listen(left if left > 0 else SILENT_SECONDS)
