"""The local doors that are open: each is told everything, and a broken one disturbs no other."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agent_side.door import Door
from agent_side.log import Piece, Written
from agent_side.round_trips import Question
from bridge.protocol import entry
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved

logger = logging.getLogger(__name__)


class Audience:
    """All doors of one connector."""

    def __init__(self) -> None:
        """Begin with no door open."""
        self._doors: list[Door] = []

    def open(self, door: Door) -> None:
        """Tell a door everything from now on."""
        self._doors.append(door)

    def close(self, door: Door) -> None:
        """Tell a door nothing more."""
        if door in self._doors:
            self._doors.remove(door)

    def entry(self, written: Written) -> None:
        """Tell a new entry."""
        if self._doors:
            envelope = entry.read(written.text)
            self._tell(lambda door: door.entry(written.session_id, written.text, envelope))

    def piece(self, piece: Piece) -> None:
        """Tell a piece of an entry that follows."""
        self._tell(lambda d: d.piece(piece.session_id, piece.text, is_first=piece.is_first))

    def asked(self, question: Question) -> None:
        """Put a question."""
        self._tell(lambda door: door.ask(question))

    def closed(self, question: Question, resolved: Resolved) -> None:
        """Take a question back."""
        self._tell(lambda door: door.withdraw(question, resolved))

    def passed_on(self, session_id: str | None, method: str, params: Payload) -> None:
        """Tell what the agent says outside the log."""
        self._tell(lambda door: door.notification(session_id, method, params))

    def status_changed(self) -> None:
        """Tell that the connector's status is another."""
        self._tell(lambda door: door.status_changed())

    def _tell(self, tell: Callable[[Door], None]) -> None:
        for door in list(self._doors):
            try:
                tell(door)
            except Exception:
                logger.exception("the door %s failed", door.name)
