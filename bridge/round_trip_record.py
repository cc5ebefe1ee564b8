"""The record of a question as the store keeps it, and its wire shape."""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import First, State
from bridge.rule_match import Action, Facts, Rule, facts_of

FIELDS = (
    "id",
    "session",
    "agent",
    "kind",
    "subject",
    "title",
    "hash",
    "option_ids",
    "risk",
    "state",
    "asked_at",
    "expires_at",
    "tool_call_id",
    "option_kinds",
    "calls",
    "people",
    "relay_rules",
    "opened_at",
    "escalated_at",
    "half_by",
    "half_answer",
    "half_at",
    "half_decision_id",
    "half_signature",
    "epoch",
    "seq",
    "entry",
    "answer",
    "decided_by",
    "decided_at",
    "decision_id",
    "result",
    "reason",
    "closed_by",
    "closed_answer",
    "closed_at",
)


class Given(msgspec.Struct, frozen=True):
    """The decision that won."""

    answer: Payload
    by: Origin
    at: int  # Unix milliseconds
    decision_id: str


class Half(msgspec.Struct, frozen=True):
    """The first of two approvals."""

    answer: Payload
    at: int  # Unix milliseconds
    first: First

    def as_json(self) -> Payload:
        """Give the wire shape."""
        by = origin_json(self.first.by)
        return {"answer": self.answer, "by": by, "at": timestamp(self.at)}


class RoundTripRecord(msgspec.Struct, frozen=True):
    """A question as it is known here; times are Unix milliseconds."""

    id: str
    session_id: str
    agent: str
    kind: str
    subject: str
    title: str
    hash: str
    option_ids: list[str]
    risk: str
    state: State
    asked_at: int
    expires_at: int | None
    tool_call_id: str | None
    cursor: Cursor  # of the question's entry
    entry: bytes | None  # the question as the connector sent it, until it is closed
    decision: Given | None
    result: str | None
    reason: str | None
    by: Origin | None
    answer: Payload | None
    closed_at: int | None
    option_kinds: dict[str, str]
    calls: list[list[str]] | None  # the programs of its command, as its machine parsed it
    people: int  # how many must approve it, as its machine says
    relay_rules: bool  # whether its machine takes it that a rule of the relay allows it
    opened_at: int  # by the store's clock
    escalated_at: int | None
    half: Half | None
    rule: Rule | None = None  # of the relay's, the one that is about it while it is open

    @property
    def people_needed(self) -> int:
        """How many people must approve it."""
        by_rule = self.rule is not None and self.rule.action is Action.TWO_PEOPLE
        return 2 if by_rule else self.people

    @property
    def ends_at(self) -> int | None:
        """When a rule of the relay ends it."""
        if self.rule is None or self.rule.action is not Action.EXPIRE:
            return None
        return self.opened_at + self.rule.seconds * 1000

    @property
    def end(self) -> int | None:
        """Until when it may be answered, by its machine or a rule."""
        return min(filter(None, (self.expires_at, self.ends_at)), default=None)

    @property
    def needs(self) -> Payload:
        """What an approval needs now, for people; a denial needs none of it."""
        shown: Payload = {"people": self.people_needed} if self.people_needed > 1 else {}
        if self.rule is not None and self.rule.action is Action.PASSKEY:
            shown["passkey"] = True
        if self.rule is not None and self.rule.action is not Action.ASK:
            shown["rule"] = {"id": self.rule.id, "words": self.rule.words}
        return shown

    def facts(self, names: tuple[str, ...], host: str) -> Facts:
        """Give what rules look at; ``names``: of its agent."""
        names = (self.agent, *names)
        return facts_of(self.subject, self.risk, self.session_id, names, host, self.calls)

    def as_json(self) -> Payload:
        """Give the wire shape."""
        shown: Payload = {
            "id": self.id,
            "sessionId": self.session_id,
            "agent": self.agent,
            "kind": self.kind,
            "subject": self.subject,
            "hash": self.hash,
            "optionIds": self.option_ids,
            "risk": self.risk,
            "state": self.state.value,
            "epoch": self.cursor.epoch,
            "askedAt": timestamp(self.asked_at),
        }
        optional = {
            "expiresAt": timestamp(self.end) if self.end else None,
            "escalatedAt": timestamp(self.escalated_at) if self.escalated_at else None,
            "needs": self.needs or None if self.state is State.OPEN else None,
            "half": self.half.as_json() if self.half and self.state is State.OPEN else None,
            "toolCallId": self.tool_call_id,
            "decision": _given_json(self.decision) if self.decision else None,
            "result": self.result,
            "reason": self.reason,
            "by": origin_json(self.by) if self.by else None,
            "answer": self.answer,
            "closedAt": timestamp(self.closed_at) if self.closed_at else None,
        }
        return shown | {name: value for name, value in optional.items() if value is not None}


def origin_json(origin: Origin) -> Payload:
    """Give an origin's wire shape."""
    built: Payload = msgspec.to_builtins(origin)
    return built


def record_of(row: dict[str, Any]) -> RoundTripRecord:
    """Read a record from the fields that FIELDS names."""
    text = {name: value.decode() if value else "" for name, value in row.items() if name != "entry"}
    decided = text["decision_id"]
    return RoundTripRecord(
        id=text["id"],
        session_id=text["session"],
        agent=text["agent"],
        kind=text["kind"],
        subject=text["subject"],
        title=text["title"],
        hash=text["hash"],
        option_ids=msgspec.json.decode(text["option_ids"]),
        risk=text["risk"],
        state=State(text["state"]),
        asked_at=int(text["asked_at"]),
        expires_at=int(text["expires_at"]) if text["expires_at"] else None,
        tool_call_id=text["tool_call_id"] or None,
        cursor=Cursor(int(text["epoch"]), int(text["seq"])),
        entry=row["entry"],
        decision=_given(text) if decided else None,
        result=text["result"] or None,
        reason=text["reason"] or None,
        by=origin_of(row["closed_by"]),
        answer=msgspec.json.decode(text["closed_answer"]) if text["closed_answer"] else None,
        closed_at=int(text["closed_at"]) if text["closed_at"] else None,
        option_kinds=msgspec.json.decode(text["option_kinds"] or "{}"),
        calls=msgspec.json.decode(text["calls"]) if text["calls"] else None,
        people=int(text["people"] or 1),
        relay_rules=text["relay_rules"] == "1",
        opened_at=int(text["opened_at"] or text["asked_at"]),
        escalated_at=int(text["escalated_at"]) if text["escalated_at"] else None,
        half=_half(text) if text["half_by"] else None,
    )


def _half(text: dict[str, str]) -> Half:
    by = origin_of(text["half_by"].encode())
    assert by is not None
    first = First(text["half_decision_id"], by, text["half_signature"] or None)
    return Half(msgspec.json.decode(text["half_answer"]), int(text["half_at"]), first)


def _given(text: dict[str, str]) -> Given:
    by = origin_of(text["decided_by"].encode())
    assert by is not None
    answer = msgspec.json.decode(text["answer"])
    return Given(answer, by, int(text["decided_at"]), text["decision_id"])


def _given_json(given: Given) -> Payload:
    return {
        "answer": given.answer,
        "by": origin_json(given.by),
        "at": timestamp(given.at),
        "decisionId": given.decision_id,
    }


def origin_of(text: bytes | None) -> Origin | None:
    """Read an origin as the store keeps it."""
    return msgspec.json.decode(text, type=Origin) if text else None
