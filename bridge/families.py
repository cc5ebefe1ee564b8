"""Refresh tokens: each is used once and gives the next; who uses an old one ends the whole family.

A family is what came from one sign-in of a program. Its refresh tokens are numbered and signed, so
the store, which holds the newest number, holds nothing that signs anybody in.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature

from bridge import keys
from bridge.audit import Audit
from bridge.identity import Identity, Kind
from bridge.protocol import base64url
from bridge.protocol.acp import Role
from bridge.protocol.entry import Origin
from bridge.protocol.errors import InvalidParams, TokenInvalid
from bridge.redis import Store
from bridge.token_register import TokenRegister
from bridge.tokens import Family, Tokens, check_subject, check_tenant

FAMILY_SECONDS = 90 * 86_400  # then somebody signs the program in again
TTL_SECONDS: dict[Kind, int] = {"person": 15 * 60, "agent": 3600}
SIZE_LIMIT = 512
_PARTS = 5
_SIGNED_FOR = b"chimera-bridge refresh token "

Prove = Callable[[Identity], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Grant:
    """A token, and the refresh token that gives the next one, once."""

    token: str
    refresh_token: str
    expires_in: int  # seconds


class Families:
    """Makes families and refreshes their tokens."""

    def __init__(self, store: Store, tokens: Tokens, register: TokenRegister, audit: Audit) -> None:
        """Keep each family's newest number in this store."""
        self._store = store
        self._tokens = tokens
        self._register = register
        self._audit = audit

    async def make(self, kind: Kind, subject: str, tenant: str, role: Role) -> Grant:
        """Begin a family with its first tokens; raises InvalidParams."""
        family, name = secrets.token_urlsafe(12), check_tenant(tenant)
        ends = await self._store.time_ms() // 1000 + FAMILY_SECONDS
        fields = {"kind": kind, "subject": check_subject(subject), "role": str(role)}
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=True)
            pipe.hset(keys.family(name, family), mapping={**fields, "ends": ends, "number": 1})
            pipe.expireat(keys.family(name, family), ends)
            await pipe.execute()
        await self._audit.write(tenant, "token_made", token=family, subject=subject)
        return self._grant(kind, subject, tenant, role, Family(family, ends), 1)

    async def refresh(self, text: str, request: str, prove: Prove) -> Grant:
        """Give the next tokens for a refresh token; raises TokenInvalid.

        ``request``: the same one may be repeated when its answer was lost. ``prove`` raises when
        the family is bound to a machine's key of which there is no proof; it gives the key.
        """
        tenant, family, number = self._read(text)
        async with self._store.operation():
            raw = await self._store.commands.hgetall(keys.family(tenant, family))
        held = {name.decode(): value.decode() for name, value in raw.items()}
        if "number" not in held:
            raise _refused("it has ended, or was revoked")
        kind: Kind = "agent" if held["kind"] == "agent" else "person"
        identity = Identity(
            kind,
            tenant,
            held["subject"],
            Role.parse(held["role"]),
            family,
            expires_at=int(held["ends"]) * 1000,
            lasts_until=int(held["ends"]) * 1000,
        )
        await self._register.check(identity)
        await prove(identity)
        name = keys.family(tenant, family)
        following = int(
            await self._store.run("refresh", [name], [number, request or secrets.token_hex(16)])
        )
        if following < 0:
            await self._end(identity)
            raise _refused("it was used before, so somebody has a copy: sign in again")
        if not following:
            raise _refused("it has ended, or was revoked")
        await self._audit.write(tenant, "token_refreshed", identity.origin, token=family)
        ends = int(held["ends"])
        return self._grant(
            kind, identity.subject, tenant, identity.role, Family(family, ends), following
        )

    async def _end(self, identity: Identity) -> None:
        """End a family of whose tokens somebody has a copy."""
        await self._register.revoke_by_id(identity.token_id, identity.lasts_until)
        facts = {"token": identity.token_id, "subject": identity.subject}
        await self._audit.write(identity.tenant, "token_reused", Origin(""), **facts)

    def _grant(  # noqa: PLR0917 (what a token says)
        self, kind: Kind, subject: str, tenant: str, role: Role, family: Family, number: int
    ) -> Grant:
        life = TTL_SECONDS[kind]
        token = self._tokens.issue(kind, subject, tenant, role, life, family=family)
        said = f"{tenant}.{family.id}.{number}"
        kid, signature = self._tokens.sign(_SIGNED_FOR + said.encode())
        return Grant(token, f"{said}.{kid}.{base64url.encode(signature)}", life)

    def _read(self, text: str) -> tuple[str, str, int]:
        """Give the tenant, family and number of a refresh token that we signed."""
        parts = text.split(".")
        if len(text) > SIZE_LIMIT or not text.isascii() or len(parts) != _PARTS:
            raise _refused("it is none")
        tenant, family, number, kid, signature = parts
        key = self._tokens.public_keys().get(kid)
        try:
            if key is None:
                raise _refused("it is none")
            key.verify(
                base64url.decode(signature), _SIGNED_FOR + f"{tenant}.{family}.{number}".encode()
            )
            return check_tenant(tenant), keys.check_id(family, "token id"), int(number)
        except (ValueError, InvalidSignature, InvalidParams):
            raise _refused("it is none") from None


def _refused(why: str) -> TokenInvalid:
    return TokenInvalid(f"invalid refresh token: {why}", reason="refresh_refused")
