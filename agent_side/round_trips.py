"""The agent's open questions: each is answered once, and only here is it closed.

A question is decided at once by the owner's rules, or opens in the log and at the local doors; it
ends by an answer from afar (``applied``), or void: answered locally, by a rule, cancelled, its turn
over, its time over, the agent gone, the decision refused.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from agent_side.agent_text import Cleaned
from agent_side.approvals import Preset, Verdict
from agent_side.deadlines import Deadlines
from agent_side.log import Draft, Log
from agent_side.options import option_for
from agent_side.question import (
    Question,
    Remember,
    check_decision,
    compose,
    new_id,
    plain,
    read_remember,
)
from agent_side.sessions import Session
from agent_side.terms import Terms
from agent_side.unanswered import End, Unanswered
from bridge.protocol import entry, jsonrpc, round_trip
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError, InvalidParams, NotFound, RequestCancelled
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision, Reason, Resolved, Result, RuleNote

REMEMBERED = 1000  # closed questions, to tell a late answer who won

__all__ = ["Asker", "Question", "RoundTrips", "resolved_draft"]


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
        terms: Terms,
    ) -> None:
        """Tell ``on_asked`` and ``on_closed`` in the order of the log."""
        self.open: dict[str, Question] = {}
        self.skew_ms = 0  # the relay's clock minus ours: a question's end is told in its time
        self._log = log
        self._agent = agent
        self._on_asked = on_asked
        self._on_closed = on_closed
        self._terms = terms
        self._deadlines = Deadlines(terms.unanswered, self._due)
        self._closed: dict[str, Resolved] = {}

    def ask(
        self, request: jsonrpc.Request, session: Session, cleaned: Cleaned, card: Payload
    ) -> None:
        """Decide a question by rules or open it; ``card``: what is known of the tool call.

        Raises InvalidParams when nobody could answer it.
        """
        params = {**jsonrpc.payload(request.params), "sessionId": session.id}
        cwd, secrets_in = str(session.cwd), self._terms.secrets_in
        asked = compose(new_id(), request.method, params, card, cwd, secrets_in)
        asked = msgspec.structs.replace(asked, people=self._terms.approvals.people(asked.risk))
        question = Question(
            id=asked.id,
            session=session,
            method=request.method,
            params=params,
            round_trip=asked,
            asked_at=time.time_ns() // 1_000_000,
            request_id=request.id,
            cleaned=cleaned,
        )
        verdict = self._terms.approvals.judge(session.id, asked, self._terms.roots)
        if verdict is None or not self._settle(question, verdict):
            self._put(question)

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
            self._remember(question, answer, by)
        resolved = self._close(question, Result.VOID, Reason.LOCAL, plain(answer), by)
        self._apply_to_equal(question, answer)
        return resolved

    def decide(self, decision: Decision, by: Origin, also: Origin | None = None) -> Resolved:
        """Apply a decision from afar; what cannot be accepted closes and asks again anew.

        ``also``: who approved it first, where it took two.
        """
        question = self.open.get(decision.id)
        if question is None:
            return self.outcome(decision.id)
        answer = decision.answer
        try:
            check_decision(question, decision)
            if question.round_trip.people > 1 and also is None and not question.rejects(answer):
                raise InvalidParams("this takes the approval of two people")
            self._remember(question, answer, by)
        except BridgeError:
            return self._ask_again(question, Reason.REFUSED, answer, by)
        reason = Reason.DECIDED
        resolved = self._close(question, Result.APPLIED, reason, plain(answer), by, also=also)
        self._apply_to_equal(question, answer)
        return resolved

    def end_by_rule(self, decision: Decision, by: Origin, rule: RuleNote) -> Resolved:
        """End a question as a rule of the relay says; an answer of {} cancels it."""
        question = self.open.get(decision.id)
        if question is None:
            return self.outcome(decision.id)
        answer = decision.answer or None
        try:
            if answer is not None:
                check_decision(question, decision)
                if not question.rejects(answer) and not self._relay_may_allow(question):
                    raise InvalidParams("this machine lets no rule of a relay allow this")
                if (own := self._own_refusal(question)) is not None:
                    self._close_by(question, own)
                    return self.outcome(question.id)
        except BridgeError:
            return self._ask_again(question, Reason.REFUSED, answer, by)
        reason = Reason.EXPIRED if decision.expired else Reason.RULE
        return self._close(question, Result.VOID, reason, plain(answer), rule=rule)

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

    # Rules and time.

    def judge_open(self, session_id: str) -> None:
        """Decide a session's open questions by a preset that has just been set."""
        for question in [q for q in self.open.values() if q.session_id == session_id]:
            approvals, roots = self._terms.approvals, self._terms.roots
            verdict = approvals.judge(session_id, question.round_trip, roots)
            if verdict is not None:
                self._close_by(question, verdict)

    def _remember(self, question: Question, answer: Payload, by: Origin) -> None:
        """Make the rule that an answer asks for; raises InvalidParams."""
        wish = read_remember(question, answer)
        if wish is None:
            return
        if self._terms.approvals.of(question.session_id) is Preset.STRICT:
            raise InvalidParams("the preset strict remembers nothing")
        assert question.scope is not None
        try:
            self._terms.approvals.rules.add(question.scope, wish.decision, by, wish.days)
        except OSError as error:
            raise InvalidParams(f"the rule cannot be kept: {error}") from None

    def _apply_to_equal(self, question: Question, answer: Payload | None) -> None:
        """Decide the other open questions of the same scope, when the answer says so."""
        wish = msgspec.convert((answer or {}).get("remember"), Remember | None)
        if wish is None or not wish.open or (covered := question.scope) is None:
            return
        for other in list(self.open.values()):
            rule = self._terms.approvals.rules.find(covered.key)
            if rule is not None and other.scope == covered and other.round_trip.people == 1:
                self._close_by(other, Verdict(rule.verb, rule.note))

    def _settle(self, question: Question, verdict: Verdict) -> bool:
        """Answer a question before it is asked; False when no option says what the rule says."""
        answer = _answer_of(question, verdict)
        if answer is None and verdict.verb == "allow":
            return False
        self._respond(question, answer, Reason.RULE)
        resolved = Resolved(
            question.id,
            Result.VOID,
            Reason.RULE,
            answer,
            rule=verdict.rule,
            asked=question.note,
        )
        self._note_end(question, resolved)
        self._tell_violation(question, verdict)
        return True

    def _close_by(self, question: Question, verdict: Verdict) -> None:
        answer = _answer_of(question, verdict)
        if answer is not None or verdict.verb == "deny":
            self._close(question, Result.VOID, Reason.RULE, answer, rule=verdict.rule)
            self._tell_violation(question, verdict)

    def _tell_violation(self, question: Question, verdict: Verdict) -> None:
        if verdict.violation:
            facts = jsonrpc.payload(question.round_trip.subject.encode())
            path = next(iter([*facts.get("paths", []), *_diff_paths(facts)]), None)
            fields = {"tool": facts.get("kind"), "path": path, "command": facts.get("command")}
            told = {name: value for name, value in fields.items() if value is not None}
            draft = Draft(method=entry.VIOLATION, fields={**told, "mode": verdict.violation})
            self._log.append(question.session_id, draft)

    def _due(self, id_: str, due: Unanswered) -> None:
        question = self.open.get(id_)
        if question is None:
            return
        if due.end is End.ESCALATE:
            draft = Draft(method=entry.ESCALATED, fields={"id": id_, "after": due.seconds})
            self._log.append(question.session_id, draft)
            return
        option = option_for(question.params, "deny") if due.end is End.DENY else None
        answer = None if option is None else {"optionId": option}
        self._close(question, Result.VOID, Reason.EXPIRED, answer)

    # Inside.

    def _put(self, question: Question) -> None:
        question = self._with_terms(question)
        self.open[question.id] = question
        self._deadlines.arm(question.id, question.asked_at)
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

    def _with_terms(self, question: Question) -> Question:
        """Put on a question what holds for its answers from now on."""
        terms, asked, life = self._terms, question.round_trip, self._deadlines.ends_after_ms
        end = None if life is None else entry.timestamp(question.asked_at + life + self.skew_ms)
        asked = msgspec.structs.replace(
            asked,
            signed=terms.is_signed(),
            expires_at=end,
            relay_rules=self._relay_may_allow(question),
        )
        return dataclasses.replace(question, round_trip=asked)

    def _relay_may_allow(self, question: Question) -> bool:
        """Whether a rule of the relay may allow it now; a device may just have been paired."""
        is_strict = self._terms.approvals.of(question.session_id) is Preset.STRICT
        takes = self._terms.takes_relay_rules() and not is_strict
        return takes and question.round_trip.people == 1

    def _own_refusal(self, question: Question) -> Verdict | None:
        """Give what this machine refuses by itself by now."""
        terms = self._terms
        verdict = terms.approvals.judge(question.session_id, question.round_trip, terms.roots)
        return verdict if verdict is not None and verdict.verb == "deny" else None

    def _ask_again(
        self, question: Question, reason: Reason, answer: Payload | None, by: Origin | None
    ) -> Resolved:
        resolved = self._end(question, Resolved(question.id, Result.VOID, reason, answer, by))
        again = msgspec.structs.replace(question.round_trip, id=new_id())
        self._put(dataclasses.replace(question, id=again.id, round_trip=again))
        return resolved

    def _close(
        self,
        question: Question,
        result: Result,
        reason: Reason,
        answer: Payload | None = None,
        by: Origin | None = None,
        *,
        also: Origin | None = None,
        rule: RuleNote | None = None,
    ) -> Resolved:
        self._respond(question, answer, reason)
        resolved = Resolved(question.id, result, reason, answer, by, also=also, rule=rule)
        return self._end(question, resolved)

    def _respond(self, question: Question, answer: Payload | None, reason: Reason) -> None:
        told = round_trip.result_for_agent(question.round_trip, answer, reason)
        self._agent.respond(question.request_id, told)

    def _end(self, question: Question, resolved: Resolved) -> Resolved:
        del self.open[question.id]
        self._deadlines.disarm(question.id)
        self._count(question.session)
        self._note_end(question, resolved)
        self._log.then(lambda: self._on_closed(question, resolved))
        return resolved

    def _note_end(self, question: Question, resolved: Resolved) -> None:
        question.session.doings.closed(question, resolved)
        self._closed[question.id] = resolved
        if len(self._closed) > REMEMBERED:
            del self._closed[next(iter(self._closed))]
        self._log.append(question.session_id, resolved_draft(resolved))

    def _count(self, session: Session) -> None:
        session.questions = sum(1 for q in self.open.values() if q.session is session)
        session.heard()  # it may work for a while on what it was answered
        session.changed()


def resolved_draft(resolved: Resolved) -> Draft:
    """Draft the entry that closes a question."""
    fields: dict[str, Any] = msgspec.structs.asdict(resolved)
    return Draft(method=entry.RESOLVED, fields={k: v for k, v in fields.items() if v is not None})


def _answer_of(question: Question, verdict: Verdict) -> Payload | None:
    option = option_for(question.params, verdict.verb)
    return None if option is None else {"optionId": option}


def _diff_paths(facts: Payload) -> list[Any]:
    return [diff.get("path") for diff in facts.get("diffs", [])]
