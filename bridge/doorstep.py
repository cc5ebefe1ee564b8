"""Connections that have not asked for anything whole yet: how long, and how many, may stand there.

uvicorn waits for a request for ever. Here a request's head must be there within five seconds of its
beginning, its body within sixty, and of too many that wait the oldest is cut: whoever means it has
sent a request long before.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_SECONDS = 5.0
BODY_SECONDS = 60.0  # 8 MiB from a slow phone
WAITING_MOST = 4_096  # in one process
HEAD_BYTES = 64 << 10
TICK_SECONDS = 0.5


class Doorstep:
    """The connections of one server that owe a part of a request, each with its deadline."""

    def __init__(self) -> None:
        """Begin with none."""
        self._loop = asyncio.get_running_loop()
        self._deadlines: dict[asyncio.BaseTransport, float] = {}  # who came first is first
        self._timer: asyncio.TimerHandle | None = None
        self.cut = 0

    def __len__(self) -> int:
        """How many stand there."""
        return len(self._deadlines)

    def expect(self, transport: asyncio.BaseTransport, seconds: float) -> None:
        """Cut it unless it gives what it owes in time."""
        self._deadlines.pop(transport, None)
        self._deadlines[transport] = self._loop.time() + seconds
        if len(self._deadlines) > WAITING_MOST:
            self._cut(next(iter(self._deadlines)))
        if self._timer is None:
            self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def served(self, transport: asyncio.BaseTransport) -> None:
        """Wait for it no longer: it gave what it owed, or is gone."""
        self._deadlines.pop(transport, None)

    def _tick(self) -> None:
        now = self._loop.time()
        for transport in [one for one, end in self._deadlines.items() if end <= now]:
            self._cut(transport)
        again = bool(self._deadlines)
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick) if again else None

    def _cut(self, transport: asyncio.BaseTransport) -> None:
        del self._deadlines[transport]
        self.cut += 1
        transport.abort()  # type: ignore[attr-defined]


class RelayHttpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP connection, with a deadline for each request's head and body."""

    head_seconds: ClassVar[float] = HEAD_SECONDS
    _head = 0  # bytes of this request's

    @property
    def doorstep(self) -> Doorstep:
        """The doorstep of the server that this connection came to."""
        return doorstep_of(self.server_state)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self.doorstep.expect(transport, self.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing."""
        self.doorstep.served(self.transport)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to the websocket's own deadlines."""
        self.doorstep.served(self.transport)
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        """Expect the rest of the head."""
        super().on_message_begin()
        self._head = 0
        self.doorstep.expect(self.transport, self.head_seconds)

    def on_url(self, url: bytes) -> None:
        """Refuse an address without end."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Refuse a head without end."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Expect the body."""
        self.doorstep.expect(self.transport, BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect nothing until the next request begins."""
        self.doorstep.served(self.transport)
        super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > HEAD_BYTES:
            raise ValueError("the head is too large")  # the parser fails: 400


def doorstep_of(server: ServerState) -> Doorstep:
    """Give a server's doorstep."""
    found: Any = _doorsteps.get(server)
    if found is None:
        found = _doorsteps[server] = Doorstep()
    assert isinstance(found, Doorstep)
    return found


_doorsteps: WeakKeyDictionary[ServerState, Doorstep] = WeakKeyDictionary()
