"""Proofs that who shows a token has the key it is bound to (DPoP, RFC 9449).

A connector signs each attempt to attach with a key of its machine. The first proof binds the token
to that key; from then on a copy of the token alone opens nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from bridge import keys
from bridge.audit import Audit
from bridge.identity import Identity
from bridge.protocol import base64url
from bridge.protocol.errors import TokenInvalid
from bridge.redis import Store

TYPE = "dpop+jwt"
SIZE_LIMIT = 4 << 10
AGE_SECONDS = 120  # clocks differ, and lines are slow
_ID = re.compile(r"[A-Za-z0-9_-]{8,64}")
_COORDINATE_BYTES = 32


class _Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kty: str
    crv: str
    x: str
    y: str


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    typ: str
    alg: str
    jwk: _Key


class Claims(msgspec.Struct, frozen=True):
    """What a proof says."""

    htm: str  # the HTTP method
    htu: str  # the address, without query
    iat: int
    jti: str
    ath: str = ""  # SHA-256 of the token, base64url


_read_header = msgspec.json.Decoder(_Header).decode
_read_claims = msgspec.json.Decoder(Claims).decode


class Proofs:
    """Checks proofs, binds tokens to keys, and takes each proof once."""

    def __init__(
        self, store: Store, audit: Audit | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Remember bindings and proofs in this store."""
        self._store = store
        self._audit = audit
        self._clock = clock

    async def check(
        self,
        identity: Identity,
        token: str | None,
        proof: str | None,
        urls: Collection[str],
        method: str = "GET",
    ) -> str:
        """Let a token pass with a good proof, or an unbound one without; raises TokenInvalid.

        ``urls``: the addresses that this request may have been meant for. Without a ``token`` the
        proof need not name one. Gives the key's thumbprint, '' without a proof.
        """
        if proof is None:
            await self.join(identity, "")
            return ""
        claims, thumbprint = read(proof)
        self._check_claims(claims, token, urls, method)
        once = keys.proof(hashlib.sha256(f"{thumbprint} {claims.jti}".encode()).hexdigest())
        async with self._store.operation():
            fresh = await self._store.commands.set(once, 1, ex=2 * AGE_SECONDS, nx=True)
        if not fresh:
            raise _refused("it was used before")
        await self.join(identity, thumbprint)
        return thumbprint

    async def join(self, identity: Identity, thumbprint: str) -> None:
        """Bind a token to a key unless it is bound; raises TokenInvalid when it is to another."""
        name = keys.bound(identity.tenant, identity.token_id)
        left = (
            (identity.lasts_until or identity.expires_at or 0) // 1000
            - int(self._clock())
            + AGE_SECONDS
        )
        async with self._store.operation():
            if thumbprint:
                life = max(AGE_SECONDS, left)
                held = await self._store.commands.set(name, thumbprint, ex=life, nx=True, get=True)
            else:
                held = await self._store.commands.get(name)
        if held is None and thumbprint and self._audit is not None:
            facts = {"token": identity.token_id, "key": thumbprint}
            await self._audit.write(identity.tenant, "token_bound", identity.origin, **facts)
        if held is None or held.decode() == thumbprint:
            return
        if not thumbprint:
            raise _refused("this token is bound to a machine's key, and came without its proof")
        raise _refused(
            "this token is bound to the key of another machine or state folder, which used it "
            "first: make one for this with chimera-relay token --kind agent"
        )

    def _check_claims(
        self, claims: Claims, token: str | None, urls: Collection[str], method: str
    ) -> None:
        if claims.htm != method or claims.htu not in urls:
            raise _refused(
                f"it is for {claims.htm[:8]} {claims.htu[:200]!r}, not for this relay: name that "
                "address in BRIDGE_PUBLIC_URL or BRIDGE_ALLOWED_ORIGINS"
            )
        if abs(self._clock() - claims.iat) > AGE_SECONDS:
            raise _refused("it is of another time: is a clock wrong?")
        if token is not None and claims.ath != _hash(token):
            raise _refused("it is for another token")
        if _ID.fullmatch(claims.jti) is None:
            raise _refused("its jti is none")


def read(proof: str) -> tuple[Claims, str]:
    """Check a proof's signature; gives what it says and its key's thumbprint (RFC 7638)."""
    if len(proof) > SIZE_LIMIT or not proof.isascii() or proof.count(".") != 2:  # noqa: PLR2004
        raise _refused("it is malformed")
    head, body, signature = proof.split(".")
    try:
        header, claims = _read_header(base64url.decode(head)), _read_claims(base64url.decode(body))
        raw, x, y = map(base64url.decode, (signature, header.jwk.x, header.jwk.y))
    except (ValueError, RecursionError):
        raise _refused("it is malformed") from None
    known = (header.typ, header.alg, header.jwk.kty, header.jwk.crv)
    sizes = {len(x), len(y)} == {_COORDINATE_BYTES} and len(raw) == 2 * _COORDINATE_BYTES
    if known != (TYPE, "ES256", "EC", "P-256") or not sizes:
        raise _refused("it is none of ES256")
    r, s = int.from_bytes(raw[:_COORDINATE_BYTES]), int.from_bytes(raw[_COORDINATE_BYTES:])
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), ec.SECP256R1())
    try:
        numbers.public_key().verify(
            encode_dss_signature(r, s), f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256())
        )
    except (ValueError, InvalidSignature):
        raise _refused("it is not signed by its key") from None
    return claims, thumbprint_of(header.jwk.x, header.jwk.y)


def _hash(text: str) -> str:
    return base64url.encode(hashlib.sha256(text.encode()).digest())


def thumbprint_of(x: str, y: str) -> str:
    """Give a P-256 key's thumbprint (RFC 7638)."""
    canonical = json.dumps(
        {"crv": "P-256", "kty": "EC", "x": x, "y": y}, separators=(",", ":"), sort_keys=True
    )
    return _hash(canonical)


def _refused(why: str) -> TokenInvalid:
    return TokenInvalid(f"invalid proof: {why}", reason="proof_invalid")
