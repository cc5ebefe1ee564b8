"""A local door: a surface on this machine that shows sessions and answers questions."""

from __future__ import annotations

from typing import Protocol

from agent_side.round_trips import Question
from bridge.protocol.entry import Envelope
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved


class Door(Protocol):
    """What the connector tells a door; each call is synchronous and in the order of the log."""

    name: str  # "editor", "terminal"

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        """Take a new entry of any session, in full, questions and resolved included."""

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Take a piece of text before it has a number; ``is_first``: of an entry that follows.

        The entry says what its pieces said.
        """

    def ask(self, question: Question) -> None:
        """Put a question before a person."""

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Take a question back: it is answered or has ended."""

    def notification(self, session_id: str | None, method: str, params: Payload) -> None:
        """Take a notification of the agent that is no log entry (local doors alone get these)."""

    def status_changed(self) -> None:
        """Show the connector's status anew."""
