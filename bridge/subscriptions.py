"""Who wants to be notified: browsers' subscriptions, and of what each was told already."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from bridge import keys
from bridge.identity import Identity
from bridge.login import Logins
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import InvalidParams, NotAllowed, NotFound
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store
from bridge.web_push import Attempt, Receiver

MOST_OF_SUBJECT = 20
MOST_OF_TENANT = 1000
BUZZED_SECONDS = 86_400
DAY_MINUTES = 1440

Kind = Literal["question", "turn", "failure"]
KINDS: tuple[Kind, ...] = ("question", "turn", "failure")


class Quiet(msgspec.Struct, frozen=True, rename="camel"):
    """Hours in which a browser is not notified, in minutes of its day."""

    begins: int
    ends: int
    utc_offset: int = 0  # minutes that the browser's clock is ahead of UTC

    def holds(self, now_ms: int) -> bool:
        """Whether it is such an hour."""
        minute = (now_ms // 60_000 + self.utc_offset) % DAY_MINUTES
        if self.begins <= self.ends:
            return self.begins <= minute < self.ends
        return minute >= self.begins or minute < self.ends


class Wish(msgspec.Struct, frozen=True, rename="camel"):
    """Of what a browser wants to be notified, and how much may be read on a locked screen."""

    kinds: tuple[Kind, ...] = KINDS
    shows: Literal["little", "all"] = "little"
    quiet: Quiet | None = None

    def wants(self, kind: Kind, now_ms: int) -> bool:
        """Whether it is to be notified of this now."""
        return kind in self.kinds and not (self.quiet and self.quiet.holds(now_ms))


class Subscription(msgspec.Struct, frozen=True, rename="camel"):
    """One browser's."""

    id: str
    receiver: Receiver
    login: str  # lives as long as this sign-in
    subject: str
    device: str
    created_at: int  # Unix milliseconds
    wish: Wish = Wish()
    last: Attempt | None = None
    last_at: int = 0

    def as_json(self, identity: Identity) -> Payload:
        """Give the wire shape, without what would let one write to the browser."""
        shown: Payload = {
            "id": self.id,
            "device": self.device,
            "createdAt": timestamp(self.created_at),
            "here": self.login == identity.token_id,
            "wish": msgspec.to_builtins(self.wish),
        }
        if self.last is not None:
            shown["last"] = {**msgspec.to_builtins(self.last), "at": timestamp(self.last_at)}
        return shown


class Subscriptions:
    """The subscriptions of all tenants."""

    def __init__(self, store: Store, logins: Logins) -> None:
        """Keep them in this store; those of ended sign-ins are dropped."""
        self._store = store
        self._logins = logins

    async def put(self, identity: Identity, receiver: Receiver, wish: Wish) -> Subscription:
        """Take a browser's subscription, or its new wish; raises NotAllowed, InvalidParams."""
        if not identity.token_id.startswith("login-"):
            raise NotAllowed("only a browser that is signed in can be notified")
        check_wish(wish)
        id_ = hashlib.sha256(receiver.endpoint.encode()).hexdigest()[:32]
        held = await self.all(identity.tenant)
        others = [one for one in held if one.id != id_]
        own = [one for one in others if one.subject == identity.subject]
        if len(own) >= MOST_OF_SUBJECT or len(others) >= MOST_OF_TENANT:
            raise InvalidParams(
                f"{len(own)} browsers of {identity.subject} are notified already: remove one first"
            )
        before = next((one for one in held if one.id == id_), None)
        now = await self._store.time_ms()
        made = Subscription(
            id_,
            receiver,
            identity.token_id,
            identity.subject,
            identity.device,
            before.created_at if before else now,
            wish,
        )
        await self._write(identity.tenant, made)
        return made

    async def all(self, tenant: str) -> list[Subscription]:
        """Give a tenant's, the oldest first."""
        async with self._store.operation():
            found = await self._store.commands.hvals(keys.push(tenant))
        read = [msgspec.json.decode(text, type=Subscription) for text in found]
        return sorted(read, key=lambda one: (one.created_at, one.id))

    async def living(self, tenant: str) -> list[tuple[Subscription, Identity]]:
        """Give those whose sign-in lives, with whom it speaks for; the others are dropped."""
        found = []
        for one in await self.all(tenant):
            identity = await self._logins.of_id(one.login)
            if identity is None:
                await self.drop(tenant, [one.id])
            else:
                found.append((one, identity))
        return found

    async def of(self, identity: Identity) -> list[Subscription]:
        """Give one's own."""
        return [one for one in await self.all(identity.tenant) if one.subject == identity.subject]

    async def remove(self, identity: Identity, id_: str) -> None:
        """Notify one of one's own browsers no more; raises NotFound."""
        if not any(one.id == id_ for one in await self.of(identity)):
            raise NotFound(f"unknown subscription {id_!r:.80}")
        await self.drop(identity.tenant, [id_])

    async def drop(self, tenant: str, ids: Sequence[str]) -> None:
        """Forget some."""
        async with self._store.operation():
            await self._store.commands.hdel(keys.push(tenant), *ids)

    async def note(self, tenant: str, one: Subscription, attempt: Attempt) -> None:
        """Keep how the last message to a browser fared; one that is gone is dropped."""
        if attempt.is_gone:
            await self.drop(tenant, [one.id])
            return
        now = await self._store.time_ms()
        await self._write(tenant, msgspec.structs.replace(one, last=attempt, last_at=now))

    async def now_ms(self) -> int:
        """Give the store's clock, Unix milliseconds."""
        return await self._store.time_ms()

    # Once each.

    async def first(self, tenant: str, what: str, ids: Iterable[str]) -> list[str]:
        """Take those that nobody has notified of this yet; whoever takes one notifies it."""
        wanted, name = list(ids), keys.buzzed(tenant, what)
        if not wanted:
            return []
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in wanted:
                pipe.sadd(name, id_)
            pipe.expire(name, BUZZED_SECONDS)
            *added, _ = await pipe.execute()
        return [id_ for id_, fresh in zip(wanted, added, strict=True) if fresh]

    async def told(self, tenant: str, what: str) -> set[str]:
        """Give those that were notified of something."""
        async with self._store.operation():
            return {
                i.decode() for i in await self._store.commands.smembers(keys.buzzed(tenant, what))
            }

    async def _write(self, tenant: str, one: Subscription) -> None:
        async with self._store.operation():
            await self._store.commands.hset(keys.push(tenant), one.id, msgspec.json.encode(one))


def check_wish(wish: Wish) -> None:
    """Refuse hours that a day does not have; raises InvalidParams."""
    quiet = wish.quiet
    if quiet is None:
        return
    for name, minute in (("begins", quiet.begins), ("ends", quiet.ends)):
        if not 0 <= minute < DAY_MINUTES:
            raise InvalidParams(f"quiet {name} {minute}: a day has the minutes 0 to 1439")
    if abs(quiet.utc_offset) > DAY_MINUTES:
        raise InvalidParams(f"utcOffset {quiet.utc_offset}: at most a day of minutes")
