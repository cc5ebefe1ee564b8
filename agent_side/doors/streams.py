"""Wakes the event streams of an HTTP door; what they show they read from the journal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from agent_side.round_trips import Question
from bridge.protocol.entry import Envelope
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved


class Watch:
    """One stream's wait for the next entry."""

    def __init__(self) -> None:
        """Begin with nothing to wake for."""
        self.ended = False
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Have it look again."""
        self._changed.set()

    async def changed(self, seconds: float) -> bool:
        """Wait for an entry, at most so long; say whether one came."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        came = self._changed.is_set()
        self._changed.clear()
        return came


class Streams:
    """A door of the connector that holds nothing itself."""

    name = "http"

    def __init__(self) -> None:
        """Begin without a stream."""
        self._watches: dict[str, list[Watch]] = {}

    @contextlib.contextmanager
    def watch(self, session_id: str) -> Iterator[Watch]:
        """Have a watch woken at each entry of a session."""
        one = Watch()
        self._watches.setdefault(session_id, []).append(one)
        try:
            yield one
        finally:
            self._watches[session_id].remove(one)

    def end(self, session_id: str | None = None) -> None:
        """End the streams of a session, or (None) all."""
        for watched, watches in self._watches.items():
            for one in watches if session_id in (None, watched) else ():
                one.ended = True
                one.wake()

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:  # noqa: ARG002
        """Wake who watches the session."""
        for one in self._watches.get(session_id, ()):
            one.wake()

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Wait for the entry that follows."""

    def ask(self, question: Question) -> None:
        """Do nothing: the question's entry is in the stream."""

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Do nothing: the entry that says so is in the stream."""

    def notification(self, session_id: str | None, method: str, params: Payload) -> None:
        """Do nothing: only the log is shown."""

    def status_changed(self) -> None:
        """Do nothing: the dialect has no event for it."""
