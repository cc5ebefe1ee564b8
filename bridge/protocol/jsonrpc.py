"""JSON-RPC 2.0 envelopes whose payloads stay the bytes they came as.

Only the envelope is decoded; ``params``, ``result`` and ``error`` are ``msgspec.Raw`` and are
written out again byte for byte. Source: JSON-RPC 2.0; ACP v1 uses no batches.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias, TypeVar

import msgspec

from bridge.protocol.errors import BridgeError, InvalidParams, InvalidRequest, ParseError

Payload: TypeAlias = dict[str, Any]
Value = TypeVar("Value")
Id: TypeAlias = int | str

ID_LIMIT = 512  # characters; ids are echoed and kept per connection
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_EMPTY = msgspec.Raw(b"{}")


class Request(msgspec.Struct, frozen=True):
    """A call that wants an answer under the same id."""

    id: Id
    method: str
    params: msgspec.Raw = _EMPTY


class Notification(msgspec.Struct, frozen=True):
    """A message that is not answered."""

    method: str
    params: msgspec.Raw = _EMPTY


class Response(msgspec.Struct, frozen=True):
    """The answer to a request: either ``result`` or ``error``."""

    id: Id | None
    result: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


Message: TypeAlias = Request | Notification | Response


class _Envelope(msgspec.Struct):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = _EMPTY
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_id = msgspec.json.Decoder(int | str | None).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_any = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


def parse(text: bytes) -> Message:
    """Decode one message's envelope; raises ParseError or InvalidRequest (with ``id`` in data)."""
    try:
        envelope = _decode_envelope(text)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"not a JSON-RPC message: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ParseError(f"not JSON: {error}") from None
    has_id = envelope.id is not msgspec.UNSET
    id_ = _id(envelope.id) if isinstance(envelope.id, msgspec.Raw) else None
    if isinstance(envelope.method, str):
        if not has_id:
            return Notification(envelope.method, _params(envelope.params, id_))
        if id_ is None:
            raise InvalidRequest("a request's id must be a number or a string, not null")
        return Request(id_, envelope.method, _params(envelope.params, id_))
    result_ = envelope.result if isinstance(envelope.result, msgspec.Raw) else None
    error_ = envelope.error if isinstance(envelope.error, msgspec.Raw) else None
    if not has_id or (result_ is None) == (error_ is None):
        raise InvalidRequest("a message needs a method, or an id with a result or an error")
    return Response(id_, result_, error_)


def parse_strict(text: bytes) -> Message:
    """Like parse, for text from clients: also refuses duplicate keys in the envelope and params."""
    message = parse(text)
    _refuse_duplicate_keys(text)
    return message


def parse_lenient(line: bytes) -> Message:
    """Like parse, for a line from an agent: mends bad UTF-8 and lone surrogates to U+FFFD."""
    if not line.isascii():
        line = line.decode("utf-8", "replace").encode()
    try:
        return parse(line)
    except ParseError:
        if rb"\u" not in line:
            raise
        return parse(mend_surrogates(line))


def mend_surrogates(text: bytes) -> bytes:
    r"""Replace each escaped lone surrogate by ``\ufffd`` (an escaped backslash is no escape)."""
    parts = re.split(rb"(\\\\)", text)
    return b"".join(p if p == rb"\\" else _LONE_SURROGATE.sub(rb"\\ufffd", p) for p in parts)


def request(id_: Id, method: str, params: Any) -> bytes:
    """Encode a request; Raw values inside params are written as they are."""
    return encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


def notification(method: str, params: Any) -> bytes:
    """Encode a notification."""
    return encode({"jsonrpc": "2.0", "method": method, "params": params})


def result(id_: Id | None, value: Any) -> bytes:
    """Encode the answer to a request."""
    return encode({"jsonrpc": "2.0", "id": id_, "result": value})


def error(id_: Id | None, failure: BridgeError | Payload) -> bytes:
    """Encode a failed answer from one of our errors or from an error object."""
    shown = failure.as_object() if isinstance(failure, BridgeError) else failure
    return encode({"jsonrpc": "2.0", "id": id_, "error": shown})


def fields(raw: msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Give an object's fields, each still raw; raises InvalidParams."""
    try:
        return _decode_fields(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as failure:
        raise InvalidParams(f"params must be an object: {failure}") from None


def value(raw: msgspec.Raw | bytes) -> Any:
    """Decode a raw value in full; raises InvalidParams."""
    try:
        return _decode_any(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as failure:
        raise InvalidParams(f"not a JSON value: {failure}") from None


def payload(raw: msgspec.Raw | bytes) -> Payload:
    """Decode a raw object in full; raises InvalidParams when it is no object."""
    decoded = value(raw)
    if not isinstance(decoded, dict):
        raise InvalidParams(f"expected an object, got {type(decoded).__name__}")
    return decoded


def typed(raw: msgspec.Raw, type_: type[Value]) -> Value:
    """Decode a raw object as one of our structs; raises InvalidParams."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as failure:
        raise InvalidParams(f"not a {type_.__name__.lower()}: {failure}") from None


def _id(raw: msgspec.Raw) -> Id | None:
    if len(raw) > ID_LIMIT:
        raise InvalidRequest(f"the id is {len(raw)} bytes long; at most {ID_LIMIT} are taken")
    try:
        id_: Id | None = _decode_id(raw)
    except msgspec.ValidationError:
        raise InvalidRequest("an id must be a whole number or a string") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise ParseError(f"not JSON: {failure}") from None
    return id_


def _params(raw: msgspec.Raw, id_: Id | None) -> msgspec.Raw:
    first = memoryview(raw)[0]
    if first == ord("{"):
        return raw
    if first == ord("n"):  # null
        return _EMPTY
    raise InvalidRequest("params must be an object", id=id_)


def _refuse_duplicate_keys(text: bytes) -> None:
    def check(pairs: list[tuple[str, Any]]) -> Any:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
            raise InvalidRequest(f"the key {twice!r} is there twice")
        return None

    try:
        json.loads(text, object_pairs_hook=check)
    except (ValueError, RecursionError) as failure:
        raise ParseError(f"not JSON: {failure}") from None
