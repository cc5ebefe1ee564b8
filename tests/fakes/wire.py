"""A real uvicorn in a thread whose sockets echo, and a client that sends any bytes it likes."""

import asyncio
import contextlib
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, WebSocket

from bridge.frames import close_frame, ping_frame, text_frame
from bridge.limits import Admission, SocketLimits
from bridge.websocket import RelayWebSocketProtocol, take_over
from bridge.wire import Socket

FRAME_LIMIT = 1 << 20
WITHIN = 10.0


class EchoPeer:
    """Sends every message back, and remembers how it ended."""

    def __init__(self, its_socket: Socket) -> None:
        self.socket = its_socket
        self.got: list[bytes] = []
        self.ended: list[tuple[int, str]] = []
        self.gone = threading.Event()

    def received(self, messages: list[bytes]) -> None:
        self.got += messages
        for message in messages:
            if message == b"fail":
                raise RuntimeError("a peer that fails")
            self.socket.send(message)

    def lost(self, code: int, reason: str) -> None:
        self.ended.append((code, reason))
        self.gone.set()


class EchoServer:
    """Serves /echo (taken over), /held (accepts when told) and /plain (an ordinary route)."""

    def __init__(
        self, loop: str = "asyncio", tls: ssl.SSLContext | None = None, **limits: int
    ) -> None:
        self.peers: list[EchoPeer] = []
        self.holding, self.accept_held = threading.Event(), threading.Event()
        self.app = self._make_app()
        ws = RelayWebSocketProtocol.limited_to(Admission(SocketLimits(**limits)))
        self.config = uvicorn.Config(
            self.app, port=0, loop=loop, ws=ws, log_config=None, timeout_graceful_shutdown=3
        )
        if tls is not None:
            self.config.load()
            self.config.ssl = tls
        self.server = uvicorn.Server(self.config)
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(WITHIN)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        return self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        self.accept_held.set()
        self.server.should_exit = True
        self._thread.join(WITHIN)
        assert not self._thread.is_alive()

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function in the server's loop and give what it gives."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(WITHIN)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        startup = self.server.startup

        async def start(sockets: Any = None) -> None:
            await startup(sockets)
            self._started.set()

        self.server.startup = start  # type: ignore[method-assign]
        await self.server.serve()

    def _make_app(self) -> FastAPI:
        app = FastAPI()

        @app.websocket("/echo")
        async def echo(ws: WebSocket) -> None:
            await self._take(ws)

        @app.websocket("/held")
        async def held(ws: WebSocket) -> None:
            self.holding.set()
            await asyncio.to_thread(self.accept_held.wait)
            await self._take(ws)

        @app.websocket("/plain")
        async def plain(ws: WebSocket) -> None:
            await ws.accept()
            async for text in ws.iter_text():
                await ws.send_text(text)

        return app

    async def _take(self, ws: WebSocket) -> None:
        await take_over(
            ws,
            self._make_peer,
            subprotocol=next(iter(ws.scope["subprotocols"]), None),
            headers=[(b"acp-connection-id", b"c1")],
            frame_limit=FRAME_LIMIT,
        )

    def _make_peer(self, its_socket: Socket) -> EchoPeer:
        peer = EchoPeer(its_socket)
        self.peers.append(peer)
        return peer


def masked(opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0) -> bytes:
    """A client's frame."""
    key = os.urandom(4)
    first = (0x80 if fin else 0) | rsv | opcode
    length = len(payload)
    if length < 126:
        head = bytes((first, 0x80 | length))
    elif length < 1 << 16:
        head = struct.pack("!BBH", first, 0x80 | 126, length)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, length)
    body = bytes(b ^ key[i % 4] for i, b in enumerate(payload))
    return head + key + body


class RawClient:
    """A websocket client without manners: bytes out, frames in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.head = b""

    @classmethod
    async def connect(
        cls, port: int, path: str = "/echo", *, tls: ssl.SSLContext | None = None, **more: Any
    ) -> "RawClient":
        client = await cls.open(port, path, tls=tls, **more)
        await client.handshake()
        assert client.head.startswith(b"HTTP/1.1 101"), client.head
        return client

    @classmethod
    async def open(
        cls,
        port: int,
        path: str,
        *,
        tls: ssl.SSLContext | None = None,
        headers: tuple[str, ...] = (),
        source: str = "127.0.0.1",
    ) -> "RawClient":
        """Send a handshake and do not wait for the answer."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, local_addr=(source, 0)
        )
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
            *headers,
        ]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        await writer.drain()
        return cls(reader, writer)

    async def handshake(self) -> None:
        async with asyncio.timeout(WITHIN):
            self.head = await self.reader.readuntil(b"\r\n\r\n")

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: opcode and payload."""
        async with asyncio.timeout(WITHIN):
            first, size = await self.reader.readexactly(2)
            assert size < 128, "a server must not mask"
            if size == 126:
                size = int.from_bytes(await self.reader.readexactly(2), "big")
            elif size == 127:
                size = int.from_bytes(await self.reader.readexactly(8), "big")
            return first & 0x0F, await self.reader.readexactly(size)

    async def text(self) -> bytes:
        """The next text message."""
        opcode, payload = await self.frame()
        assert opcode == 1, (opcode, payload)
        return payload

    async def echo(self, text: bytes) -> bytes:
        self.send(masked(1, text))
        return await self.text()

    async def closed_with(self) -> int:
        """The code of the close frame, answered as a client should, and then the end."""
        opcode, payload = await self.frame()
        while opcode != 8:
            opcode, payload = await self.frame()
        code = int.from_bytes(payload[:2], "big") if payload else 1005
        with contextlib.suppress(ConnectionError):
            self.send(masked(8, payload[:2]))
            async with asyncio.timeout(WITHIN):
                assert await self.reader.read() == b""
        self.drop()
        return code

    async def rest(self) -> bytes:
        """Everything until the end."""
        async with asyncio.timeout(WITHIN):
            rest = await self.reader.read()
        self.drop()
        return rest

    def drop(self) -> None:
        """End the connection without a word, at once even if the loop is held up."""
        with contextlib.suppress(OSError):
            self.writer.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self.writer.transport.abort()


__all__ = [
    "EchoPeer",
    "EchoServer",
    "RawClient",
    "close_frame",
    "masked",
    "ping_frame",
    "text_frame",
]
