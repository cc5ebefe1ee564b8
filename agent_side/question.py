"""A question the agent waits for: what is asked, and which answers fit."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from agent_side import risk, scope, shell, subject
from agent_side.agent_text import Cleaned
from agent_side.options import kinds_of
from agent_side.rules import DAYS, Verb
from agent_side.scope import Scope
from agent_side.sessions import Session
from bridge.protocol import entry, jsonrpc, round_trip
from bridge.protocol.entry import RoundTrip
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import AskedNote, Decision

SecretsIn: TypeAlias = Callable[[bytes], list[str]]  # names the kinds of secret in a text


@dataclass(frozen=True)
class Question:
    """A question the agent waits for."""

    id: str  # the round-trip's
    session: Session = field(repr=False)
    method: str
    params: Payload  # the agent's own in full, with the public session id
    round_trip: RoundTrip
    asked_at: int  # Unix milliseconds
    request_id: jsonrpc.Id = field(repr=False)  # the agent's; they begin at 0 and repeat
    cleaned: Cleaned = field(repr=False)

    @property
    def session_id(self) -> str:
        """The public id of the session in which it was asked."""
        return self.session.id

    @property
    def risk(self) -> str:
        """How much harm an approval may do: low, medium, high."""
        return self.round_trip.risk

    @property
    def scope(self) -> Scope | None:
        """What "always" or "never" would cover."""
        return scope.of_facts(json.loads(self.round_trip.subject))

    @property
    def note(self) -> AskedNote:
        """What the log tells of it when nobody was asked."""
        title = json.loads(self.round_trip.subject).get("title") or ""
        return AskedNote(str(title)[:200], self.round_trip.hash, self.round_trip.risk)

    def rejects(self, answer: Payload) -> bool:
        """Whether an answer lets nothing happen."""
        if self.round_trip.kind == "elicitation":
            return answer.get("action") != "accept"
        kind = kinds_of(self.params).get(str(answer.get("optionId")), "")
        return kind.startswith("reject")


class Remember(msgspec.Struct, frozen=True):
    """What an answer says of equal questions."""

    decision: Verb
    days: int = DAYS  # 0: without end
    open: bool = False  # also those that are open now


def new_id() -> str:
    """Mint the id of a round-trip."""
    return f"rt-{secrets.token_hex(8)}"


def compose(  # noqa: PLR0917 (each is of its own kind)
    id_: str, method: str, params: Payload, card: Payload, cwd: str, secrets_in: SecretsIn
) -> RoundTrip:
    """Describe what is asked; raises InvalidParams when nobody could answer it."""
    if method != entry.PERMISSION:
        text = subject.marked(subject.of_elicitation(params, cwd), secrets_in)
        return _round_trip(id_, "elicitation", text, [], cwd)
    options = _option_ids(params)
    text = subject.marked(subject.of_permission(params, card, cwd), secrets_in)
    return _round_trip(id_, "permission", text, options, cwd)


def check_decision(question: Question, decision: Decision) -> None:
    """Refuse a decision from afar that is not about this text; raises InvalidParams."""
    if decision.hash != question.round_trip.hash:
        raise InvalidParams("the decision is about another text than what will run")
    round_trip.check_answer(question.round_trip, decision.answer)
    text = question.round_trip.subject
    if not round_trip.is_decidable(text) and not question.rejects(decision.answer):
        raise InvalidParams("what will run is too long, or was cut: it can only be rejected")


def read_remember(question: Question, answer: Payload) -> Remember | None:
    """Read what an answer says of equal questions; raises InvalidParams when it cannot be."""
    given = answer.get("remember")
    if given is None:
        return None
    try:
        wish = msgspec.convert(given, Remember)
    except msgspec.ValidationError as error:
        raise InvalidParams(f"invalid remember: {error}") from None
    if question.scope is None:
        raise InvalidParams("no rule can be made of this question: answer it for this time")
    if question.round_trip.people > 1:
        raise InvalidParams("what two people must approve is never allowed by a rule")
    if question.rejects(answer) != (wish.decision == "deny") or not 0 <= wish.days <= 3650:  # noqa: PLR2004
        raise InvalidParams("the option and what is to be remembered say different things")
    return wish


def plain(answer: Payload | None) -> Payload | None:
    """Keep of an answer what ACP knows."""
    if answer is None:
        return None
    return {k: answer[k] for k in ("optionId", "action", "content") if answer.get(k) is not None}


def _round_trip(id_: str, kind: Any, text: str, options: list[str], cwd: str) -> RoundTrip:
    command = json.loads(text).get("command")
    return RoundTrip(
        id=id_,
        kind=kind,
        subject=text,
        hash=round_trip.hash_of(text),
        option_ids=options,
        risk=risk.rate(text, cwd),
        calls=shell.calls_of(command) if command is not None else None,
    )


def _option_ids(params: Payload) -> list[str]:
    options = params.get("options")
    if isinstance(options, list) and options:
        ids = [option.get("optionId") for option in options if isinstance(option, dict)]
        named = [id_ for id_ in ids if isinstance(id_, str)]
        if len(named) == len(options):
            return named
    raise InvalidParams("a permission request needs options, each with an optionId")
