"""Which tokens are in use, and which are revoked: known to every relay process within a second.

A token carries its own proof, so checking one asks the store nothing. What was revoked is a short
list that every process holds; a counter says when it changed, and is looked at all the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import msgspec

from bridge import keys
from bridge.identity import Identity
from bridge.outage import Outage
from bridge.protocol import base64url
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import InvalidParams, NotFound, StoreUnavailable, TokenInvalid
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store
from bridge.tokens import LEEWAY_SECONDS, LONGEST_TTL_SECONDS

LOOK_SECONDS = 0.3
WRITE_SECONDS = 5.0
SEEN_MS = 60_000  # how exactly it is known when a token was last used
REMEMBERED = 20_000


class KnownToken(msgspec.Struct, frozen=True, rename="camel"):
    """A token that was used; times are Unix milliseconds."""

    id: str
    kind: str
    subject: str
    role: str
    made_at: int
    expires_at: int
    last_used: int
    bound: bool = False  # to a key

    def as_json(self, revoked_at: int | None) -> Payload:
        """Give the wire shape."""
        shown = {
            "id": self.id,
            "kind": self.kind,
            "subject": self.subject,
            "role": self.role,
            "madeAt": timestamp(self.made_at),
            "expiresAt": timestamp(self.expires_at),
            "lastUsed": timestamp(self.last_used),
            "bound": self.bound,
        }
        return shown if revoked_at is None else {**shown, "revokedAt": timestamp(revoked_at)}


class Revoked(NamedTuple):
    """A token that is taken no more; times are Unix milliseconds."""

    at: int
    end: int  # of the time for which it must be remembered


class TokenRegister:
    """The tokens of all tenants."""

    def __init__(self, store: Store, close: Callable[[str], object]) -> None:
        """Keep them in this store; ``close`` ends what lives from a token here."""
        self._store = store
        self._close = close
        self._revoked: dict[str, Revoked] = {}  # by id
        self._changes = b""
        self._seen: dict[str, int] = {}  # id → when it was written last
        self._to_write: dict[tuple[str, str], KnownToken] = {}  # by tenant and id

    async def check(self, identity: Identity) -> None:
        """Let a token that was verified pass; raises TokenInvalid, and StoreUnavailable at first.

        A process that never learnt what is revoked lets nobody in.
        """
        if not self._changes:
            await self.look()
        if identity.token_id in self._revoked:
            raise TokenInvalid("invalid token: it was revoked", reason="token_revoked")

    async def of_tenant(self, tenant: str, subject: str | None = None) -> list[Payload]:
        """Give the tokens in use, of everybody or of one subject, the last used first."""
        await self.look()
        await self._write()
        now = await self._store.time_ms()
        known = await self._known(tenant)
        over = [one.id for one in known if one.expires_at + LEEWAY_SECONDS * 1000 < now]
        if over:
            async with self._store.operation():
                await self._store.commands.hdel(keys.tokens(tenant), *over)
        found = [one for one in known if one.id not in over and subject in {None, one.subject}]
        found.sort(key=lambda one: one.last_used, reverse=True)
        revoked = {id_: one.at for id_, one in self._revoked.items()}
        return [one.as_json(revoked.get(one.id)) for one in found]

    async def revoke(self, identity: Identity, id_: str, *, everybody: bool) -> KnownToken:
        """Revoke a token of one's own, or of anybody in the tenant; raises NotFound."""
        await self._write()
        for one in await self._known(identity.tenant):
            if one.id == id_ and (everybody or one.subject == identity.subject):
                await self.revoke_by_id(id_, one.expires_at)
                async with self._store.operation():
                    await self._store.commands.delete(keys.family(identity.tenant, id_))
                return one
        raise NotFound(f"unknown token {id_!r:.80}")

    async def revoke_by_id(self, id_: str, expires_at: int | None = None) -> None:
        """Take a token no more; it is remembered until it would have ended anyway."""
        now = await self._store.time_ms()
        end = (expires_at or now + LONGEST_TTL_SECONDS * 1000) + LEEWAY_SECONDS * 1000
        async with self._store.operation():
            await self._store.commands.zadd(keys.REVOKED, {f"{id_} {now}": end})
            await self._store.commands.incr(keys.REVOCATIONS)
        await self.look()

    # All the time.

    async def run(self) -> NoReturn:
        """Learn what others revoke, and write down what is used, until cancelled."""
        outage, loop = Outage("revoked tokens"), asyncio.get_running_loop()
        write_at = loop.time() + WRITE_SECONDS
        while True:
            try:
                await self.look()
                if loop.time() >= write_at:
                    await self._write()
                    write_at = loop.time() + WRITE_SECONDS
                outage.over()
            except StoreUnavailable as error:
                await outage.wait(error)
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Take in what was revoked, and end what lives from it; raises StoreUnavailable."""
        async with self._store.operation():
            changes = await self._store.commands.get(keys.REVOCATIONS) or b"0"
        if changes == self._changes:
            return
        now = await self._store.time_ms()
        async with self._store.operation():
            await self._store.commands.zremrangebyscore(keys.REVOKED, "-inf", now)
            found = await self._store.commands.zrange(keys.REVOKED, 0, -1, withscores=True)
        revoked = {id_: one for id_, one in self._revoked.items() if one.end > now}
        for member, end in found:  # the first time that one was revoked counts
            id_, _, at = member.decode().partition(" ")
            one = Revoked(int(at), int(end))
            revoked[id_] = min(revoked.get(id_, one), one)
        fresh = revoked.keys() - self._revoked.keys()
        self._revoked, self._changes = revoked, changes
        for id_ in fresh:
            self._close(id_)

    # What is in use.

    def note(self, identity: Identity) -> None:
        """Remember that a token was used; it is written down later."""
        now = int(asyncio.get_running_loop().time() * 1000)
        if (
            identity.expires_at is None
            or now - self._seen.get(identity.token_id, -SEEN_MS) < SEEN_MS
        ):
            return
        if len(self._seen) >= REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self._seen[identity.token_id] = now
        self._to_write[identity.tenant, identity.token_id] = KnownToken(
            identity.token_id,
            identity.kind,
            identity.subject,
            str(identity.role),
            identity.made_at or 0,
            identity.lasts_until or identity.expires_at,
            0,  # the store's clock, when it is written
            bool(identity.key),
        )

    async def _write(self) -> None:
        if not self._to_write:
            return
        now = await self._store.time_ms()
        writing = self._to_write
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for (tenant, id_), one in writing.items():
                seen = msgspec.structs.replace(one, last_used=now)
                pipe.hset(keys.tokens(tenant), id_, msgspec.json.encode(seen))
                pipe.expire(keys.tokens(tenant), LONGEST_TTL_SECONDS)
            await pipe.execute()
        self._to_write = {key: one for key, one in self._to_write.items() if key not in writing}

    async def _known(self, tenant: str) -> list[KnownToken]:
        async with self._store.operation():
            found = await self._store.commands.hvals(keys.tokens(tenant))
        return [msgspec.json.decode(text, type=KnownToken) for text in found]


def id_of(text: str) -> str:
    """Give a token's id, from the token or as it is; raises InvalidParams."""
    if text.count(".") == 2:  # noqa: PLR2004 (a JWT's parts)
        try:
            claims = msgspec.json.decode(base64url.decode(text.split(".")[1]))
            text = str(claims.get("fam") or claims["jti"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidParams("this is no token: give it whole, or its id") from None
    return keys.check_id(text, "token id")
