"""How a question ended, in words."""

from __future__ import annotations

from bridge.protocol.entry import Origin
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Reason, Resolved

_VOID = {
    Reason.EXPIRED: "nobody answered in time",
    Reason.TURN_ENDED: "its turn ended",
    Reason.CANCELLED: "it was cancelled",
    Reason.AGENT_EXITED: "the agent ended",
    Reason.REFUSED: "the answer was not accepted, it is asked again",
    Reason.RESTARTED: "it is asked again",
}


def outcome(params: Payload, resolved: Resolved) -> str:
    """Say of a question's params what was answered and by whom, or why nothing was."""
    if resolved.reason in _VOID:
        return _VOID[resolved.reason]
    if resolved.reason is Reason.RULE:
        return f"{answer_name(params, resolved)}, by a rule"
    return f"{answer_name(params, resolved)}, by {who(resolved.by)}"


def answer_name(params: Payload, resolved: Resolved) -> str:
    """Give the answer by the name the agent gave it."""
    answer = resolved.answer or {}
    for option in params.get("options") or ():
        if isinstance(option, dict) and option.get("optionId") == answer.get("optionId"):
            return str(option.get("name") or option.get("optionId"))
    return str(answer.get("optionId") or answer.get("action") or "cancelled")


def who(origin: Origin | None) -> str:
    """Name a person, with the device or the surface where it says more."""
    if origin is None:
        return "somebody"
    where = origin.device or origin.door
    return f"{origin.subject} ({where})" if where else origin.subject
