"""How a question ended, in words."""

from __future__ import annotations

from agent_side.round_trips import Question
from bridge.protocol.entry import Origin
from bridge.protocol.round_trip import Reason, Resolved

_VOID = {
    Reason.EXPIRED: "nobody answered in time",
    Reason.TURN_ENDED: "its turn ended",
    Reason.CANCELLED: "it was cancelled",
    Reason.AGENT_EXITED: "the agent ended",
    Reason.REFUSED: "the answer was not accepted, it is asked again",
    Reason.RESTARTED: "it is asked again",
}


def outcome(question: Question, resolved: Resolved) -> str:
    """Say what was answered and by whom, or why nothing was."""
    if resolved.reason in _VOID:
        return _VOID[resolved.reason]
    if resolved.reason is Reason.RULE:
        return f"{answer_name(question, resolved)}, by a rule"
    return f"{answer_name(question, resolved)}, by {who(resolved.by)}"


def answer_name(question: Question, resolved: Resolved) -> str:
    """Give the answer by the name the agent gave it."""
    answer = resolved.answer or {}
    for option in question.params.get("options") or ():
        if isinstance(option, dict) and option.get("optionId") == answer.get("optionId"):
            return str(option.get("name") or option.get("optionId"))
    return str(answer.get("optionId") or answer.get("action") or "cancelled")


def who(origin: Origin | None) -> str:
    """Name a person, with the device or the surface where it says more."""
    if origin is None:
        return "somebody"
    return (
        f"{origin.subject} ({origin.device or origin.door})"
        if origin.device or origin.door
        else origin.subject
    )
