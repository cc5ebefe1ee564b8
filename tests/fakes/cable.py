"""The network between two processes: it can be cut, held, slow, in pieces, or lose a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self
from urllib.parse import urlsplit

READ_BYTES = 1 << 16


class Tap:
    """Looks at what passes on one connection."""

    def up(self, data: bytes) -> None:
        """Look at what goes to the server."""

    def down(self, data: bytes) -> bool:
        """Look at what comes from it; False: the connection is lost instead."""
        return True


class Cable:
    """Carries bytes both ways to the first address that answers, as a load balancer does.

    Use it as ``async with Cable(url) as cable``.
    """

    def __init__(self, *urls: str, tap: Callable[[], Tap] = Tap) -> None:
        self.urls = list(urls)  # may be changed: who comes next goes there
        self.delay = 0.0  # seconds that each piece is under way
        self.piece = READ_BYTES  # bytes, at most, that are passed on at once
        self.rate = 0.0  # bytes a second, each way; 0: as they come
        self._tap = tap
        self._writers: set[asyncio.StreamWriter] = set()
        self._whole = asyncio.Event()
        self._whole.set()
        self._stranded: list[asyncio.Event] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", limit=READ_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        for whole in (self._whole, *self._stranded):
            whole.set()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{urlsplit(self.urls[0]).scheme}://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Lose all that is under way; who comes now waits until it is mended."""
        self._whole.clear()
        self.drop()

    def hold(self) -> None:
        """Be a black hole: nothing passes and nobody is told; what is under way comes later."""
        self._whole.clear()

    def strand(self) -> None:
        """Be a black hole, for good, to those who are connected; who comes now is served."""
        self.hold()
        self._stranded.append(self._whole)
        self._whole = asyncio.Event()
        self.mend()

    def mend(self) -> None:
        self._whole.set()

    def drop(self) -> None:
        """End every connection; who comes now is served."""
        for writer in self._writers:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._whole.wait()
            there, away = await self._reach()
        except OSError:
            writer.transport.abort()
            return
        finally:
            self._writers.discard(writer)
        both, tap = {writer, away}, self._tap()
        self._writers |= both
        async with asyncio.TaskGroup() as ways:
            ways.create_task(self._copy(reader, away, lambda data: tap.up(data) is None))
            ways.create_task(self._copy(there, writer, tap.down))
        self._writers -= both

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for url in self.urls:
            to = urlsplit(url)
            try:
                return await asyncio.open_connection(to.hostname, to.port, limit=READ_BYTES)
            except OSError:
                continue
        raise ConnectionRefusedError

    async def _copy(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        passes: Callable[[bytes], bool],
    ) -> None:
        whole = self._whole
        try:
            while sent := await reader.read(self.piece):
                await whole.wait()
                if not passes(sent):
                    writer.transport.abort()
                    return
                if self.delay or self.rate:
                    await asyncio.sleep(self.delay + (len(sent) / self.rate if self.rate else 0))
                writer.write(sent)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()
