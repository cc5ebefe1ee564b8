"""What a whole run stands on: a Redis that can be killed and two relay processes over it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

from fakes.redises import Redises, Server
from fakes.site import Site
from redis import Redis

from bridge import keys
from bridge.protocol.acp import Role
from bridge.tokens import Tokens

TENANT = "default"


class Ground:
    """Everything that outlives one connector and its people."""

    def __init__(self, folder: Path, made: Redises) -> None:
        self.redis: Server = made.server()
        url = f"redis://127.0.0.1:{self.redis.port}"
        first = Site(folder / "a", redis_url=url)
        second = Site(folder / "b", redis_url=url, keys=folder / "a" / "relay")
        self.relays = [first, second]
        self.tokens: dict[str, str] = {}
        self.redis_is_up = True

    async def __aenter__(self) -> Self:
        first, second = self.relays
        await asyncio.gather(first.start_relay(), second.start_relay())
        self._signing = Tokens(first.folder / "relay" / "keys")
        for subject in ("alice", "bob", "carol"):
            self.tokens[subject] = self._signing.issue("person", subject, TENANT, Role.OPERATOR)
        return self

    def machine_token(self) -> str:
        """Give a token that is bound to no state folder yet."""
        return self._signing.issue("agent", "box", TENANT, Role.OPERATOR)

    async def __aexit__(self, *_: object) -> None:
        await self.mend()
        for relay in self.relays:
            await relay.relay.end()

    async def mend(self) -> None:
        """Have everything running that was ended."""
        if not self.redis_is_up:
            self.start_redis()
        for relay in self.relays:
            if relay.relay.process.returncode is not None:
                await relay.start_relay()

    # Faults.

    async def kill_relay(self, which: int) -> None:
        if self.relays[which].relay.process.returncode is None:
            await self.relays[which].relay.kill()

    async def end_relay(self, which: int) -> None:
        """End it as an upgrade does: its sockets are closed in order."""
        assert await self.relays[which].relay.end() == 0

    async def start_relay(self, which: int) -> None:
        if self.relays[which].relay.process.returncode is not None:
            await self.relays[which].start_relay()

    def kill_redis(self) -> None:
        self.redis.kill()
        self.redis_is_up = False

    def start_redis(self) -> None:
        self.redis.start()
        self.redis_is_up = True

    # What is stored.

    def log(self, session: str) -> list[bytes]:
        """A session's stored entries."""
        with self._client() as client:
            return [f[b"m"] for _, f in client.xrange(keys.log(TENANT, session))]

    def is_ready(self) -> bool:
        """Whether Redis answers."""
        try:
            return self.redis.call("PING") is not None
        except Exception:  # noqa: BLE001 (it starts, or it does not)
            return False

    def _client(self) -> Redis:
        return Redis(port=self.redis.port, protocol=2, socket_timeout=5)


async def until(is_so, seconds: float = 60.0) -> None:
    """Wait until something holds that nothing tells of."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
