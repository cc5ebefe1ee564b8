"""What an earlier process left open in the logs: questions, turns and tool calls."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from agent_side.tool_cards import ToolCards
from bridge.protocol import entry, jsonrpc
from bridge.protocol.entry import Envelope, Origin


@dataclass
class OpenTurn:
    """A prompt that had not ended: ``queued`` or ``started``."""

    id: str
    state: str
    mail_id: str | None
    origin: Origin | None


@dataclass
class Leftovers:
    """What is open in one session."""

    questions: dict[str, None] = field(default_factory=dict)
    turns: dict[str, OpenTurn] = field(default_factory=dict)
    cards: ToolCards = field(default_factory=ToolCards)


class Recovery:
    """Reads every entry of the journals once and keeps what is open at the end."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self.sessions: dict[str, Leftovers] = {}

    def of(self, session_id: str) -> Leftovers:
        """Give what is open in a session."""
        return self.sessions.setdefault(session_id, Leftovers())

    def queued(self) -> dict[str, str]:
        """Give the turns that wait for a prompt in the mail: mail ids to turn ids."""
        turns = [turn for left in self.sessions.values() for turn in left.turns.values()]
        return {t.mail_id: t.id for t in turns if t.mail_id is not None and t.state == "queued"}

    def read(self, text: bytes, envelope: Envelope) -> None:
        """Take a session's next entry."""
        left = self.of(envelope.session_id)
        round_trip = envelope.meta.round_trip
        if round_trip is not None:
            left.questions[round_trip.id] = None
        elif envelope.method == entry.RESOLVED:
            left.questions.pop(_params(text).get("id", ""), None)
        elif envelope.method == entry.TURN:
            _take_turn(left, _params(text), envelope)
        elif b'"tool_call' in text:
            update = _params(text).get("update")
            if isinstance(update, dict):
                left.cards.take(update)


def _take_turn(left: Leftovers, params: jsonrpc.Payload, envelope: Envelope) -> None:
    turn, state = str(params.get("turn")), str(params.get("state"))
    if state in ("queued", "started"):
        left.turns[turn] = OpenTurn(turn, state, envelope.meta.mail_id, envelope.meta.origin)
        return
    left.turns.pop(turn, None)
    left.cards.close_all()


class _Message(msgspec.Struct):
    params: dict[str, msgspec.Raw]


def _params(text: bytes) -> jsonrpc.Payload:
    params = msgspec.json.decode(text, type=_Message).params
    kept = ("id", "turn", "state", "update")
    return {name: jsonrpc.value(params[name]) for name in kept if name in params}
