"""One local client's JSON-RPC: its lines become calls, and each request is answered once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from agent_side.agents.process import AgentError
from agent_side.doors.lines import LINE_LIMIT
from bridge.protocol import acp, jsonrpc
from bridge.protocol.errors import (
    BridgeError,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    ParseError,
    RequestCancelled,
)
from bridge.protocol.jsonrpc import Id, Payload

Call: TypeAlias = Callable[[Id, Payload], Awaitable[None] | None]

logger = logging.getLogger(__name__)


class Dialect(Protocol):
    """What a client's language means.

    Each of its calls writes its own answer: at once, later, or in what it gives to be awaited.
    """

    calls: Mapping[str, Call]

    async def initialize(self, id_: Id, params: Payload) -> None:
        """Greet the client."""

    def notified(self, method: str, params: Payload) -> None:
        """Take a notification; raises BridgeError."""

    def answered(self, response: jsonrpc.Response) -> None:
        """Take an answer to a question of ours."""


class Exchange:
    """Between a client's lines and its dialect, which its initialize chooses."""

    def __init__(
        self, write: Callable[[bytes], None], choose: Callable[[Payload], Dialect]
    ) -> None:
        """``write`` takes each message for the client; ``choose`` raises BridgeError."""
        self._write = write
        self._choose = choose
        self._dialect: Dialect | None = None
        self._tasks: dict[Id, asyncio.Task[None]] = {}
        self._early: list[bytes] | None = None  # lines that came while initialize was answered

    def received(self, line: bytes) -> None:
        """Take one line; while initialize is not answered, the next ones wait."""
        if self._early is not None:
            self._early.append(line)
            return
        try:
            if rb"\u" in line and jsonrpc.mend_surrogates(line) != line:
                raise ParseError("not JSON: a lone surrogate in a string")
            message = jsonrpc.parse_strict(line)
        except BridgeError as error:
            self._write(jsonrpc.error(error.data.pop("id", None), error))
            return
        if isinstance(message, jsonrpc.Request):
            self._requested(message)
        elif self._dialect is None:
            return
        elif isinstance(message, jsonrpc.Notification):
            self._notified(self._dialect, message)
        else:
            self._dialect.answered(message)

    def skipped(self) -> None:
        """Answer a line that was too long to take."""
        too_long = InvalidRequest(f"the line is longer than {LINE_LIMIT >> 20} MiB")
        self._write(jsonrpc.error(None, too_long))

    async def settle(self, seconds: float) -> None:
        """Answer what can be answered in that time, and drop the rest."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks:
                    await asyncio.wait(self._tasks.values())
        for task in self._tasks.values():
            task.cancel()

    def _requested(self, request: jsonrpc.Request) -> None:
        work: Awaitable[None] | None
        try:
            params = jsonrpc.payload(request.params)
            if request.method == acp.INITIALIZE:
                self._dialect = self._dialect or self._choose(params)
                self._early = []
                work = self._greet(self._dialect, request.id, params)
            elif self._dialect is None:
                raise InvalidRequest("the first request must be initialize")
            elif request.method in self._dialect.calls:
                work = self._dialect.calls[request.method](request.id, params)
            else:
                raise MethodNotFound(f"unknown method {request.method[:80]!r}")
        except BridgeError as error:
            self._write(jsonrpc.error(request.id, error))
            return
        if work is not None:
            self._spawn(request, work)

    def _spawn(self, request: jsonrpc.Request, work: Awaitable[None]) -> None:
        task = asyncio.create_task(self._finish(request, work))
        self._tasks[request.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.id, None))

    async def _greet(self, dialect: Dialect, id_: Id, params: Payload) -> None:
        try:
            await dialect.initialize(id_, params)
        finally:
            asyncio.get_running_loop().call_soon(self._take_early)

    def _take_early(self) -> None:
        early, self._early = self._early, None
        for line in early or ():
            self.received(line)

    async def _finish(self, request: jsonrpc.Request, work: Awaitable[None]) -> None:
        try:
            await work
        except (BridgeError, AgentError) as error:
            self._write(jsonrpc.error(request.id, error.as_object()))
        except asyncio.CancelledError:
            self._write(jsonrpc.error(request.id, RequestCancelled("cancelled by the client")))
            raise
        except Exception:
            logger.exception("%s of the editor failed", request.method)
            broken = InternalError("something broke in the connector; its log says what")
            self._write(jsonrpc.error(request.id, broken))

    def _notified(self, dialect: Dialect, message: jsonrpc.Notification) -> None:
        try:
            params = jsonrpc.payload(message.params)
            asked = params.get("requestId") if message.method == acp.CANCEL_REQUEST else None
            if isinstance(asked, int | str) and asked in self._tasks:
                self._tasks[asked].cancel()
            else:
                dialect.notified(message.method, params)
        except BridgeError as error:
            logger.warning("%s of the editor: %s", message.method, error.message)
