"""The words allow, deny, always and never as the answer that an agent understands."""

from __future__ import annotations

from typing import Any

from agent_side.round_trips import Question
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload

WORDS = {
    "allow": ("allow_once",),  # never one that lasts: that would be more than was said
    "always": ("allow_always", "allow_once"),
    "deny": ("reject_once", "reject_always"),
    "never": ("reject_always", "reject_once"),
}
LASTING = {"always": "allow", "never": "deny"}
ACTIONS = {"allow": "accept", "always": "accept", "deny": "decline", "never": "decline"}


def answer_for(question: Question, word: str, content: Any = None) -> Payload:
    """Give the answer that a word means; an option's own id does as well.

    Raises InvalidParams when no option means it, or when several do.
    """
    if question.round_trip.kind == "elicitation":
        action = ACTIONS.get(word)
        if action is None:
            raise InvalidParams(f"decision must be one of {', '.join(WORDS)}, not {word[:80]!r}")
        return {"action": action, "content": content} if content is not None else {"action": action}
    is_named = word in question.round_trip.option_ids
    answer: Payload = {"optionId": word if is_named else _option(question.params["options"], word)}
    decision = LASTING.get(word)
    fits = question.rejects(answer) == (decision == "deny") and question.round_trip.people == 1
    if decision and fits and question.scope is not None:  # else it holds for this time
        answer["remember"] = {"decision": decision}
    return answer


def _option(options: list[Payload], word: str) -> str:
    for kind in WORDS.get(word, ()):
        ids = [str(option["optionId"]) for option in options if option.get("kind") == kind]
        if len(ids) == 1:
            return ids[0]
        if ids:
            raise InvalidParams(f"{word!r} may mean any of {', '.join(ids)}: give one of them")
    offered = ", ".join(str(option.get("optionId")) for option in options)
    raise InvalidParams(f"{word[:80]!r} means no option of this question: {offered}")
