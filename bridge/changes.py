"""The tenant's stream of small notices: which session, agent, round-trip or mail changed.

The scripts write a notice together with what it is about. Whoever shows a tenant follows the stream
(``keys.changes``) and reads again what a notice names.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from bridge.protocol.entry import Origin


class Change(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One notice."""

    kind: Literal[
        "session",
        "agent",
        "roundTrip",
        "turn",
        "mail",
        "presence",
        "device",
        "pairing",
        "login",
        "rules",
    ]
    id: str
    at: int = 0  # Unix milliseconds
    session_id: str | None = None
    agent: str | None = None
    state: str | None = None
    by: Origin | None = None
    answer: dict[str, Any] | None = None
    result: str | None = None
    reason: str | None = None
    logins: list[str] = []  # that ended: signed out, or of a device that was revoked


_decode = msgspec.json.Decoder(Change).decode


def notice(change: Change) -> bytes:
    """Encode a notice for a script, which adds the time."""
    return msgspec.json.encode(change)


def parse(fields: dict[bytes, bytes]) -> Change:
    """Read a notice from the stream's fields."""
    return msgspec.structs.replace(_decode(fields[b"notice"]), at=int(fields[b"at"]))
