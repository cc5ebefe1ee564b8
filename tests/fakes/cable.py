"""The network between a process and the relay; it can be cut, and it can be slow to come back."""

from __future__ import annotations

import asyncio
from typing import Self
from urllib.parse import urlsplit


class Cable:
    """Carries bytes both ways to an address; use it as ``async with Cable(url) as cable``."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = asyncio.Event()
        self._whole.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1")
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        self._whole.set()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{self._to.scheme}://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Lose all that is under way; who comes now waits until it is mended."""
        self._whole.clear()
        for writer in self._writers:
            writer.transport.abort()

    def mend(self) -> None:
        self._whole.set()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        there, away = await asyncio.open_connection(self._to.hostname, self._to.port)
        self._writers |= {writer, away}
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._copy(reader, away))
            ways.create_task(self._copy(there, writer))
        self._writers -= {writer, away}

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while sent := await reader.read(1 << 16):
                writer.write(sent)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
