"""The relay's process: its listening socket, uvicorn around the application, and an orderly end."""

from __future__ import annotations

import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from bridge.app import create_app
from bridge.limits import SocketLimits
from bridge.relay import Relay
from bridge.settings import Settings
from bridge.websocket import RelayWebSocketProtocol

logger = logging.getLogger(__name__)

GRACE_SECONDS = 2  # for requests under way; the whole end takes under 5 s
BACKLOG = 2048


class PortUnavailable(Exception):
    """The address cannot be listened on; the message says why and the way out."""


class RelayServer(uvicorn.Server):
    """uvicorn with resources that are open already, ended also by a background task that died."""

    def __init__(
        self, config: uvicorn.Config, relay: Relay, on_started: Callable[[RelayServer], None]
    ) -> None:
        """Serve with an open relay."""
        super().__init__(config)
        self.relay = relay
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Give every request the relay, then listen."""
        self.lifespan.state["relay"] = self.relay
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is there now stays: no collection need look at it again
        self._on_started(self)

    async def on_tick(self, counter: int) -> bool:
        """Say whether it is time to end."""
        return self.relay.tasks.failed is not None or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, close websockets with 1012, wait for requests under way."""
        for stream in list(self.relay.streams):
            stream.end()
        await super().shutdown(sockets)


async def serve(
    settings: Settings,
    listener: socket.socket,
    on_started: Callable[[RelayServer], None] = lambda _server: None,
) -> None:
    """Serve until SIGTERM or SIGINT; raises StoreUnavailable, OSError or RuntimeError."""
    app = create_app(settings)
    async with app.router.lifespan_context(app) as state:
        assert state is not None
        relay: Relay = state["relay"]
        server = RelayServer(uvicorn_config(app, settings), relay, on_started)
        with _signals_end_quietly():
            await server.serve([listener])
    if relay.tasks.failed:
        raise RuntimeError(f"the task {relay.tasks.failed} died; the log says why")


def uvicorn_config(app: Any, settings: Settings) -> uvicorn.Config:
    """Give uvicorn what it needs: our websocket class, no access log, nothing it would add."""
    return uvicorn.Config(
        app,
        loop="none",
        http="httptools" if sys.platform != "win32" else "h11",
        ws=RelayWebSocketProtocol.limited_to(
            SocketLimits(settings.max_sockets, settings.max_sockets_per_address)
        ),
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


def listen(host: str, port: int) -> socket.socket:
    """Bind and listen; raises PortUnavailable with the way out."""
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
