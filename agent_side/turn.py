"""One prompt on its way: what it is, how it ends, and the log's entries about it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent_side.agent_text import shortened_update, strip
from agent_side.agents.process import AgentError, Outcome
from agent_side.log import Draft
from bridge.protocol import entry, jsonrpc
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError, InternalError
from bridge.protocol.jsonrpc import Payload

CANCELLED = "cancelled"


class UnknownOutcome(BridgeError):
    """The agent was given this, and it or the connector ended; what came of it is not known."""

    code, status, reason = -32603, 500, "unknown_outcome"


@dataclass(frozen=True)
class TurnEnd:
    """How a prompt ended: with a stop reason, or with a JSON-RPC error object."""

    stop_reason: str | None = None
    error: Payload | None = None
    result: Payload | None = None  # as the agent gave it, when it gave one

    @classmethod
    def of(cls, outcome: Outcome | BridgeError) -> TurnEnd:
        """Read the agent's answer to session/prompt."""
        if isinstance(outcome, AgentError | BridgeError):
            return cls(error=outcome.as_object())
        result = jsonrpc.value(outcome)
        reason = result.get("stopReason") if isinstance(result, dict) else None
        if not isinstance(reason, str):
            return cls(error=InternalError("the agent gave no stop reason").as_object())
        strip(result)
        return cls(reason, result=result)


OnEnded: TypeAlias = Callable[[TurnEnd], None]


@dataclass(frozen=True)
class Turn:
    """A prompt, whoever gave it, and who hears of its end."""

    id: str
    prompt: list[Payload]
    origin: Origin
    mail_id: str | None
    on_ended: OnEnded

    def is_of(self, by: Origin) -> bool:
        """Whether that subject gave it."""
        return (self.origin.tenant, self.origin.subject) == (by.tenant, by.subject)

    def draft(self, state: str, **more: Any) -> Draft:
        """Draft the entry that says how far it is."""
        return turn_draft(self.id, state, self.origin, self.mail_id, **more)

    def user_chunks(self) -> list[Draft]:
        """Draft the prompt as everybody else sees it."""
        return [self._user_chunk(block) for block in self.prompt]

    def _user_chunk(self, block: Payload) -> Draft:
        update = {"sessionUpdate": "user_message_chunk", "content": block}
        short = shortened_update(update)
        return Draft(
            method=entry.UPDATE,
            fields={"update": update},
            short_fields=None if short == update else {"update": short},
            origin=self.origin,
            mail_id=self.mail_id,
        )


def new_turn_id() -> str:
    """Mint a turn's id."""
    return f"turn-{secrets.token_hex(8)}"


def turn_draft(
    turn_id: str, state: str, origin: Origin | None, mail_id: str | None, **more: Any
) -> Draft:
    """Draft an entry that says how far a turn is."""
    said = {"turn": turn_id, "state": state, "mailId": mail_id, "origin": origin, **more}
    fields = {k: v for k, v in said.items() if v is not None}
    return Draft(method=entry.TURN, fields=fields, origin=origin, mail_id=mail_id)
