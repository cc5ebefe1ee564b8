"""A private way into a running connector, for its owner's other commands.

The connector listens on loopback; the port and a secret stand in its state folder, which only the
owner can read. Each side writes JSON lines; the first one from the other side holds the secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from agent_side.doors.socket_lines import SocketLines
from agent_side.folder import write_safely

FILE = "side_door.json"
LOOPBACK = "127.0.0.1"
LINE_LIMIT = 1 << 23  # bytes; receipts of large turns are long
OPEN_SECONDS = 5.0


class Closed(Exception):
    """No connector listens there."""


class _Way(msgspec.Struct, frozen=True):
    port: int
    secret: str


class Talk:
    """One conversation of JSON lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak on a connection that is open."""
        self._reader = reader
        self._writer = writer

    def say(self, said: dict[str, Any]) -> None:
        """Send a line."""
        self._writer.write(msgspec.json.encode(said) + b"\n")

    async def heard(self) -> dict[str, Any] | None:
        """Wait for a line; None: the other side has left."""
        try:
            line = await self._reader.readline()
            found = msgspec.json.decode(line) if line.endswith(b"\n") else None
        except (msgspec.DecodeError, ValueError, ConnectionError):
            return None
        return found if isinstance(found, dict) else None

    def lines(self) -> SocketLines:
        """Give what follows as an editor's lines; nothing else is heard or said from then on."""
        return SocketLines(self._reader, self._writer)

    async def close(self) -> None:
        """Leave."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


class SideDoor:
    """The connector's end."""

    def __init__(
        self, folder: Path, serve: Callable[[Talk, dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Serve who knows the secret; ``serve`` gets the first line."""
        self._path = folder / FILE
        self._serve = serve
        self._secret = secrets.token_hex(16)
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen on a free port; raises OSError."""
        listening = socket.create_server((LOOPBACK, 0))  # awaits nothing that could be cancelled
        port = listening.getsockname()[1]
        try:
            self._server = await asyncio.start_server(self._take, sock=listening, limit=LINE_LIMIT)
        except BaseException:
            listening.close()
            raise
        self._path.touch(mode=0o600)
        write_safely(self._path, _Way(port, self._secret))
        self._path.chmod(0o600)

    def close(self) -> None:
        """Listen no longer."""
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = Talk(reader, writer)
        try:
            first = await talk.heard() or {}
            if hmac.compare_digest(str(first.get("secret")).encode(), self._secret.encode()):
                await self._serve(talk, first)
        finally:
            await talk.close()


@contextlib.asynccontextmanager
async def knock(folder: Path, wish: str) -> AsyncIterator[Talk]:
    """Come to the connector of a state folder with a wish; raises Closed."""
    try:
        way = msgspec.json.decode((folder / FILE).read_bytes(), type=_Way)
        async with asyncio.timeout(OPEN_SECONDS):
            reader, writer = await asyncio.open_connection(LOOPBACK, way.port, limit=LINE_LIMIT)
    except (OSError, msgspec.DecodeError, TimeoutError):
        raise Closed(f"no connector runs with the state in {folder}") from None
    talk = Talk(reader, writer)
    talk.say({"secret": way.secret, "wish": wish})
    try:
        yield talk
    finally:
        await talk.close()
