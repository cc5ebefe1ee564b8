"""A session's prompts: one runs, the others wait; every end is said once, after the last text."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from agent_side.agent_text import shortened_update
from agent_side.agents.process import AgentError, Outcome
from agent_side.log import Draft, Log
from bridge.protocol import entry, jsonrpc
from bridge.protocol.entry import META_KEY, Origin
from bridge.protocol.errors import BridgeError, InternalError
from bridge.protocol.jsonrpc import Payload

CANCELLED = "cancelled"


@dataclass(frozen=True)
class TurnEnd:
    """How a prompt ended: with a stop reason, or with a JSON-RPC error object."""

    stop_reason: str | None = None
    error: Payload | None = None
    result: Payload | None = None  # as the agent gave it, when it gave one


OnEnded: TypeAlias = Callable[[TurnEnd], None]


@dataclass(frozen=True)
class Turn:
    """One prompt on its way."""

    id: str
    prompt: list[Payload]
    origin: Origin
    mail_id: str | None
    on_ended: OnEnded


def new_turn_id() -> str:
    """Mint a turn's id."""
    return f"turn-{secrets.token_hex(8)}"


class Stage(Protocol):
    """The session in which turns run, and its agent."""

    @property
    def live(self) -> bool:
        """Whether the agent knows the session."""

    def revive(self) -> None:
        """Make the agent know the session, then call ``proceed`` or ``fail_waiting``."""

    def send_prompt(self, turn: Turn, on_done: Callable[[Outcome], None]) -> None:
        """Hand a prompt to the agent, once what went before is on disk."""

    def send_cancel(self, by: Origin) -> None:
        """Tell the agent to stop, and end its open questions as cancelled."""

    def close_turn(self, outcome: Outcome) -> None:
        """End what the turn left open: questions and tool calls."""

    def turn_changed(self) -> None:
        """Hear that a turn began or ended."""


class Turns:
    """The queue of one session's prompts."""

    def __init__(self, session_id: str, log: Log, stage: Stage) -> None:
        """Begin without a prompt."""
        self.running: Turn | None = None
        self._waiting: deque[Turn] = deque()
        self._session_id = session_id
        self._log = log
        self._stage = stage

    @property
    def busy(self) -> bool:
        """Whether a prompt runs or waits."""
        return self.running is not None or bool(self._waiting)

    def submit(self, turn: Turn, *, announced: bool = False) -> None:
        """Run a prompt now or when its turn comes; ``announced``: the log has it as queued."""
        if not announced and (self.busy or not self._stage.live):
            self._say(turn, "queued")
        self._waiting.append(turn)
        self.proceed()

    def cancel(self, by: Origin) -> None:
        """Stop the running prompt, and drop those that the same subject has waiting."""
        kept = [turn for turn in self._waiting if not _is_of(turn, by)]
        dropped = [turn for turn in self._waiting if _is_of(turn, by)]
        self._waiting = deque(kept)
        self._stage.send_cancel(by)
        for turn in dropped:
            self._end(turn, TurnEnd(CANCELLED))

    def proceed(self) -> None:
        """Start the next prompt when none runs."""
        if self.running is not None or not self._waiting:
            return
        if not self._stage.live:
            self._stage.revive()
            return
        turn = self.running = self._waiting.popleft()
        self._say(turn, "started")
        for block in turn.prompt:
            self._log.append(self._session_id, _user_chunk(block, turn))
        self._stage.turn_changed()
        self._stage.send_prompt(turn, lambda outcome: self._done(turn, outcome))

    def fail_waiting(self, error: Payload) -> None:
        """End every waiting prompt with an error: the session cannot run."""
        waiting, self._waiting = self._waiting, deque()
        for turn in waiting:
            self._end(turn, TurnEnd(error=error))

    def _done(self, turn: Turn, outcome: Outcome) -> None:
        if self.running is not turn:
            return
        self._stage.close_turn(outcome)
        self.running = None
        self._end(turn, _end_of(outcome))
        self._stage.turn_changed()
        self.proceed()

    def _end(self, turn: Turn, end: TurnEnd) -> None:
        self._say(turn, "ended", stopReason=end.stop_reason, error=end.error)
        self._log.then(lambda: turn.on_ended(end))

    def _say(self, turn: Turn, state: str, **more: Any) -> None:
        draft = turn_draft(turn.id, state, turn.origin, turn.mail_id, **more)
        self._log.append(self._session_id, draft)


def turn_draft(
    turn_id: str, state: str, origin: Origin | None, mail_id: str | None, **more: Any
) -> Draft:
    """Draft an entry that says how far a turn is."""
    said = {"turn": turn_id, "state": state, "mailId": mail_id, **more}
    fields = {k: v for k, v in said.items() if v is not None}
    if origin is not None:
        fields["origin"] = origin
    return Draft(method=entry.TURN, fields=fields, origin=origin, mail_id=mail_id)


def _user_chunk(block: Payload, turn: Turn) -> Draft:
    update = {"sessionUpdate": "user_message_chunk", "content": block}
    short = shortened_update(update)
    return Draft(
        method=entry.UPDATE,
        fields={"update": update},
        short_fields=None if short == update else {"update": short},
        origin=turn.origin,
        mail_id=turn.mail_id,
    )


def _end_of(outcome: Outcome) -> TurnEnd:
    if isinstance(outcome, AgentError | BridgeError):
        return TurnEnd(error=outcome.as_object())
    try:
        result = jsonrpc.payload(outcome)
    except BridgeError:
        result = {}
    if isinstance(meta := result.get("_meta"), dict):
        meta.pop(META_KEY, None)
    reason = result.get("stopReason")
    if not isinstance(reason, str):
        return TurnEnd(error=InternalError("the agent gave no stop reason").as_object())
    return TurnEnd(reason, result=result)


def _is_of(turn: Turn, by: Origin) -> bool:
    return (turn.origin.tenant, turn.origin.subject) == (by.tenant, by.subject)
