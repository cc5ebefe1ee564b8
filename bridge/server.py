"""The relay's process: its listening socket, uvicorn around the application, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from bridge.app import create_app
from bridge.doorstep import HEAD_SECONDS, RelayHttpProtocol
from bridge.relay import Relay
from bridge.settings import Settings
from bridge.websocket import RelayWebSocketProtocol, wire_of

logger = logging.getLogger(__name__)

WAVE_SECONDS = 1.0  # over which an ending process sends its clients elsewhere
GRACE_SECONDS = 1  # for requests under way; the whole end takes under 5 s
BACKLOG = 2048


class PortUnavailable(Exception):
    """The address cannot be listened on; the message says why and the way out."""


class RelayServer(uvicorn.Server):
    """uvicorn with resources that are open already, ended also by a background task that died."""

    def __init__(
        self,
        config: uvicorn.Config,
        relay: Relay,
        on_started: Callable[[RelayServer], None],
        parent: int | None,
    ) -> None:
        """Serve with an open relay; ``parent``: who starts another process when this ends."""
        super().__init__(config)
        self.relay = relay
        self._on_started = on_started
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Give every request the relay, then listen."""
        self.lifespan.state["relay"] = self.relay
        loop, config = asyncio.get_running_loop(), self.config
        self.servers = [
            await loop.create_server(
                self._make_protocol,
                sock=one,
                ssl=config.ssl,
                backlog=config.backlog,
                ssl_handshake_timeout=HEAD_SECONDS if config.ssl else None,
            )
            for one in sockets or []
        ]
        self.started = True
        gc.collect()
        gc.freeze()  # what is there now stays: no collection need look at it again
        self._on_started(self)

    async def on_tick(self, counter: int) -> bool:
        """Say whether it is time to end."""
        if self._parent is not None and os.getppid() != self._parent:
            logger.error("the process that started this one is gone; ending")
            return True
        return self.relay.tasks.failed is not None or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Be ready no longer, close websockets with 1012 in waves, wait for requests under way."""
        self.relay.admission.end()
        if self._parent is not None:  # others listen at the same address
            for server in self.servers:
                server.close()
        await wire_of(self.server_state, self.relay.admission).drain(WAVE_SECONDS)
        for stream in list(self.relay.streams):
            stream.end()
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


async def serve(
    settings: Settings,
    listener: socket.socket,
    on_started: Callable[[RelayServer], None] = lambda _server: None,
    *,
    parent: int | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; raises StoreUnavailable, OSError or RuntimeError."""
    app = create_app(settings)
    async with app.router.lifespan_context(app) as state:
        assert state is not None
        relay: Relay = state["relay"]
        server = RelayServer(uvicorn_config(app, relay), relay, on_started, parent)
        with _signals_end_quietly():
            await server.serve([listener])
    if relay.tasks.failed:
        raise RuntimeError(f"the task {relay.tasks.failed} died; the log says why")


def uvicorn_config(app: Any, relay: Relay) -> uvicorn.Config:
    """Give uvicorn what it needs: our protocol classes, no access log, nothing it would add."""
    settings = relay.settings
    return uvicorn.Config(
        app,
        loop="none",
        http=RelayHttpProtocol if sys.platform != "win32" else "h11",
        ws=RelayWebSocketProtocol.limited_to(relay.admission),
        ws_max_size=settings.uplink_frame_bytes,
        ws_per_message_deflate=False,
        lifespan="off",  # it is open already
        log_config=None,
        access_log=False,  # it would write query strings
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Bind and listen, alone or with others of this user; raises PortUnavailable."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        raise PortUnavailable(
            f"{host} is no address of this machine; choose another with --host or BRIDGE_HOST"
        ) from None
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise PortUnavailable(_why(error, host, port)) from None
    listener.setblocking(False)
    return listener


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use on {host}; choose another with --port or BRIDGE_PORT"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights this user lacks; choose one above 1023 with --port"
    return f"{host} is no address of this machine; choose another with --host or BRIDGE_HOST"


@contextmanager
def _signals_end_quietly() -> Iterator[None]:
    """Let uvicorn raise again, when it is done, the signals it caught: ending is no fault."""
    caught = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(one, lambda _number, _frame: None) for one in caught]
    try:
        yield
    finally:
        for one, handler in zip(caught, before, strict=True):
            signal.signal(one, handler)
