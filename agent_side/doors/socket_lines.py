"""A client's lines over a private socket, as ClientLines has them over standard streams."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from agent_side.agents.lines import LineSplitter
from agent_side.doors.lines import LINE_LIMIT, UNREAD_LIMIT, one_line

_CHUNK = 1 << 18


class SocketLines:
    """Lines from a client and to it; ``gone`` is set when it has left."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak on a connection that is open."""
        self.gone = asyncio.Event()
        self._reader = reader
        self._writer = writer
        self._splitter = LineSplitter(LINE_LIMIT)
        self._reading: asyncio.Task[None] | None = None

    async def open(self, on_line: Callable[[bytes], None], on_skip: Callable[[], None]) -> None:
        """Begin to read; ``on_skip`` is told of a line over the limit, which is dropped."""
        self._reading = asyncio.create_task(self._read(on_line, on_skip))

    def write(self, message: bytes) -> None:
        """Send one message as a line; who does not read counts as gone."""
        self._writer.write(one_line(message))
        transport = self._writer.transport
        if transport.get_write_buffer_size() > UNREAD_LIMIT:
            transport.abort()

    def finish(self) -> None:
        """Say no more, and go on reading."""
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        """Write what is left and leave."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def _read(self, on_line: Callable[[bytes], None], on_skip: Callable[[], None]) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while chunk := await self._reader.read(_CHUNK):
                    skipped = self._splitter.skipped
                    for line in self._splitter.feed(chunk):
                        if line.strip():
                            on_line(line)
                    for _ in range(self._splitter.skipped - skipped):
                        on_skip()
        finally:
            self.gone.set()
