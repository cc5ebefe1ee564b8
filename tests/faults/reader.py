"""A dashboard that times what is sent to it, and a connector's way to send much."""

from __future__ import annotations

import asyncio
import json
import time

from fakes.peers import ClientPeer, UplinkPeer
from websockets.exceptions import ConnectionClosed

SENT = "sent:"
IN_FLIGHT = 32  # entries, where they go out as fast as they are stored


class Reader(ClientPeer):
    """Keeps how long each timed entry was under way instead of the entry."""

    def __init__(self, *args, **more) -> None:
        super().__init__(*args, **more)
        self.seconds: list[float] = []
        self.gaps = 0

    async def _read(self) -> None:
        try:
            async for text in self.socket:
                if (at := text.find(SENT)) >= 0:
                    sent = text[at + len(SENT) :].partition(" ")[0]
                    self.seconds.append(time.monotonic() - float(sent))
                    continue
                self.gaps += '"_bridge/gap"' in text
                async with self._changed:
                    self.got.append(json.loads(text))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass

    def stop_reading(self) -> None:
        """Take nothing more; the connection stays."""
        self.socket.transport.pause_reading()

    def take(self) -> list[float]:
        """Give the times since they were last asked for."""
        seconds, self.seconds = self.seconds, []
        return seconds


class Broadcast:
    """One session's entries, timed and of one size."""

    def __init__(self, connector: UplinkPeer, size: int) -> None:
        self.seq = 0
        self._connector, self._filler = connector, "x" * size

    async def send(self, count: int, rate: float = 0) -> None:
        """Send so many, at a rate or as fast as they are stored, and wait until all are."""
        due = time.monotonic()
        for _ in range(count):
            if rate:
                due += 1 / rate
                await asyncio.sleep(due - time.monotonic())
            self.seq += 1
            text = f"{SENT}{time.monotonic()} {self._filler}"
            await self._connector.say(self._connector.update(self.seq, text))
            if not self.seq % IN_FLIGHT:
                await self._stored(self.seq - IN_FLIGHT)
        await self._stored(self.seq)

    async def _stored(self, seq: int) -> None:
        if seq > 0:
            await self._connector.acknowledged(seq)
        self._connector.got[:-1] = []
