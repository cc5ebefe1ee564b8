"""How much one person, one tenant and one address may ask for in a minute, at all processes."""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from typing import Literal, TypeAlias

from bridge import keys
from bridge.health import Health
from bridge.identity import Identity
from bridge.protocol.errors import RateLimited, StoreUnavailable
from bridge.redis import Store
from bridge.settings import Settings

What: TypeAlias = Literal["sign_ins", "calls", "decisions", "mail"]
_WORDS: dict[What, str] = {
    "sign_ins": "sign-in tries",
    "calls": "calls",
    "decisions": "answers",
    "mail": "messages",
}


class Buckets:
    """Lets through what is within the settings; nothing here is on the way of entries."""

    def __init__(self, store: Store, health: Health, settings: Settings) -> None:
        """Keep the buckets in this store: they are one for all relay processes."""
        self._store = store
        self._health = health
        self._shared = settings.limit_shared_factor
        self._per_minute: dict[What, int] = {
            "sign_ins": settings.sign_ins_per_minute,
            "calls": settings.calls_per_minute,
            "decisions": settings.decisions_per_minute,
            "mail": settings.mail_per_minute,
        }

    async def take(self, what: What, who: Identity, address: str = "") -> None:
        """Take one for somebody, the tenant and the address; raises RateLimited.

        While the store is away everything passes: what needs it fails by itself.
        """
        own = self._per_minute[what]
        subject = keys.bucket(who.tenant, f"{what}.{_digest(f'{who.kind} {who.subject}')[:32]}")
        tenant = keys.bucket(who.tenant, what)
        asked = [self._take([subject, tenant], [own, own * self._shared])]
        if address:
            asked.append(self._take([_address_bucket(what, address)], [own * self._shared]))
        self._let(what, max(await asyncio.gather(*asked)))

    async def take_unknown(self, what: What, address: str) -> None:
        """Take one for an address of which nobody is known yet; raises RateLimited."""
        wait = await self._take([_address_bucket(what, address)], [self._per_minute[what]])
        self._let(what, wait)

    async def _take(self, buckets: list[str], sizes: list[int]) -> int:
        """Give the milliseconds to wait; a size of 0 is no limit."""
        if not all(sizes) or self._health.trouble is not None:
            return 0
        try:
            return int(await self._store.run("limit", buckets, [secrets.token_hex(8), *sizes]))
        except StoreUnavailable:
            return 0

    @staticmethod
    def _let(what: What, wait: int) -> None:
        if wait:
            seconds = math.ceil(wait / 1000)
            raise RateLimited(
                f"too many {_WORDS[what]} at once: come again in {seconds} s", retryAfter=seconds
            )


def _address_bucket(what: What, address: str) -> str:
    return keys.address_bucket(_digest(f"{what} {address}"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
