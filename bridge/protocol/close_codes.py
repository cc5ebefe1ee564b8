"""Every websocket close code we send: its reason, and whether the other side may come back.

RFC 6455 section 7.4 rules 1000-1015; 4400-4499 are ours.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class CloseCode(IntEnum):
    """A close code of ours; ``final`` ones must not be followed by a reconnect."""

    reason: str
    final: bool

    def __new__(cls, code: int, reason: str, final: bool) -> Self:  # noqa: FBT001
        """Build a member that is the code and carries its reason and finality."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.reason = reason
        member.final = final
        return member

    NORMAL = 1000, "done", True
    GOING_AWAY = 1001, "going away", False
    PROTOCOL_ERROR = 1002, "protocol error", True
    UNSUPPORTED = 1003, "unsupported frame", True
    INVALID_TEXT = 1007, "text is not UTF-8", True
    TOO_BIG = 1009, "message too big", True
    INTERNAL = 1011, "internal error", False
    RESTARTING = 1012, "relay restarts", False
    OVERLOADED = 1013, "overloaded, try later", False
    BAD_REQUEST = 4400, "bad request", True
    TOKEN_INVALID = 4401, "token missing or not valid", True
    NOT_ALLOWED = 4403, "not allowed", True
    UNKNOWN = 4404, "unknown", True
    TOO_SLOW = 4408, "too slow", False
    REPLACED = 4409, "replaced by another process", True
    UPGRADE_REQUIRED = 4426, "upgrade required", True
    RATE_LIMITED = 4429, "rate limited", False


def of(code: int) -> CloseCode:
    """Give the close code of a number; raises ValueError."""
    return CloseCode(code)  # type: ignore[call-arg]


def is_final(code: int) -> bool:
    """Whether a peer that was closed with this code must not reconnect by itself."""
    try:
        return of(code).final
    except ValueError:
        return False
