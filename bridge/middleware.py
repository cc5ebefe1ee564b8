"""What wraps every request: security headers, the access log, the bound on bodies."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.protocol.errors import MessageTooBig

logger = logging.getLogger("bridge.access")

CLOSED_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "content-security-policy": CLOSED_POLICY,
    "cache-control": "no-store",
}
STRICT_TRANSPORT = "max-age=31536000"
_SERVER_ERROR = 500
_PROBES = frozenset({"/healthz", "/readyz", "/metrics"})  # asked every few seconds, for ever
_PATH_LIMIT = 200  # characters of a path in a log line


class SecurityHeaders:
    """Adds the headers that keep browsers strict, unless the response has set its own."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if scope["scheme"] in ("https", "wss"):
                    headers.setdefault("strict-transport-security", STRICT_TRANSPORT)
            await send(message)

        await self._app(scope, receive, send_with_headers)


class AccessLog:
    """Writes one line a request: method, path without its query, status, time, address."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 101 if scope["type"] == "websocket" else _SERVER_ERROR

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            _write(scope, status, time.perf_counter() - began)


class BodyLimit:
    """Refuses bodies above a number of bytes, told or counted."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        """Wrap an application."""
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        taken = 0

        async def receive_within_limit() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise MessageTooBig(f"the body is larger than {self._limit} bytes")
            return message

        await self._app(scope, receive_within_limit, send)


def _write(scope: Scope, status: int, seconds: float) -> None:
    client = scope.get("client") or ("-", 0)
    route = scope.get("route")
    template = getattr(route, "path", "unknown")
    relay = scope.get("state", {}).get("relay")
    if relay is not None and scope["type"] == "http":
        relay.metrics.count("http_requests_total", route=template, status=str(status))
    method = scope.get("method", "WEBSOCKET")
    level = logging.DEBUG if template in _PROBES else logging.INFO
    level = logging.WARNING if status >= _SERVER_ERROR else level
    facts = {"status": status, "ms": round(seconds * 1000, 1), "client": client[0]}
    logger.log(level, "%s %s", method, scope["path"][:_PATH_LIMIT], extra=facts)
