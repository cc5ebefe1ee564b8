"""What comes and goes over HTTP: JSON bodies in, answers and frames of a stream out."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from agent_side.agents.process import AgentError
from agent_side.doors.frames import Frame, Frames
from bridge.protocol import jsonrpc
from bridge.protocol.errors import BridgeError, InvalidParams, NotFound
from bridge.protocol.jsonrpc import Payload

BODY_LIMIT = 48 << 20  # bytes, as of an editor's line

Serve: TypeAlias = Callable[[Request], Coroutine[Any, Any, Response]]


class Failed(Exception):
    """A request that gets an error; ``word`` names it for programs."""

    def __init__(self, status: int, word: str, **more: Any) -> None:
        """Keep the answer."""
        super().__init__(word)
        self.response = JSONResponse({"error": word, **more}, status)


async def answered(serve: Serve, request: Request) -> Response:
    """Serve a request; what fails becomes an answer that says so."""
    try:
        return await serve(request)
    except Failed as failed:
        return failed.response
    except BridgeError as error:
        word = "session_not_found" if isinstance(error, NotFound) else error.reason
        return JSONResponse({"error": word, "detail": error.message}, error.status)
    except AgentError as error:
        return JSONResponse({"error": "agent_error", "detail": error.message}, 502)


async def body_of(request: Request) -> Payload:
    """Give the JSON object of a request; empty when there is none."""
    text = bytearray()
    async for part in request.stream():
        text += part
        if len(text) > BODY_LIMIT:
            raise Failed(413, "too_large")
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Failed(400, "invalid_json") from None
    if not isinstance(found, dict):
        raise Failed(400, "expected_json_object")
    return found


def folder(cwd: str) -> Path:
    """Read a folder's full path; raises InvalidParams."""
    if not Path(cwd).is_absolute() or "\0" in cwd:
        raise InvalidParams(f"working_dir must be an absolute path, not {cwd[:200]!r}")
    return Path(cwd)


def taken(frames: Frames, text: bytes) -> list[Frame]:
    """Give the frames of an entry's text."""
    message = jsonrpc.parse(text)
    if isinstance(message, jsonrpc.Response):
        return []
    return frames.take(message.method, jsonrpc.payload(message.params))


def sse(frame: Frame) -> bytes:
    """Write a frame as an event of a stream."""
    data = jsonrpc.encode(frame.data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (frame.number, frame.event.encode(), data)
