"""What one connector is asked over its uplink, and its answers."""

from __future__ import annotations

import asyncio
import itertools

import msgspec

from bridge.protocol import errors, jsonrpc
from bridge.protocol.errors import AgentUnavailable, Overloaded
from bridge.protocol.jsonrpc import Payload
from bridge.wire import Socket

AT_ONCE = 4  # its line has entries to carry too
IN_ALL = 32  # with those that wait
SILENT_SECONDS = 1.5  # without a byte while it is asked: the line is dead


class Inquiries:
    """Requests to one connector that are not answered yet."""

    def __init__(self, socket: Socket) -> None:
        """Ask over this socket."""
        self._socket = socket
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[msgspec.Raw]] = {}
        self._in_all = 0
        self._is_over = False

    async def ask(self, method: str, params: Payload) -> msgspec.Raw:
        """Give the answer; raises Overloaded, AgentUnavailable or what the connector refused."""
        if self._in_all >= IN_ALL:
            raise Overloaded("too much is asked of this machine at once; try again")
        self._in_all += 1
        try:
            async with self._turn:
                return await self._ask(method, params)
        finally:
            self._in_all -= 1

    def answered(self, response: jsonrpc.Response) -> None:
        """Take an answer; one that nobody waits for is dropped."""
        answer = self._open.get(response.id) if isinstance(response.id, int) else None
        if answer is None or answer.done():
            return
        if response.result is not None:
            answer.set_result(response.result)
        else:
            refused = jsonrpc.payload(response.error) if response.error else {}
            answer.set_exception(errors.read(refused))

    def end(self) -> None:
        """Fail what is open: the connection is gone."""
        self._is_over = True
        for answer in self._open.values():
            if not answer.done():
                answer.set_exception(AgentUnavailable("its machine went away meanwhile"))

    async def _ask(self, method: str, params: Payload) -> msgspec.Raw:
        if self._is_over:
            raise AgentUnavailable("its machine went away meanwhile")
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        self._socket.send(jsonrpc.request(number, method, params))
        try:
            while not answer.done():
                await asyncio.wait({answer}, timeout=SILENT_SECONDS)
                self._check_heard(answer)
            result: msgspec.Raw = answer.result()
            return result
        finally:
            del self._open[number]

    def _check_heard(self, answer: asyncio.Future[msgspec.Raw]) -> None:
        """Give up on a line that brings nothing at all; a slow one brings bytes."""
        quiet = asyncio.get_running_loop().time() - self._socket.last_heard
        if quiet > SILENT_SECONDS and not answer.done():
            raise AgentUnavailable("its machine does not answer")
