"""The relay as an ASGI application; there is no global one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypedDict

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket

from bridge.endpoints import (
    acp,
    audit,
    devices,
    docs,
    events,
    health,
    login,
    page,
    push,
    rest,
    rules,
    tokens,
    uplink,
)
from bridge.endpoints.body import sentence_of
from bridge.middleware import HEADERS, AccessLog, BodyLimit, SecurityHeaders
from bridge.protocol.errors import (
    BridgeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotFound,
)
from bridge.relay import Relay, open_relay
from bridge.settings import Settings


class State(TypedDict):
    """What the lifespan gives every request."""

    relay: Relay


def create_app(settings: Settings) -> FastAPI:
    """Build the application; its resources open in the lifespan."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[State]:
        async with open_relay(settings) as relay:
            yield {"relay": relay}

    app = FastAPI(
        title="Chimera Bridge",
        summary="The relay's HTTP API; websockets and the wire are in docs/protocol.md.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page needs scripts from elsewhere; ours needs none
        redoc_url=None,
    )
    _add_routes(app)
    _add_error_answers(app)
    # The last one added is the outermost.
    app.add_middleware(BodyLimit, limit=settings.http_body_bytes)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(AccessLog)
    return app


def _add_routes(app: FastAPI) -> None:
    # Starlette's own: a route of FastAPI's resolves dependencies that these have none of, and every
    # dashboard of a relay that restarts comes this way at once.
    for path, attach in (("/uplink", uplink.attach), ("/acp", acp.attach), ("/acp/ws", acp.attach)):
        app.router.routes.append(WebSocketRoute(path, attach))
    for module in (acp, login, rest, devices, rules, push, tokens, audit, events, health, docs):
        app.include_router(module.router)
    app.include_router(page.router)  # serves every other path


def _add_error_answers(app: FastAPI) -> None:
    @app.exception_handler(BridgeError)
    async def refused(connection: HTTPConnection, error: BridgeError) -> Response | None:
        return await _answer(connection, error)

    @app.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> Response | None:
        return await _answer(request, InvalidParams(sentence_of(error)))

    @app.exception_handler(HTTPException)
    async def not_served(request: Request, error: HTTPException) -> Response | None:
        response = await _answer(request, _as_bridge_error(request, error), error.status_code)
        if response is not None:
            response.headers.update(error.headers or {})  # 405 says which methods it allows
        return response

    @app.exception_handler(Exception)
    async def broken(_request: Request, _error: Exception) -> Response:
        response = error_response(InternalError("the relay broke; its log says where"))
        response.headers.update(HEADERS)  # this answer is made outside of the middleware
        return response


async def _answer(
    connection: HTTPConnection, error: BridgeError, status: int | None = None
) -> Response | None:
    response = error_response(error, status)
    _count(connection, error)
    if isinstance(connection, WebSocket):  # refused before the 101
        await connection.send_denial_response(response)
        return None
    return response


def error_response(error: BridgeError, status: int | None = None) -> Response:
    """Give the HTTP answer to an error: its code, sentence and reason."""
    body = {"code": error.code, "message": error.message, **error.data}
    headers = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if "retryAfter" in error.data:
        headers["retry-after"] = str(error.data["retryAfter"])
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["retry-after"] = "2"
    return JSONResponse({"error": body}, status or error.status, headers)


def _as_bridge_error(request: Request, error: HTTPException) -> BridgeError:
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return MethodNotFound(f"{request.method} is not served at {request.url.path[:80]}")
    if error.status_code == HTTPStatus.NOT_FOUND:
        return NotFound(f"there is nothing at {request.url.path[:80]}")
    return InvalidRequest(str(error.detail))


def _count(connection: HTTPConnection, error: BridgeError) -> None:
    relay = connection.scope.get("state", {}).get("relay")
    if relay is not None:
        relay.metrics.count("refused_total", reason=str(error.data["reason"]))
