"""A question that needs a person: ``open → decided → closed``, one result, one judge.

``decided`` is a proposal: the first answer that the relay recorded. Only the connector closes,
with ``applied`` or ``void`` and its reason. Without a record there is no approval.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Any

import msgspec

from bridge.protocol.entry import META_KEY, Origin, RoundTrip
from bridge.protocol.errors import InvalidParams, UnknownOption

SUBJECT_LIMIT = 1 << 20  # bytes; above it a question can only be rejected from afar


class State(StrEnum):
    """Where a round-trip is."""

    OPEN = "open"
    DECIDED = "decided"  # an answer is recorded and on its way to the connector
    CLOSED = "closed"


class Result(StrEnum):
    """How it closed."""

    APPLIED = "applied"  # the agent got the answer
    VOID = "void"  # the agent was told otherwise, or nothing


class Reason(StrEnum):
    """Why it closed; a closed list."""

    DECIDED = "decided"
    LOCAL = "local"  # answered at the connector: an editor or its terminal
    RULE = "rule"
    EXPIRED = "expired"
    TURN_ENDED = "turn_ended"
    CANCELLED = "cancelled"
    AGENT_EXITED = "agent_exited"
    REFUSED = "refused"  # the connector did not accept the decision; the question opens again
    RESTARTED = "restarted"  # the connector began a new epoch


class Outcome(StrEnum):
    """What became of one attempt to decide."""

    RECORDED = "recorded"
    NEEDS_ANOTHER = "needs_another"  # recorded as the first of two approvals
    LATE = "late"  # another answer won, or it is past its end
    CLOSED = "closed"
    REFUSED = "refused"  # hash, option, role or signature


class RuleNote(msgspec.Struct, frozen=True):
    """The rule that decided, as people read it."""

    id: str
    words: str


class First(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The first of two approvals of one question."""

    decision_id: str
    by: Origin
    signature: str | None = None


class Decision(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One person's answer to one question."""

    id: str  # the round-trip
    hash: str  # of the subject the person saw
    answer: dict[str, Any]  # {"optionId": …} or {"action": …, "content": …}
    decision_id: str  # made by the sender; the same id gives the same outcome
    first: First | None = None  # where it took two people
    rule: RuleNote | None = None  # the relay's that decided it; an answer of {}: it is cancelled
    expired: bool = False  # by that rule its time is over


class AskedNote(msgspec.Struct, frozen=True):
    """A question that was decided before anybody was asked."""

    title: str
    hash: str
    risk: str


class Resolved(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The fields of ``_bridge/resolved``."""

    id: str
    result: Result
    reason: Reason
    answer: dict[str, Any] | None = None
    by: Origin | None = None
    also: Origin | None = None  # who approved it first, where it took two
    rule: RuleNote | None = None
    asked: AskedNote | None = None  # it was never opened


ACTIONS = frozenset({"accept", "decline", "cancel"})


class _Cut(msgspec.Struct):
    truncated: Any = False


_decode_cut = msgspec.json.Decoder(_Cut).decode


def is_decidable(subject: str) -> bool:
    """Whether a subject may be allowed from afar; a cut or a longer one can only be rejected."""
    return len(subject.encode()) <= SUBJECT_LIMIT and not is_cut(subject)


def is_cut(subject: str) -> bool:
    """Whether a subject says that it does not show all of what will run."""
    try:
        return bool(_decode_cut(subject).truncated)
    except (msgspec.DecodeError, RecursionError):
        return False


def hash_of(subject: str) -> str:
    """Give the SHA-256 of a subject's UTF-8 bytes, in hex."""
    return hashlib.sha256(subject.encode()).hexdigest()


def check_answer(round_trip: RoundTrip, answer: dict[str, Any]) -> None:
    """Refuse an answer that is none of what was offered; raises InvalidParams."""
    if round_trip.kind == "permission":
        option = answer.get("optionId")
        if option not in round_trip.option_ids:
            raise UnknownOption(f"unknown option {option!r}: one of {round_trip.option_ids}")
    elif answer.get("action") not in ACTIONS:
        raise InvalidParams(f"unknown action {answer.get('action')!r}: accept, decline or cancel")


def result_for_agent(
    round_trip: RoundTrip, answer: dict[str, Any] | None, reason: Reason = Reason.LOCAL
) -> dict[str, Any]:
    """Give the result the agent gets: the option or the action, else cancelled (ACP v1).

    That nobody answered in time, or a rule did, is told as such: it is no person's denial.
    """
    result = _plain_result(round_trip, answer)
    if reason in (Reason.EXPIRED, Reason.RULE):
        result["_meta"] = {META_KEY: {"reason": reason.value}}
    return result


def _plain_result(round_trip: RoundTrip, answer: dict[str, Any] | None) -> dict[str, Any]:
    if round_trip.kind == "permission":
        if answer is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": answer["optionId"]}}
    if answer is None:
        return {"action": "cancel"}
    return {key: answer[key] for key in ("action", "content") if answer.get(key) is not None}
