"""The agent's open questions: each is answered once, and only here is it closed.

A question opens in the log and at the local doors; it ends by an answer from afar (``applied``), or
void: answered locally, cancelled, its turn over, the agent gone, the decision refused.
"""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from agent_side import risk, subject
from agent_side.agent_text import Cleaned
from agent_side.log import Draft, Log
from agent_side.sessions import Session
from bridge.protocol import entry, jsonrpc, round_trip
from bridge.protocol.entry import Origin, RoundTrip
from bridge.protocol.errors import BridgeError, InvalidParams, NotFound, RequestCancelled
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision, Reason, Resolved, Result

REMEMBERED = 1000  # closed questions, to tell a late answer who won


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


class Asker(Protocol):
    """The agent, as far as it waits for answers."""

    def respond(self, id_: jsonrpc.Id, result: Payload) -> None:
        """Answer a request of the agent."""

    def fail(self, id_: jsonrpc.Id, error: BridgeError) -> None:
        """Answer a request of the agent with an error."""


class RoundTrips:
    """All open questions of one connector, in the order they were asked."""

    def __init__(
        self,
        log: Log,
        agent: Asker,
        on_asked: Callable[[Question], None],
        on_closed: Callable[[Question, Resolved], None],
        *,
        is_signed: Callable[[], bool],
        secrets_in: Callable[[bytes], list[str]],
    ) -> None:
        """Tell ``on_asked`` and ``on_closed`` in the order of the log.

        ``is_signed``: whether an answer from afar needs a signature now. ``secrets_in``: names the
        kinds of secret in a text.
        """
        self.open: dict[str, Question] = {}
        self._log = log
        self._agent = agent
        self._on_asked = on_asked
        self._on_closed = on_closed
        self._is_signed = is_signed
        self._secrets_in = secrets_in
        self._closed: dict[str, Resolved] = {}

    def ask(
        self, request: jsonrpc.Request, session: Session, cleaned: Cleaned, card: Payload
    ) -> Question:
        """Open a question of the agent; ``card``: what is known of the tool call.

        Raises InvalidParams when nobody could answer it.
        """
        params = {**jsonrpc.payload(request.params), "sessionId": session.id}
        cwd = str(session.cwd)
        if request.method == entry.PERMISSION:
            options = _option_ids(params)
            composed = subject.of_permission(params, card, cwd)
        else:
            options, composed = [], subject.of_elicitation(params, cwd)
        text = subject.marked(composed, self._secrets_in)
        id_ = _new_id()
        question = Question(
            id=id_,
            session=session,
            method=request.method,
            params=params,
            round_trip=msgspec.structs.replace(
                _round_trip(id_, request.method, text, options), signed=self._is_signed()
            ),
            asked_at=time.time_ns() // 1_000_000,
            request_id=request.id,
            cleaned=cleaned,
        )
        return self._put(question)

    # Ways a question ends.

    def answer(self, id_: str, answer: Payload | None, by: Origin) -> Resolved:
        """Answer at this machine (None: cancelled); a late answer gets the one that won.

        Raises InvalidParams for an answer that was not offered and NotFound for an unknown id.
        """
        question = self.open.get(id_)
        if question is None:
            return self.outcome(id_)
        if answer is not None:
            round_trip.check_answer(question.round_trip, answer)
        return self._close(question, Result.VOID, Reason.LOCAL, _plain(answer), by)

    def decide(self, decision: Decision, by: Origin) -> Resolved:
        """Apply a decision from afar; what cannot be accepted closes and asks again anew."""
        question = self.open.get(decision.id)
        if question is None:
            return self.outcome(decision.id)
        try:
            _check(question, decision)
        except BridgeError:
            return self._ask_again(question, Reason.REFUSED, decision.answer, by)
        return self._close(question, Result.APPLIED, Reason.DECIDED, _plain(decision.answer), by)

    def refuse(self, id_: str, by: Origin) -> None:
        """Close a question as refused and ask it anew: what decided it cannot be accepted."""
        question = self.open.get(id_)
        if question is not None:
            self._ask_again(question, Reason.REFUSED, None, by)

    def withdraw(self, request_id: jsonrpc.Id) -> None:
        """End the question that the agent itself took back (``$/cancel_request``)."""
        for question in list(self.open.values()):
            if question.request_id == request_id:
                self._agent.fail(request_id, RequestCancelled("cancelled by the agent"))
                self._end(question, Resolved(question.id, Result.VOID, Reason.CANCELLED))

    def close_session(self, session_id: str, reason: Reason, by: Origin | None = None) -> None:
        """End all questions of a session for one reason."""
        for question in list(self.open.values()):
            if question.session_id == session_id:
                self._close(question, Result.VOID, reason, by=by)

    def close_all(self, reason: Reason) -> None:
        """End all questions for one reason."""
        for question in list(self.open.values()):
            self._close(question, Result.VOID, reason)

    def renew(self, ids: list[str]) -> None:
        """Ask again, under new ids, what the relay counts as closed though the agent waits."""
        for id_ in ids:
            if (question := self.open.get(id_)) is not None:
                self._ask_again(question, Reason.RESTARTED, None, None)

    def outcome(self, id_: str) -> Resolved:
        """Tell how a closed question ended; raises NotFound."""
        if id_ not in self._closed:
            raise NotFound(f"no open question {id_[:80]!r}")
        return self._closed[id_]

    # Inside.

    def _put(self, question: Question) -> Question:
        self.open[question.id] = question
        self._count(question.session)
        cleaned = question.cleaned
        self._log.append(
            question.session_id,
            Draft(
                method=question.method,
                fields=cleaned.fields,
                short_fields=cleaned.short,
                agent_meta=cleaned.meta,
                short_meta=cleaned.short_meta,
                id=question.id,
                round_trip=question.round_trip,
            ),
        )
        self._log.then(lambda: self._on_asked(question))
        return question

    def _ask_again(
        self, question: Question, reason: Reason, answer: Payload | None, by: Origin | None
    ) -> Resolved:
        resolved = self._end(question, Resolved(question.id, Result.VOID, reason, answer, by))
        id_ = _new_id()
        again = msgspec.structs.replace(question.round_trip, id=id_, signed=self._is_signed())
        self._put(dataclasses.replace(question, id=id_, round_trip=again))
        return resolved

    def _close(
        self,
        question: Question,
        result: Result,
        reason: Reason,
        answer: Payload | None = None,
        by: Origin | None = None,
    ) -> Resolved:
        self._agent.respond(
            question.request_id, round_trip.result_for_agent(question.round_trip, answer)
        )
        return self._end(question, Resolved(question.id, result, reason, answer, by))

    def _end(self, question: Question, resolved: Resolved) -> Resolved:
        del self.open[question.id]
        self._count(question.session)
        self._closed[question.id] = resolved
        if len(self._closed) > REMEMBERED:
            del self._closed[next(iter(self._closed))]
        self._log.append(question.session_id, resolved_draft(resolved))
        self._log.then(lambda: self._on_closed(question, resolved))
        return resolved

    def _count(self, session: Session) -> None:
        session.questions = sum(1 for q in self.open.values() if q.session is session)
        session.heard()  # it may work for a while on what it was answered
        session.changed()


