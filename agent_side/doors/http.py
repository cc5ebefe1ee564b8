"""The HTTP door: the session routes of ferret's server, with events as a stream.

It stands on the same sessions as every other door. Imported only when it is asked for: nothing of
a web server belongs into the start of a connector without one.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from itertools import islice

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from agent_side.connector import Connector, local_origin
from agent_side.doors import transcript
from agent_side.doors.bodies import Failed, Serve, answered, body_of, folder, sse, taken
from agent_side.doors.decisions import answer_for
from agent_side.doors.frames import IDE_KINDS, Frame, Frames
from agent_side.doors.gate import Gate, HttpPlace
from agent_side.doors.prompts import Prompts
from agent_side.doors.streams import Streams
from agent_side.sessions import Session
from bridge.protocol.cursor import START
from bridge.protocol.errors import NotFound
from bridge.protocol.jsonrpc import Payload

NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)  # of a frame
PAGE = 500  # entries of a stream, between which others get their turn
KEEP_ALIVE_SECONDS = 15.0  # between comments in a stream in which nothing happens
LEAVE_SECONDS = 3.0


class HttpDoor:
    """All callers of one HTTP address."""

    def __init__(self, connector: Connector, place: HttpPlace) -> None:
        """Serve nobody before ``app`` is run."""
        self._connector = connector
        self._place = place
        self._gate = Gate(place)
        self._origin = local_origin("http")
        self._prompts = Prompts(connector, self._origin)
        self._closed: set[str] = set()  # sessions that a caller has left for good
        self.streams = Streams()

    def app(self) -> Starlette:
        """Give the application."""
        session = "/session/{id}"
        return Starlette(
            routes=[
                Route("/healthz", _health),
                Route("/session", self._for_owner(self._create), methods=["POST"]),
                Route("/session", self._for_owner(self._ids)),
                Route("/sessions", self._for_owner(self._list)),
                Route("/tool/approve", self._for_owner(self._approve), methods=["POST"]),
                Route(session, self._in_session(self._get)),
                Route(session, self._in_session(self._delete), methods=["DELETE"]),
                Route(f"{session}/message", self._in_session(self._message), methods=["POST"]),
                Route(f"{session}/turn", self._in_session(self._message), methods=["POST"]),
                Route(f"{session}/cancel", self._in_session(self._cancel), methods=["POST"]),
                Route(f"{session}/rotate-token", self._in_session(self._rotate), methods=["POST"]),
                Route(f"{session}/events", self._in_session(self._events)),
                Route(f"{session}/transcript.{{form}}", self._in_session(self._transcript)),
            ]
        )

    async def leave(self) -> None:
        """End the streams and the prompts."""
        self.streams.end()
        await self._prompts.leave(LEAVE_SECONDS)

    # Who may.

    def _for_owner(self, serve: Serve) -> Serve:
        return self._guarded(serve, lambda request: self._gate.is_owner(_shown(request)))

    def _in_session(self, serve: Serve) -> Serve:
        def may(request: Request) -> bool:
            return self._gate.may_enter(_shown(request), request.path_params["id"])

        return self._guarded(serve, may)

    def _guarded(self, serve: Serve, may: Callable[[Request], bool]) -> Serve:
        async def served(request: Request) -> Response:
            headers = request.headers
            if not self._gate.is_ours(headers.get("host", ""), headers.get("origin")):
                return JSONResponse({"error": "foreign_origin"}, 403)
            if not may(request):
                return JSONResponse({"error": "unauthorized"}, 401)
            return await answered(serve, request)

        return served

    # Routes.

    async def _create(self, request: Request) -> Response:
        body = await body_of(request)
        cwd = str(body.get("working_dir") or body.get("cwd") or self._connector.cwd)
        opened = await self._connector.new_session(folder(cwd), self._origin)
        token = self._gate.issue(opened.session.id)
        return JSONResponse({**self._about(opened.session), "session_token": token}, 201)

    async def _ids(self, _request: Request) -> Response:
        return JSONResponse({"sessions": [session.id for session in self._sessions()]})

    async def _list(self, _request: Request) -> Response:
        listed = [self._row(session) for session in self._sessions()]
        listed.sort(key=lambda row: float(row["last_touched"]), reverse=True)
        return JSONResponse({"sessions": listed})

    async def _get(self, request: Request) -> Response:
        return JSONResponse(self._row(self._session(request)))

    async def _delete(self, request: Request) -> Response:
        session = self._session(request)
        self._connector.cancel(session.id, self._origin)
        self._closed.add(session.id)
        self._gate.forget(session.id)
        self.streams.end(session.id)
        return Response(status_code=204)

    async def _message(self, request: Request) -> Response:
        session, body = self._session(request), await body_of(request)
        text = body.get("text") or body.get("message")
        if not isinstance(text, str):
            raise Failed(400, "missing_text")
        prompt = [{"type": "text", "text": text}]
        message_id = self._prompts.submit(session.id, prompt, lambda _end: None)
        return JSONResponse({"message_id": message_id}, 202)

    async def _cancel(self, request: Request) -> Response:
        self._connector.cancel(self._session(request).id, self._origin)
        return Response(status_code=204)

    async def _rotate(self, request: Request) -> Response:
        session = self._session(request)
        if not self._gate.is_owner(_shown(request)):
            raise Failed(403, "admin_only")
        return JSONResponse({"session_token": self._gate.issue(session.id)})

    async def _approve(self, request: Request) -> Response:
        body = await body_of(request)
        session_id, id_ = body.get("session_id"), body.get("permission_id")
        if not session_id or not id_:
            raise Failed(400, "missing_session_id_or_permission_id")
        question = self._connector.questions.get(str(id_))
        if question is None or question.session_id != session_id:
            raise Failed(404, "permission_not_found")
        approved = body.get("approved") is True
        word = str(body.get("decision") or ("allow" if approved else "deny"))
        answer = answer_for(question, word, body.get("content"))
        self._connector.answer(question.id, answer, self._origin)
        return JSONResponse({"resolved": True, "approved": word in ("allow", "always")})

    async def _events(self, request: Request) -> Response:
        session = self._session(request)
        given = request.headers.get("last-event-id", "").strip()
        after = int(given) if NUMBER.fullmatch(given) else 0  # as if there were none
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        stream = self._stream(session.id, after)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _transcript(self, request: Request) -> Response:
        session, form = self._session(request), request.path_params["form"]
        frames, translated = Frames(), list[Frame]()
        for _, text in self._connector.entries(session.id):
            translated += taken(frames, text)
        said, title = transcript.rows(translated), session.title or session.id
        if form == "json":
            return JSONResponse({**self._row(session), "title": title, "rows": said})
        if form == "md":
            return PlainTextResponse(transcript.markdown(title, said), media_type="text/markdown")
        if form != "html":
            raise Failed(404, "not_found", path=request.url.path)
        nothing = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(transcript.page(title, said), headers=nothing)

    # Inside.

    async def _stream(self, session_id: str, after: int) -> AsyncIterator[bytes]:
        """Give a session's frames after a number, then those that come."""
        frames, cursor = Frames(), START
        with self.streams.watch(session_id) as watch:
            while True:
                page = list(islice(self._connector.entries(session_id, cursor), PAGE))
                cursor = page[-1][0] if page else cursor
                for _, text in page:
                    for frame in self._shown(taken(frames, text), after):
                        yield sse(frame)
                if len(page) == PAGE:
                    await asyncio.sleep(0)
                    continue
                if after > frames.count:  # of another session, or of a log that is gone
                    yield sse(Frame(frames.count, "gap", {"reason": "unknown_event_id"}))
                    after = 0
                if watch.ended:
                    return
                if not await watch.changed(KEEP_ALIVE_SECONDS):
                    yield b": keep-alive\n\n"

    def _shown(self, frames: list[Frame], after: int) -> Iterator[Frame]:
        for frame in frames:
            if frame.number > after and (self._place.ide_schema or frame.event not in IDE_KINDS):
                yield frame

    def _sessions(self) -> list[Session]:
        return [s for s in self._connector.sessions.values() if s.id not in self._closed]

    def _session(self, request: Request) -> Session:
        session_id = request.path_params["id"]
        if session_id in self._closed:
            raise NotFound(f"no session {session_id[:80]!r}")
        return self._connector.session(session_id)

    def _about(self, session: Session) -> Payload:
        created = session.facts.created_at / 1000
        return {"session_id": session.id, "working_dir": str(session.cwd), "created_at": created}

    def _row(self, session: Session) -> Payload:
        count, last = self._connector.extent(session.id)
        touched = max(session.facts.counter, session.facts.created_at) / 1000
        more = {"last_touched": touched, "event_count": count, "state": session.state}
        return {**self._about(session), **more, "cursor": str(last)}


async def serve_http(
    connector: Connector, place: HttpPlace, on_open: Callable[[str], None]
) -> None:
    """Serve until cancelled, ``on_open`` is told the address; raises OSError when it is taken."""
    door = HttpDoor(connector, place)
    config = uvicorn.Config(
        door.app(),
        host=place.host,
        port=place.port,
        log_level="warning",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=int(LEAVE_SECONDS),
        h11_max_incomplete_event_size=1 << 16,
    )
    listening = _bound(place)
    server = _Server(config)
    connector.open_door(door.streams)
    on_open(replace(place, port=listening.getsockname()[1]).url)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    finally:
        connector.close_door(door.streams)
        await door.leave()
        server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        listening.close()


class _Server(uvicorn.Server):
    """Leaves the process's signals to the connector."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bound(place: HttpPlace) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((place.host, place.port))
    except OSError:
        listening.close()
        raise
    return listening


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def _shown(request: Request) -> str:
    return request.headers.get("authorization", "")
