"""What a device signs: compact JWS (RFC 7515), ES256, one type for each kind, checked strictly.

A key is the base64url of ``x || y``, 64 bytes on P-256; a device's id is the SHA-256 of the point.
Nothing in a header chooses a key or an algorithm: a signature is checked with the key that is
pinned for the device it names, or not at all.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from bridge.protocol import base64url
from bridge.protocol.errors import SignatureRefused

ALGORITHM = "ES256"
SIZE_LIMIT = 256 << 10  # characters of one JWS; a filled form may be long
LIFE_MS = 600_000  # longest time between signing and its end
AHEAD_MS = 120_000  # clocks of two machines differ
_NUMBER = 32  # bytes of each half of a key and of a signature
_POINT = b"\x04"  # before an uncompressed point
_WHOLE = 1 << 53  # beyond it JavaScript's numbers are not exact


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a header may hold: no key, no address of one, no extension."""

    alg: str
    typ: str


class DecisionClaims(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An answer to one question, as a device signed it; times are Unix milliseconds."""

    id: str  # the round-trip
    session_id: str
    epoch: int
    hash: str  # of the subject that was shown
    answer: dict[str, Any]
    decision_id: str
    device: str
    iat: int
    exp: int


class MailClaims(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A message to one agent, as a device signed it; times are Unix milliseconds."""

    mail_id: str
    agent: str
    epoch: int
    hash: str  # of the message
    device: str
    iat: int
    exp: int


Claims = TypeVar("Claims", DecisionClaims, MailClaims)
TYPES: dict[type, str] = {DecisionClaims: "decision+jwt", MailClaims: "mail+jwt"}


# Keys.


def device_id(key: str) -> str:
    """Give the id of the device with this public key; raises SignatureRefused for no key."""
    return base64url.encode(hashlib.sha256(_POINT + _point(key)).digest())


def check_key(key: str) -> str:
    """Give a public key back if it is a point on P-256; raises SignatureRefused."""
    _public(key)
    return key


def fingerprint(device: str) -> str:
    """Give the beginning of a device's id in words that can be read out and compared."""
    return words(_bytes64(device)[:6])


def words(text: bytes) -> str:
    """Write each two bytes as a word of five letters (proquints: 16 bits that can be said)."""
    return "-".join(_word(text[at] << 8 | text[at + 1]) for at in range(0, len(text), 2))


def _word(number: int) -> str:
    consonants, vowels = "bdfghjklmnprstvz", "aiou"
    return (
        consonants[number >> 12]
        + vowels[number >> 10 & 3]
        + consonants[number >> 6 & 15]
        + vowels[number >> 4 & 3]
        + consonants[number & 15]
    )


# Signatures.


def claimed_by(jws: str) -> str:
    """Give the device that a JWS names, to find its key; nothing of it is checked yet."""
    claims = _object(_bytes64(_parts(jws)[1]))
    device = claims.get("device")
    if not isinstance(device, str):
        raise SignatureRefused("the signature names no device")
    return device


def unverified(jws: str, type_: type[Claims]) -> Claims:
    """Give what a JWS claims, to find what it is about; nothing of it is checked yet."""
    claims: Claims = _read(_bytes64(_parts(jws)[1]), type_)
    return claims


def verify(jws: str, key: str, type_: type[Claims]) -> Claims:
    """Give what was signed with this key; raises SignatureRefused."""
    head, body, signature = _parts(jws)
    header = _read(_bytes64(head), _Header)
    if header.alg != ALGORITHM or header.typ != TYPES[type_]:
        raise SignatureRefused(f"the signature is no {ALGORITHM} of type {TYPES[type_]}")
    _check(key, f"{head}.{body}".encode(), _bytes64(signature))
    claims: Claims = _read(_bytes64(body), type_)
    if claims.device != device_id(key):
        raise SignatureRefused("the signature is of another device")
    return claims


def check_time(claims: DecisionClaims | MailClaims, now: int) -> None:
    """Refuse what is over, not yet begun, or good for too long; raises SignatureRefused."""
    if not 0 < claims.exp - claims.iat <= LIFE_MS:
        raise SignatureRefused(f"a signature is good for at most {LIFE_MS // 60_000} minutes")
    if claims.iat > now + AHEAD_MS:
        ahead = (claims.iat - now) // 1000
        raise SignatureRefused(f"signed {ahead} s in the future: is the device's clock right?")
    if now >= claims.exp:
        raise SignatureRefused("the signature came too late: answer again")


def message_hash(message: dict[str, Any]) -> str:
    """Give the SHA-256 of a message in its one canonical form; raises SignatureRefused.

    As RFC 8785: keys in order of UTF-16, no blanks; but only whole numbers.
    """
    text = json.dumps(_ordered(message), ensure_ascii=False, separators=(",", ":"))
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise SignatureRefused("the message holds half a character") from None


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return {name: _ordered(value[name]) for name in names}
    if isinstance(value, list):
        return [_ordered(one) for one in value]
    if isinstance(value, float) or (isinstance(value, int) and abs(value) >= _WHOLE):
        raise SignatureRefused("a signed message holds only whole numbers")
    return value


def _check(key: str, text: bytes, signature: bytes) -> None:
    public = _public(key)
    if len(signature) != 2 * _NUMBER:
        raise SignatureRefused("the signature is of the wrong length")
    halves = (int.from_bytes(half) for half in (signature[:_NUMBER], signature[_NUMBER:]))
    try:
        public.verify(encode_dss_signature(*halves), text, ec.ECDSA(SHA256()))
    except (InvalidSignature, ValueError):
        raise SignatureRefused("the signature is not of this device and this text") from None


def _public(key: str) -> ec.EllipticCurvePublicKey:
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _POINT + _point(key))
    except ValueError:
        raise SignatureRefused("the key is no point on P-256") from None


def _point(key: str) -> bytes:
    point = _bytes64(key)
    if len(point) != 2 * _NUMBER:
        raise SignatureRefused("a device's key is 64 bytes")
    return point


def _parts(jws: str) -> list[str]:
    parts = jws.split(".") if isinstance(jws, str) and len(jws) <= SIZE_LIMIT else []
    if len(parts) != 3:  # noqa: PLR2004 (RFC 7515 section 3.1)
        raise SignatureRefused("not a compact JWS")
    return parts


def _read(text: bytes, type_: type[Any]) -> Any:
    try:
        return msgspec.convert(_object(text), type_)
    except msgspec.ValidationError as error:
        raise SignatureRefused(f"not what a device signs: {error}") from None


def _object(text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is there twice")
        return found

    try:
        found = json.loads(text.decode(), object_pairs_hook=once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise SignatureRefused(f"not what a device signs: {error}") from None
    if not isinstance(found, dict):
        raise SignatureRefused("not what a device signs: no object")
    return found


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _bytes64(text: str) -> bytes:
    try:
        return base64url.decode(text)
    except ValueError as error:
        raise SignatureRefused(str(error)) from None
