"""Tokens of the relay: JWTs signed with EdDSA, checked claim by claim (RFC 7519, RFC 8725)."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import jwt
import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from bridge.identity import Identity, Kind
from bridge.protocol import base64url
from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams, TokenInvalid
from bridge.signing_keys import SigningKeys

ISSUER = "chimera-bridge"
AUDIENCE = "chimera-relay"
TYPES: dict[Kind, str] = {"person": "access+jwt", "agent": "agent+jwt"}
TTL_SECONDS: dict[Kind, int] = {"person": 15 * 60, "agent": 30 * 86_400}
LONGEST_TTL_SECONDS = 400 * 86_400  # what browsers allow cookies; a longer one is a slip
SIZE_LIMIT = 8 << 10  # bytes; ours have about 400
REMEMBERED = 20_000  # tokens whose signature was checked; everything else is checked every time
LEEWAY_SECONDS = 60  # clocks of two machines differ

_ALGORITHM = "EdDSA"
_TENANT = re.compile(r"[a-z0-9-]{1,63}")
_SUBJECT = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,128}")


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Only what we write ourselves: a header with jku, x5u, jwk or crit is not ours."""

    alg: str
    typ: str
    kid: str


class _Claims(msgspec.Struct, frozen=True, omit_defaults=True):
    iss: str
    aud: str
    sub: str
    tenant: str
    role: str
    jti: str
    iat: int
    exp: int
    fam: str = ""  # the family it came from by a refresh token
    fam_exp: int = 0  # when that ends


_read_header = msgspec.json.Decoder(_Header).decode
_read_claims = msgspec.json.Decoder(_Claims).decode
_jws = jwt.PyJWS(algorithms=[_ALGORITHM])


class Family(NamedTuple):
    """What a sign-in's tokens have in common, each given for the refresh token of the last."""

    id: str
    ends: int  # Unix seconds


class Tokens:
    """Issues and checks tokens with the keys of one folder."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        """Read the keys, making the first one when there is none; raises OSError."""
        self._clock = clock
        self._keys = SigningKeys(folder)
        # The key that checked a token, by the token's hash; the oldest first.
        self._signed: dict[bytes, Ed25519PublicKey] = {}

    def issue(
        self,
        kind: Kind,
        subject: str,
        tenant: str,
        role: Role,
        ttl_seconds: int | None = None,
        *,
        family: Family | None = None,
    ) -> str:
        """Give a signed token; raises InvalidParams naming what cannot be put into one."""
        lifetime = TTL_SECONDS[kind] if ttl_seconds is None else ttl_seconds
        check_tenant(tenant)
        check_subject(subject)
        if not 0 < lifetime <= LONGEST_TTL_SECONDS:
            raise InvalidParams(f"a token may live between 1 second and 400 days, not {lifetime} s")
        now = int(self._clock())
        claims = _Claims(
            iss=ISSUER,
            aud=AUDIENCE,
            sub=subject,
            tenant=tenant,
            role=str(role),
            jti=secrets.token_urlsafe(12),
            iat=now,
            exp=now + lifetime,
            fam=family.id if family else "",
            fam_exp=family.ends if family else 0,
        )
        kid, key = self._keys.newest
        header = {"typ": TYPES[kind], "kid": kid}
        return _jws.encode(msgspec.json.encode(claims), key, _ALGORITHM, header)

    def verify(self, token: str, kind: Kind, *, door: str = "") -> Identity:
        """Find who a token speaks for; raises TokenInvalid.

        Whoever cannot sign learns nothing but ``invalid token``.
        """
        header = self._check_header(token)
        claims = self._check_signature(token, header)
        self._check_claims(header, claims, kind)
        return Identity(
            kind=kind,
            tenant=claims.tenant,
            subject=claims.sub,
            role=Role.parse(claims.role),
            token_id=claims.fam or claims.jti,
            device=claims.sub if kind == "agent" else "",
            door=door,
            expires_at=claims.exp * 1000,
            made_at=claims.iat * 1000,
            lasts_until=(claims.fam_exp or claims.exp) * 1000,
        )

    def sign(self, text: bytes) -> tuple[str, bytes]:
        """Sign what is no token with the newest key; gives the key's id and the signature."""
        kid, key = self._keys.newest
        return kid, key.sign(text)

    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """Give the keys a token may be checked with, by their id."""
        return self._keys.publics()

    def _check_header(self, token: str) -> _Header:
        if len(token) > SIZE_LIMIT or not token.isascii():
            raise TokenInvalid("invalid token")
        try:
            header = _read_header(base64url.decode(token.partition(".")[0]))
        except (ValueError, RecursionError):
            raise TokenInvalid("invalid token") from None
        if header.alg != _ALGORITHM:
            raise TokenInvalid("invalid token")
        return header

    def _check_signature(self, token: str, header: _Header) -> _Claims:
        """Read what was signed; a token that comes again is checked against no key again."""
        key = self._keys.public(header.kid)
        if key is None:
            raise TokenInvalid("invalid token")
        digest = sha256(token.encode()).digest()
        if self._signed.get(digest) is not key:
            _verify(token, key)
            if len(self._signed) >= REMEMBERED:
                del self._signed[next(iter(self._signed))]
            self._signed[digest] = key
        return _claims(token)

    def _check_claims(self, header: _Header, claims: _Claims, kind: Kind) -> None:
        now = self._clock()
        if header.typ != TYPES[kind]:
            wanted = "an agent" if kind == "agent" else "a person"
            raise TokenInvalid(f"invalid token: this door wants a token for {wanted}")
        if claims.iss != ISSUER:
            raise TokenInvalid(f"invalid token: issued by {claims.iss[:80]!r}, not by this relay")
        if claims.aud != AUDIENCE:
            raise TokenInvalid(f"invalid token: for another audience, {claims.aud[:80]!r}")
        if claims.exp + LEEWAY_SECONDS <= now:
            raise TokenInvalid(f"invalid token: expired {_ago(now - claims.exp)} ago")
        if claims.iat > now + LEEWAY_SECONDS:
            raise TokenInvalid("invalid token: issued in the future; is a clock wrong?")
        if not 0 < claims.exp - claims.iat <= LONGEST_TTL_SECONDS:
            raise TokenInvalid("invalid token: exp and iat are no lifetime")
        _check_words(claims)


