"""A local door that keeps what it is told."""

from __future__ import annotations

import json
from typing import Any

from agent_side.round_trips import Question
from bridge.protocol.entry import Envelope
from bridge.protocol.round_trip import Resolved


class FakeDoor:
    """Keeps entries, questions and withdrawals in the order they came."""

    def __init__(self, name: str = "terminal") -> None:
        self.name = name
        self.told: list[Any] = []
        self.entries: list[tuple[str, dict[str, Any]]] = []
        self.asked: list[Question] = []
        self.pieces: list[tuple[str, dict[str, Any], bool]] = []
        self.withdrawn: list[Resolved] = []
        self.notifications: list[tuple[str | None, str, dict[str, Any]]] = []

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        assert envelope.session_id == session_id
        self.entries.append((session_id, json.loads(text)))
        self.told.append(("entry", envelope.method))

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        self.pieces.append((session_id, json.loads(text), is_first))

    def ask(self, question: Question) -> None:
        self.asked.append(question)
        self.told.append(("ask", question.id))

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        self.withdrawn.append(resolved)
        self.told.append(("withdraw", question.id))

    def notification(self, session_id: str | None, method: str, params: dict[str, Any]) -> None:
        self.notifications.append((session_id, method, params))

    def status_changed(self) -> None:
        pass

    def methods(self) -> list[str]:
        return [message["method"] for _, message in self.entries]
