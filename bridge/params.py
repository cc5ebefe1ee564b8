"""What a client's params say, with defaults; what cannot be read raises InvalidParams."""

from __future__ import annotations

import secrets
from typing import Any

from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload
from bridge.viewer import Reading


def meta(params: Payload) -> Payload:
    """Give our own fields of the metadata."""
    return as_object(as_object(params.get("_meta")).get(META_KEY))


def as_object(value: Any) -> Payload:
    """Give an object, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def text(params: Payload, name: str) -> str:
    """Give a text that must be there."""
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"{name} is missing or is no text")
    return value


def reading(named: Payload) -> Reading:
    """Read how a client wants a session's history; it may say nothing."""
    entries = number(named, "limit", 0, range(1 << 31))
    return Reading(entries or None, named.get("compact") is True)


def number(params: Payload, name: str, default: int, allowed: range) -> int:
    """Give a whole number within bounds."""
    value = params.get(name, default)
    if type(value) is not int or value not in allowed:
        raise InvalidParams(f"{name} must be a whole number from {allowed[0]} to {allowed[-1]}")
    return value


def mail_id(named: Payload) -> str:
    """Give the mail's id that the sender made, else a new one."""
    given = named.get("mailId")
    return given if isinstance(given, str) else f"m-{secrets.token_hex(12)}"


def signature(named: Payload) -> str | None:
    """Give the signature of the sender's device, if there is one."""
    given = named.get("signature")
    return given if isinstance(given, str) else None