def check_tenant(tenant: str) -> str:
    """Give the tenant back; raises InvalidParams when it is no name of one."""
    if not _TENANT.fullmatch(tenant):
        raise InvalidParams(f"invalid tenant {tenant[:80]!r}: use a-z, 0-9 and -, at most 63")
    return tenant


def check_subject(subject: str) -> str:
    """Give the subject back; raises InvalidParams when it cannot name anybody."""
    if not _SUBJECT.fullmatch(subject):
        raise InvalidParams(
            f"invalid subject {subject[:80]!r}: 1 to 128 characters, none of them a control one"
        )
    return subject


def _verify(token: str, key: Ed25519PublicKey) -> None:
    """Raise TokenInvalid unless the key signed it (RFC 7515, section 5.2)."""
    signed, _, signature = token.rpartition(".")
    try:
        key.verify(base64url.decode(signature), signed.encode())
    except (InvalidSignature, ValueError):
        raise TokenInvalid("invalid token") from None


def _claims(token: str) -> _Claims:
    try:
        payload = base64url.decode(token.partition(".")[2].rpartition(".")[0])
    except ValueError:
        raise TokenInvalid("invalid token") from None
    try:
        return _read_claims(payload)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise TokenInvalid(f"invalid token: {error}") from None


def _check_words(claims: _Claims) -> None:
    try:
        check_tenant(claims.tenant)
        check_subject(claims.sub)
        Role.parse(claims.role)
    except InvalidParams as error:
        raise TokenInvalid(f"invalid token: {error.message}") from None
    except KeyError:
        raise TokenInvalid(f"invalid token: unknown role {claims.role[:80]!r}") from None
    if not claims.jti:
        raise TokenInvalid("invalid token: jti is empty")


def _ago(seconds: float) -> str:
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {word}{'' if count == 1 else 's'}"
    return f"{int(seconds)} seconds"
