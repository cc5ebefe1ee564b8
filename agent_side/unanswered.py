"""What becomes of a question that nobody answers: it waits for ever, unless the owner says else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_FORM = re.compile(r"(expire|deny|escalate):(\d{1,6})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class End(StrEnum):
    """What happens after a while."""

    EXPIRE = "expire"  # it ends; the agent is told that nobody answered
    DENY = "deny"  # the same, with the option that rejects
    ESCALATE = "escalate"  # it stays open, and people are called again


@dataclass(frozen=True)
class Unanswered:
    """One thing that happens after so many seconds."""

    end: End
    seconds: float


def parse(text: str) -> tuple[Unanswered, ...]:
    """Read ``wait`` or such as ``escalate:5m,deny:1h``; raises ValueError."""
    if text == "wait":
        return ()
    found = tuple(_one(part.strip()) for part in text.split(","))
    ends = [one.end for one in found]
    if len(set(ends)) != len(ends) or {End.EXPIRE, End.DENY} <= set(ends):
        raise ValueError(f"{text!r} says two things of one question")
    return found


def _one(text: str) -> Unanswered:
    match = _FORM.fullmatch(text)
    if match is None or not int(match[2]):
        raise ValueError(f"{text!r} is none of wait, expire:TIME, deny:TIME, escalate:TIME (30m)")
    return Unanswered(End(match[1]), int(match[2]) * _SECONDS[match[3]])
