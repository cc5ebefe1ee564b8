"""Bodies read strictly: no NaN, no lone surrogates, no key twice, and an error in our own words."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from bridge.protocol.errors import InvalidRequest, ParseError


class StrictRequest(Request):
    """A request whose JSON is read as strictly as a websocket's."""

    async def json(self) -> Any:
        """Decode the body; raises ParseError or InvalidRequest."""
        body = await self.body()
        try:
            value = msgspec.json.decode(body)
            json.loads(body, object_pairs_hook=_refuse_twice)
        except (ValueError, RecursionError) as error:
            raise ParseError(f"the body is not JSON: {error}") from None
        return value


class StrictRoute(APIRoute):
    """A route that takes its body from a StrictRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if request.method not in ("GET", "HEAD"):
                await _read(strict)
            return await handle(strict)

        return handle_strictly


def sentence_of(failure: RequestValidationError) -> str:
    """Say what is wrong with a request, naming the first place and value."""
    first = failure.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    message = first["msg"][:1].lower() + first["msg"][1:]
    if first["type"] == "missing":
        return f"{place or 'a JSON body'} is missing"
    return f"{place or 'the body'}: {message}, got {str(first.get('input'))[:80]!r}"


async def _read(request: StrictRequest) -> None:
    # FastAPI would turn our errors while reading into a sentence that names nothing.
    body = await request.body()
    if not body:
        return
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise InvalidRequest(f"the body must be application/json, not {kind[:80] or 'untyped'}")
    await request.json()


def _refuse_twice(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequest(f"the key {name[:80]!r} is there twice")
        seen.add(name)
