"""This process's own standard input and output as lines of JSON-RPC, and nothing else on them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable

from agent_side.agents.lines import LineSplitter

LINE_LIMIT = 48 << 20  # bytes; editors send whole files and images in one line
UNREAD_LIMIT = 128 << 20  # bytes waiting for a client that does not read; then it counts as gone
FLUSH_SECONDS = 2.0  # for what is still to be written at the end
_CHUNK = 1 << 18


class ClientLines(asyncio.BaseProtocol):
    """Lines from a client and to it; ``gone`` is set when either direction has ended."""

    def __init__(self, source: int, sink: int) -> None:
        """Take over two open file descriptors."""
        self.gone = asyncio.Event()
        self._source = _pollable(source)
        self._sink = sink
        self._splitter = LineSplitter(LINE_LIMIT)
        self._waiting: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None
        self._written = asyncio.Event()
        self._written.set()

    async def open(self, on_line: Callable[[bytes], None], on_skip: Callable[[], None]) -> None:
        """Begin to read; ``on_skip`` is told of a line over the limit, which is dropped."""
        self._on_line, self._on_skip = on_line, on_skip
        loop = asyncio.get_running_loop()
        if not stat.S_ISREG(os.fstat(self._sink).st_mode):
            pipe = os.fdopen(self._sink, "wb", buffering=0)
            transport, _ = await loop.connect_write_pipe(lambda: self, pipe)
            transport.set_write_buffer_limits(0)  # so that resume_writing means: all is written
            self._transport = transport
        loop.add_reader(self._source, self._read)

    def write(self, message: bytes) -> None:
        """Send one message as a line; what is sent in one loop turn goes out in one write."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(one_line(message))

    async def close(self) -> None:
        """Write what is left, then let go of both descriptors."""
        self._stop_reading()
        self._flush()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._written.wait(), FLUSH_SECONDS)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
        self.gone.set()

    # What the event loop tells.

    def pause_writing(self) -> None:
        """Note that the client is behind."""
        self._written.clear()

    def resume_writing(self) -> None:
        """Note that the client has read everything."""
        self._written.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Note that the client reads no more."""
        self._written.set()
        self.gone.set()

    def _read(self) -> None:
        try:
            chunk = os.read(self._source, _CHUNK)
        except BlockingIOError:
            return
        except OSError:  # a terminal that went away
            chunk = b""
        skipped = self._splitter.skipped
        lines = self._splitter.feed(chunk) if chunk else [self._splitter.rest()]
        if not chunk:
            self._stop_reading()
        for line in lines:
            if line.strip():
                self._on_line(line)
        for _ in range(self._splitter.skipped - skipped):
            self._on_skip()
        if not chunk:
            self.gone.set()

    def _stop_reading(self) -> None:
        if self._source >= 0:
            asyncio.get_running_loop().remove_reader(self._source)
            os.close(self._source)
            self._source = -1

    def _flush(self) -> None:
        lines, self._waiting = b"".join(self._waiting), []
        if not lines:
            return
        if self._transport is None:
            _write_all(self._sink, lines)
        elif not self._transport.is_closing():
            self._transport.write(lines)
            if self._transport.get_write_buffer_size() > UNREAD_LIMIT:
                self._transport.abort()


def take_stdio() -> ClientLines:
    """Give this process's standard input and output, and point what else writes there elsewhere.

    From now on file descriptor 1 is standard error and 0 is empty, for us and for our children: a
    stray print cannot break the conversation.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    source, sink = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    os.dup2(2, 1)
    return ClientLines(source, sink)


def one_line(message: bytes) -> bytes:
    """Give a message as one line; between JSON's tokens any white space does."""
    if b"\n" in message:
        message = message.replace(b"\r", b" ").replace(b"\n", b" ")
    return message + b"\n"


def _pollable(source: int) -> int:
    if stat.S_ISFIFO(mode := os.fstat(source).st_mode) or stat.S_ISSOCK(mode) or os.isatty(source):
        return source
    reading, writing = os.pipe()
    threading.Thread(target=_pump, args=(source, writing), daemon=True).start()
    return reading


def _pump(source: int, sink: int) -> None:
    with contextlib.suppress(OSError):  # the reader left
        while chunk := os.read(source, _CHUNK):
            _write_all(sink, chunk)
    os.close(sink)
    os.close(source)


def _write_all(sink: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(sink, view) :]
