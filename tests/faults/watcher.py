"""A dashboard that comes back whenever it is cut off, and writes down every stamp it is shown."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections import defaultdict
from typing import Any, Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from bridge.protocol.entry import META_KEY

WAIT_SECONDS = 60
CHUNK = "agent_message_chunk"


class _Stamp(msgspec.Struct):
    epoch: int = 0
    seq: int = 0


class _Meta(msgspec.Struct):
    bridge: _Stamp | None = msgspec.field(default=None, name=META_KEY)


class _Content(msgspec.Struct):
    text: str = ""


class _Update(msgspec.Struct):
    kind: str = msgspec.field(default="", name="sessionUpdate")
    content: Any = None


class _Params(msgspec.Struct, rename="camel"):
    session_id: str = ""
    update: _Update | None = None
    meta: _Meta | None = msgspec.field(default=None, name="_meta")


class _Message(msgspec.Struct):
    method: str = ""
    id: Any = None
    params: _Params | None = None
    error: Any = None


_read = msgspec.json.Decoder(_Message).decode


class Watcher:
    """Use it as ``async with Watcher(url, token, sessions) as watcher``."""

    def __init__(self, url: str, token: str, sessions: list[str]) -> None:
        self.url = url.replace("http", "ws", 1) + "/acp"
        self.stamps: dict[str, list[int]] = {session: [] for session in sessions}
        self.cursors: dict[str, str] = {}
        self.gaps = 0
        self.codes: list[int | None] = []  # how its connections ended
        self.back_at: list[float] = []  # when it was served again after each end
        self.longest: dict[str, float] = defaultdict(float)  # seconds without an entry
        self._headers = {"Authorization": f"Bearer {token}"}
        self._heard_at: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._socket: ClientConnection | None = None
        self._stays = True
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        self._living = asyncio.create_task(self._live())
        await self.until(lambda: self.back_at)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stays = False
        if self._socket is not None:
            self._socket.transport.abort()
        await self._living

    # What a row does.

    def drop(self) -> None:
        """Lose the connection; it comes back by itself."""
        if self._socket is not None:
            self._socket.transport.abort()

    def mark(self) -> None:
        """Measure the longest silences from here on."""
        self.longest.clear()

    async def until(self, so: Any, seconds: float = WAIT_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not so():
                self._changed.clear()
                await self._changed.wait()

    async def has(self, count: int, seconds: float = WAIT_SECONDS) -> None:
        """Wait for that many stamps in each session."""
        await self.until(lambda: all(len(s) >= count for s in self.stamps.values()), seconds)

    @property
    def seen(self) -> int:
        return sum(map(len, self.stamps.values()))

    # Its connection.

    async def _live(self) -> None:
        while self._stays:
            try:
                async with connect(
                    self.url,
                    additional_headers=self._headers,
                    compression=None,
                    max_size=None,
                    ping_interval=None,
                    close_timeout=1,
                ) as self._socket:
                    await self._serve(self._socket)
            except (OSError, WebSocketException):
                self.codes.append(self._socket.close_code if self._socket else None)
                self._changed.set()
            await asyncio.sleep(random.uniform(0, 0.2))

    async def _serve(self, socket: ClientConnection) -> None:
        await self._ask(socket, "initialize", protocolVersion=1, clientCapabilities={})
        for session in self.stamps:
            opened = {"sessionId": session, "cwd": "/", "mcpServers": []}
            if session in self.cursors:
                meta = {META_KEY: {"cursor": self.cursors[session]}}
                last = await self._ask(socket, "session/resume", **opened, _meta=meta)
            else:
                last = await self._ask(socket, "session/load", **opened)
        while True:
            message = _read(await socket.recv(decode=False))
            if message.id == last and not message.method:
                self.back_at.append(time.monotonic())
                if message.error:
                    return  # the store was away, perhaps: come again
            self._take(message)
            self._changed.set()

    async def _ask(self, socket: ClientConnection, method: str, **params: Any) -> int:
        id_ = next(self._numbers)
        asked = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        await socket.send(json.dumps(asked))
        return id_

    def _take(self, message: _Message) -> None:
        if message.params is None or message.id is not None:
            return
        session, meta = message.params.session_id, message.params.meta
        if message.method == "_bridge/gap":
            self.gaps += 1
        if meta is None or meta.bridge is None or not meta.bridge.seq:
            return
        now = time.monotonic()
        silence = now - self._heard_at.get(session, now)
        self.longest[session] = max(self.longest[session], silence)
        self._heard_at[session] = now
        self.cursors[session] = f"{meta.bridge.epoch}:{meta.bridge.seq}"
        update = message.params.update
        if update is not None and update.kind == CHUNK:
            self.stamps[session] += map(int, update.content["text"].split())
