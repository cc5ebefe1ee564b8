"""A client on lines of JSON-RPC: an editor on standard input and output, or one that attached.

What its first message says chooses its dialect: ACP v1, or ferret's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from agent_side.connector import Connector, Door
from agent_side.doors.editor import Editor
from agent_side.doors.exchange import Dialect, Exchange
from agent_side.doors.ferret import FerretEditor, speaks_ferret
from agent_side.doors.lines import ClientLines
from agent_side.doors.socket_lines import SocketLines
from bridge.protocol.jsonrpc import Payload

LEAVE_SECONDS = 3.0  # for prompts to end and requests to be answered when the client leaves


class _Client(Door, Dialect, Protocol):
    async def leave(self, seconds: float) -> None: ...


class Visit:
    """One client's stay at the connector."""

    def __init__(self, connector: Connector, write: Callable[[bytes], None], name: str) -> None:
        """Speak by ``write``; ``name``: of the door, as others see it."""
        self._connector = connector
        self._write = write
        self._name = name
        self._client: _Client | None = None
        self.exchange = Exchange(write, self._choose)

    async def leave(self) -> None:
        """Cancel the client's prompts, and answer what can be answered in a moment."""
        if self._client is not None:
            await self._client.leave(LEAVE_SECONDS)
        await self.exchange.settle(LEAVE_SECONDS)

    def close(self) -> None:
        """Be told nothing more."""
        if self._client is not None:
            self._connector.close_door(self._client)

    def _choose(self, params: Payload) -> Dialect:
        kind: Any = FerretEditor if speaks_ferret(params) else Editor
        client: _Client = kind(self._connector, self._write, self._name)
        self._client = client
        self._connector.open_door(client)
        return client


async def serve_lines(
    connector: Connector, lines: ClientLines | SocketLines, name: str = "editor"
) -> None:
    """Serve a client until it leaves."""
    visit = Visit(connector, lines.write, name)
    try:
        await lines.open(visit.exchange.received, visit.exchange.skipped)
        await lines.gone.wait()
        await visit.leave()
    finally:
        visit.close()
        await lines.close()
