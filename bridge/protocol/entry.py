"""A numbered message of a session's log: its envelope, and how the connector stamps one.

An entry is a complete JSON-RPC message, stored and sent on byte for byte, with
``params._meta["chimera.bridge"]`` = :class:`Meta`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from bridge.protocol import jsonrpc
from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import InvalidRequest

META_KEY = "chimera.bridge"
UPDATE = "session/update"
PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"
RESOLVED = "_bridge/resolved"
TURN = "_bridge/turn"
GAP = "_bridge/gap"
APPROVAL_CHANGED = "_bridge/approval_changed"
VIOLATION = "_bridge/sandbox_violation"
ESCALATED = "_bridge/escalated"
RECEIPT = "_bridge/receipt"
UNDONE = "_bridge/undone"
METHODS = frozenset(
    {UPDATE, PERMISSION, ELICITATION, RESOLVED, TURN, GAP}
    | {APPROVAL_CHANGED, VIOLATION, ESCALATED, RECEIPT, UNDONE}
)
QUESTIONS = frozenset({PERMISSION, ELICITATION})


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who caused a mail or a decision; made only from authentication or by a local door."""

    subject: str
    tenant: str = ""
    device: str = ""
    door: str = ""  # page, acp, rest on the relay; editor, terminal, http at the connector


class RoundTrip(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a question's entry says of its round-trip."""

    id: str
    kind: Literal["permission", "elicitation"]
    subject: str  # one string of JSON: exactly what will run
    hash: str  # SHA-256 of the subject's UTF-8 bytes, hex
    option_ids: list[str] = []
    risk: Literal["low", "medium", "high"] = "medium"
    expires_at: str | None = None  # ISO 8601, UTC
    signed: bool = False  # only a paired device may answer it from afar
    relay_rules: bool = False  # a rule of the relay may allow it
    people: int = 1  # how many different ones must approve it from afar, as its machine says
    calls: list[list[str]] | None = None  # the programs of a command; None: it has none to be read


class Full(msgspec.Struct, frozen=True):
    """How large an entry is that was shortened for the way, and which machine keeps all of it."""

    bytes: int
    host: str = ""


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The stamp of one entry."""

    epoch: int
    seq: int
    at: str = ""  # ISO 8601, UTC, milliseconds
    origin: Origin | None = None
    round_trip: RoundTrip | None = None
    prev: str | None = None  # the cursor before the first entry of an epoch
    mail_id: str | None = None
    joined: int | None = None  # it stands for so many entries, of which it has the last number
    full: Full | None = None  # the entry is a short form; the whole is asked for by its cursor


class _MetaHolder(msgspec.Struct, frozen=True, gc=False):
    bridge: Meta = msgspec.field(name=META_KEY)


class _Params(msgspec.Struct, frozen=True, gc=False):
    session_id: str = msgspec.field(name="sessionId")
    meta: _MetaHolder = msgspec.field(name="_meta")


class _Method(msgspec.Struct, frozen=True):
    method: str = ""


# None of these can be part of a cycle; made by the million, they are kept from the collector.
class Envelope(msgspec.Struct, frozen=True, gc=False):
    """All the relay reads of an entry."""

    method: str
    params: _Params

    @property
    def session_id(self) -> str:
        """The session's public id."""
        return self.params.session_id

    @property
    def meta(self) -> Meta:
        """The entry's stamp."""
        return self.params.meta.bridge

    @property
    def cursor(self) -> Cursor:
        """The entry's place in the log."""
        meta = self.params.meta.bridge
        return Cursor(meta.epoch, meta.seq)

    @property
    def is_plain(self) -> bool:
        """Whether every subscriber gets it as it is: an update that no person caused."""
        return self.method == UPDATE and self.params.meta.bridge.origin is None


_decode = msgspec.json.Decoder(Envelope).decode
_decode_method = msgspec.json.Decoder(_Method).decode


def read(text: bytes) -> Envelope:
    """Decode an entry's envelope; raises InvalidRequest."""
    try:
        envelope = _decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"not a log entry: {error}") from None
    if envelope.method not in METHODS:
        raise InvalidRequest(f"{envelope.method[:80]!r} is no kind of log entry")
    return envelope


def sift(text: bytes) -> Envelope | None:
    """Give an entry's envelope, or None for a message that is no entry; raises InvalidRequest."""
    try:
        envelope = _decode(text)
    except msgspec.ValidationError:  # another message's params have another form
        return read(text) if _method_of(text) in METHODS else None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    return envelope if envelope.method in METHODS else None


def _method_of(text: bytes) -> str:
    """Give a message's method; '' for what is no message at all."""
    try:
        return _decode_method(text).method
    except msgspec.ValidationError:
        return ""
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None


def stamp(
    method: str,
    session_id: str,
    meta: Meta,
    fields: dict[str, Any],
    *,
    id_: jsonrpc.Id | None = None,
    agent_meta: dict[str, Any] | None = None,
) -> bytes:
    """Encode an entry; Raw values in ``fields`` and the agent's own ``_meta`` stay as they are."""
    own = {**(agent_meta or {}), META_KEY: meta}
    params = {**fields, "sessionId": session_id, "_meta": own}
    if id_ is None:
        return jsonrpc.notification(method, params)
    return jsonrpc.request(id_, method, params)


def timestamp(milliseconds: int | None = None) -> str:
    """Write a time (default: now) as ISO 8601 in UTC with milliseconds."""
    if milliseconds is None:
        when = datetime.now(UTC)
    else:
        when = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03d}Z"


def milliseconds(text: str) -> int:
    """Read an ISO 8601 time as Unix milliseconds; raises ValueError."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)
