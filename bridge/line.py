"""A client for Redis whose calls all share one connection.

What is asked in one turn of the event loop goes out as one write, and the replies come back in the
order of the calls: no pool, no lock, no task switch for a call that others follow. redis-py itself
connects, signs in and finds the master; it takes a connection off a pool for every call, at ten
times the cost. Commands that block belong to a client of their own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import ConnectionPool
from redis.exceptions import (
    ConnectionError,  # noqa: A004 (redis-py's is another than Python's)
    InvalidResponse,
    ReadOnlyError,
    TimeoutError,  # noqa: A004
)

Command = tuple[tuple[Any, ...], dict[str, Any]]  # arguments, and options of its reply's callback

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2  # seconds before what was lost is sent again
_NOTHING = object()


class LineClient(Redis):
    """A ``redis.asyncio.Redis`` that uses its pool only to make connections.

    A call whose connection was lost is sent again as often as the pool's ``retry`` says.
    """

    def __init__(self, *, connection_pool: ConnectionPool) -> None:
        """Connect when first used, as the pool does."""
        super().__init__(connection_pool=connection_pool)
        options = connection_pool.connection_kwargs
        self._read_seconds: float = options["socket_timeout"]
        self._retries: int = options["retry"].get_retries()
        self._line: Line | None = None
        self._connecting = asyncio.Lock()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command; raises what Redis or the connection raised."""
        reply = (await self.ask([(args, options)]))[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, transaction: bool = False, shard_hint: Any = None) -> LinePipeline:  # noqa: FBT001, FBT002
        """Gather commands that go out together."""
        del shard_hint
        return LinePipeline(self, transaction=transaction)

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands; gives each one's reply, or the error that Redis answered."""
        packed = b"".join([_packed(args) for args, _ in commands])
        failures = 0
        while True:
            line = self._line
            if line is None or not line.is_open:
                line = await self._connect()
            try:
                replies = await line.ask(packed, len(commands))
            except (ConnectionError, TimeoutError):
                if failures == self._retries:
                    raise
                await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures))
                failures += 1
            else:
                return [self._read(*each) for each in zip(commands, replies, strict=True)]

    async def aclose(self, close_connection_pool: bool | None = None) -> None:  # noqa: FBT001
        """Close the connection."""
        if self._line is not None:
            self._line.cut(ConnectionError("closed"))
        await super().aclose(close_connection_pool)

    def _read(self, command: Command, reply: Any) -> Any:
        if isinstance(reply, Exception):
            return reply
        (name, *_), options = command
        callback = self.response_callbacks.get(name)
        if callback is None:
            return reply
        options.pop("keys", None)  # for redis-py's cache
        return callback(reply, **options)

    async def _connect(self) -> Line:
        async with self._connecting:
            if self._line is None or not self._line.is_open:
                connection = self.connection_pool.make_connection()
                try:
                    await connection.connect()
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                self._line = Line(connection, self._read_seconds)
            return self._line


class LinePipeline(Pipeline):
    """Commands that are sent together, between none of others."""

    def __init__(self, client: LineClient, *, transaction: bool) -> None:
        """Begin with none."""
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client

    async def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002
        """Send them and give their replies, in order.

        A WAIT goes over the pool: it would keep everybody behind it waiting.
        """
        stack: Any = self.command_stack
        if self.is_transaction or any(args[0] == "WAIT" for args, _ in stack):
            return await super().execute(raise_on_error)
        self.command_stack = []
        replies = await self._client.ask(stack) if stack else []
        if raise_on_error:
            self.raise_first_error(stack, replies)
        return replies


def _packed(args: tuple[Any, ...]) -> bytes:
    name = args[0]
    if " " in name:  # as redis-py names those of two words
        args = (*name.split(), *args[1:])
    packed: bytes = hiredis.pack_command(args)
    return packed


class _Asked(NamedTuple):
    """Calls that went out together, and the replies that they have by now."""

    answer: asyncio.Future[list[Any]]
    wanted: int
    replies: list[Any]


class Line(asyncio.Protocol):
    """One connection, taken over from redis-py once it is signed in."""

    def __init__(self, connection: Any, read_seconds: float) -> None:
        """Cut it when a reply takes longer than that."""
        self.is_open = True
        self._loop = asyncio.get_running_loop()
        self._connection = connection  # it warns when it is dropped unclosed
        self._transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 (no other way)
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=BaseParser.parse_error,
            notEnoughData=_NOTHING,
        )
        self._read_seconds = read_seconds
        self._heard_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._waiting: deque[_Asked] = deque()
        self._transport.set_protocol(self)

    def ask(self, packed: bytes, count: int) -> asyncio.Future[list[Any]]:
        """Send commands and give their replies to come, errors of Redis among them."""
        asked = _Asked(self._loop.create_future(), count, [])
        if not self._waiting:
            self._heard_at = self._loop.time()
            self._timer = self._timer or self._loop.call_later(self._read_seconds, self._look)
        self._waiting.append(asked)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed)
        return asked.answer

    def cut(self, error: Exception) -> None:
        """End it; whoever waits gets the error."""
        self.is_open = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection._close()  # noqa: SLF001 (disconnect() waits)
        self._transport.abort()
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(error)

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        """Give the replies to whom they belong."""
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _NOTHING:
                self._take(reply)
        except (InvalidResponse, IndexError) as error:  # a reply that nobody asked for
            self.cut(ConnectionError(f"redis answered what is no reply: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        self.cut(ConnectionError(f"connection lost: {exc or 'closed by redis'}"))

    def _take(self, reply: Any) -> None:
        asked = self._waiting[0]
        asked.replies.append(reply)
        if isinstance(reply, ReadOnlyError):
            self.is_open = False  # it leads to a replica now: the next call looks for the master
        if len(asked.replies) < asked.wanted:
            return
        self._waiting.popleft()
        if not asked.answer.done():
            asked.answer.set_result(asked.replies)
        if not self.is_open and not self._waiting:
            self.cut(ConnectionError("replaced"))

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def _look(self) -> None:
        """Cut a line whose replies stay away; one timer, only while somebody waits."""
        self._timer = None
        if not self._waiting:
            return
        left = self._heard_at + self._read_seconds - self._loop.time()
        if left <= 0:
            self.cut(TimeoutError("timeout reading from redis"))
        else:
            self._timer = self._loop.call_later(left, self._look)
