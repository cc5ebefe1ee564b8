"""What a person types at the connector's terminal, as an answer to a question."""

from __future__ import annotations

import json
import shlex
from typing import Any

from agent_side.doors.question_text import choices, fields_of, values_of
from bridge.protocol.entry import RoundTrip
from bridge.protocol.jsonrpc import Payload


class NotUnderstood(ValueError):
    """The line is no answer; the message says what would be."""


def answer_of(round_trip: RoundTrip, words: list[str]) -> Payload:
    """Read ``NUMBER-or-id [always|never [all]] [name=value …]``; raises NotUnderstood."""
    offered = choices(round_trip)
    chosen = _chosen(offered, words[0] if words else "")
    if round_trip.kind == "permission":
        return {"optionId": chosen, **_remember(words[1:])}
    answer: Payload = {"action": chosen}
    if chosen == "accept":
        form = json.loads(round_trip.subject).get("form") or {}
        answer["content"] = _content(form, words[1:])
    return answer


def is_allowing(round_trip: RoundTrip, answer: Payload) -> bool:
    """Whether an answer lets something happen."""
    chosen = answer.get("optionId") or answer.get("action")
    kinds = {id_: kind for id_, _, kind in choices(round_trip)}
    return not kinds.get(str(chosen), "").startswith("reject")


def split(line: str) -> list[str]:
    """Part a line into words, quotes respected; raises NotUnderstood."""
    try:
        return shlex.split(line)
    except ValueError:
        raise NotUnderstood("a quote is not closed") from None


def _chosen(offered: list[tuple[str, str, str]], word: str) -> str:
    ids = [id_ for id_, _, _ in offered]
    if word in ids:
        return word
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(ids):
        return ids[int(word) - 1]
    numbers = ", ".join(f"{n} {name}" for n, (_, name, _) in enumerate(offered, 1))
    raise NotUnderstood(f"there is no choice {word!r}: {numbers}")


def _remember(words: list[str]) -> Payload:
    """Read ``always [all]`` or ``never [all]`` behind a choice."""
    match words:
        case []:
            return {}
        case [("always" | "never") as word, *rest] if rest in ([], ["all"]):
            decision = "allow" if word == "always" else "deny"
            return {"remember": {"decision": decision, "open": bool(rest)}}
    raise NotUnderstood(f"{' '.join(words)!r} is none of always, never, always all, never all")


def _content(form: Payload, pairs: list[str]) -> Payload:
    fields = fields_of(form)
    content = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in fields:
            known = ", ".join(fields)
            raise NotUnderstood(f"{pair!r} is no field: write name=value with one of {known}")
        content[name] = _value(name, fields[name], text)
    required = (form.get("requestedSchema") or {}).get("required") or []
    if missing := [name for name in required if name not in content]:
        raise NotUnderstood(f"still needed: {', '.join(f'{name}=…' for name in missing)}")
    return content


def _value(name: str, field: Payload, text: str) -> Any:
    kind = field.get("type")
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        raise NotUnderstood(f"{name} must be a number, not {text!r}") from None
    if kind == "boolean":
        if text not in ("true", "false"):
            raise NotUnderstood(f"{name} must be true or false, not {text!r}")
        return text == "true"
    given = text.split(",") if kind == "array" else [text]
    known = [value for value, _ in values_of(field)]
    if known and (wrong := [value for value in given if value not in known]):
        raise NotUnderstood(f"{name} must be one of {', '.join(known)}, not {wrong[0]!r}")
    return given if kind == "array" else text