def resolved_draft(resolved: Resolved) -> Draft:
    """Draft the entry that closes a question."""
    fields: dict[str, Any] = msgspec.structs.asdict(resolved)
    return Draft(method=entry.RESOLVED, fields={k: v for k, v in fields.items() if v is not None})


def _round_trip(id_: str, method: str, text: str, options: list[str]) -> RoundTrip:
    return RoundTrip(
        id=id_,
        kind="permission" if method == entry.PERMISSION else "elicitation",
        subject=text,
        hash=round_trip.hash_of(text),
        option_ids=options,
        risk=risk.rate(text),
    )


def _option_ids(params: Payload) -> list[str]:
    options = params.get("options")
    if isinstance(options, list) and options:
        ids = [option.get("optionId") for option in options if isinstance(option, dict)]
        named = [id_ for id_ in ids if isinstance(id_, str)]
        if len(named) == len(options):
            return named
    raise InvalidParams("a permission request needs options, each with an optionId")


def _check(question: Question, decision: Decision) -> None:
    if decision.hash != question.round_trip.hash:
        raise InvalidParams("the decision is about another text than what will run")
    round_trip.check_answer(question.round_trip, decision.answer)
    text = question.round_trip.subject
    if not round_trip.is_decidable(text) and not _rejects(question, decision):
        raise InvalidParams("what will run is too long, or was cut: it can only be rejected")


def _rejects(question: Question, decision: Decision) -> bool:
    if question.round_trip.kind == "elicitation":
        return decision.answer.get("action") != "accept"
    chosen = decision.answer.get("optionId")
    return any(
        option.get("optionId") == chosen and str(option.get("kind", "")).startswith("reject")
        for option in question.params["options"]
        if isinstance(option, dict)
    )


def _plain(answer: Payload | None) -> Payload | None:
    """Keep of an answer what ACP knows."""
    if answer is None:
        return None
    return {k: answer[k] for k in ("optionId", "action", "content") if answer.get(k) is not None}


def _new_id() -> str:
    return f"rt-{secrets.token_hex(8)}"
