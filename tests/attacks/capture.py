"""All that a relay and its Redis get to see: bytes on the wire, commands, and what is stored."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from typing import Self

from fakes.cable import Tap
from redis.asyncio import Redis

from bridge.frames import FrameReader
from bridge.protocol import uplink


class Capture:
    """What the owner of a relay and of its Redis has written down."""

    def __init__(self, redis_url: str) -> None:
        self.pieces: list[bytes] = []
        self.commands = 0
        self._redis = Redis.from_url(redis_url)
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        begun = asyncio.Event()
        self._watching = asyncio.create_task(self._watch(begun))
        await begun.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watching
        await self._redis.aclose()

    def tap(self) -> Tap:
        return _Wire(self.pieces)

    async def store(self) -> int:
        """Write down every key as it is; gives how many there are."""
        count = 0
        async for key in self._redis.scan_iter():
            count += 1
            self.pieces += [key, await self._redis.dump(key) or b""]
        return count

    @property
    def bytes(self) -> int:
        return sum(map(len, self.pieces))

    def holds(self, secret: bytes) -> bool:
        """Whether a secret is in it in any usual form."""
        text = base64.urlsafe_b64encode(secret).rstrip(b"=")
        forms = {secret, secret.hex().encode(), text, base64.b64encode(secret).rstrip(b"=")}
        return any(form in piece for piece in self.pieces for form in forms)

    def signatures(self) -> list[str]:
        """Every compact JWS of a device that was seen."""
        found: set[str] = set()
        for piece in self.pieces:
            for part in piece.replace(b"\\", b"").split(b'"'):
                if part.startswith(b"eyJ") and part.count(b".") == 2 and b"typ" in _head(part):
                    found.add(part.decode())
        return sorted(jws for jws in found if b"+jwt" in _head(jws.encode()))

    async def _watch(self, begun: asyncio.Event) -> None:
        async with self._redis.monitor() as monitor:
            begun.set()
            async for command in monitor.listen():
                self.commands += 1
                self.pieces.append(command["command"].encode("utf-8", "surrogateescape"))


def _head(jws: bytes) -> bytes:
    head = jws.partition(b".")[0]
    try:
        return base64.urlsafe_b64decode(head + b"=" * (-len(head) % 4))
    except ValueError:
        return b""


class _Wire(Tap):
    """Writes down both directions; what clients masked is read as a relay reads it."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces
        self._frames: FrameReader | None = None

    def up(self, data: bytes) -> None:
        self._pieces.append(data)
        if self._frames is not None:
            self._pieces += self._frames.feed(data).messages
        elif b"Upgrade: websocket" in data and data.endswith(b"\r\n\r\n"):
            self._frames = FrameReader(uplink.FRAME_LIMIT)

    def down(self, data: bytes) -> bool:
        self._pieces.append(data)
        return True
