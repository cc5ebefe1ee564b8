"""A session's log as server-sent events: history after a cursor, then live, or an explicit gap."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from bridge.endpoints import SIGNED_IN, TheRelay, Viewer, shapes
from bridge.endpoints.rest import SessionId
from bridge.hub import Item
from bridge.identity import Identity
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import BridgeError, Overloaded
from bridge.relay import Relay
from bridge.subscriber import Subscriber

KEEPALIVE_SECONDS = 15.0  # proxies cut a silent response after 30 to 60 s
LONGEST_SECONDS = 3600.0  # then the reader comes back, and is asked again who it is

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/api", tags=["rest"], dependencies=SIGNED_IN)


class EventStream:
    """What one reader has not been sent yet; the hub fills it, the response empties it."""

    wants_text = True

    def __init__(self) -> None:
        """Begin empty."""
        self._waiting: deque[bytes] = deque()
        self._buffered = 0
        self._filled = asyncio.Event()
        self._ended = False

    # What the hub calls.

    @property
    def buffered(self) -> int:
        """Bytes not yet taken."""
        return self._buffered

    def texts(self, session_id: str, items: Sequence[Item]) -> None:
        """Take entries in order."""
        del session_id  # the only one it is subscribed to
        self._put(
            b"".join(
                format_sse_event(data_str=item.text.decode(), event="entry", id=str(item.cursor))
                for item in items
            )
        )

    def gap(self, session_id: str, held_from: Cursor, reason: str) -> None:
        """Say that entries are missing before what follows."""
        del session_id
        data = json.dumps({"from": str(held_from), "reason": reason})
        self._put(format_sse_event(data_str=data, event="gap"))

    def too_slow(self) -> None:
        """End: the reader may come back with its Last-Event-ID."""
        self.end()

    # What the response calls.

    def end(self) -> None:
        """Let the response end when it has sent what waits."""
        self._ended = True
        self._filled.set()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Give what waits, and a comment when nothing did for a while."""
        while self._waiting or not self._ended:
            if not self._waiting and not await self._wait():
                yield KEEPALIVE_COMMENT
            elif self._waiting:
                taken = b"".join(self._waiting)
                self._waiting.clear()
                yield taken  # what is sent counts as waiting until it is
                self._buffered -= len(taken)

    async def _wait(self) -> bool:
        self._filled.clear()
        try:
            async with asyncio.timeout(KEEPALIVE_SECONDS):
                await self._filled.wait()
        except TimeoutError:
            return False
        return True

    def _put(self, event: bytes) -> None:
        self._waiting.append(event)
        self._buffered += len(event)
        self._filled.set()


@router.get(
    "/sessions/{id}/events",
    response_class=Response,
    responses={
        200: {
            "description": "events `entry` (id: its cursor, data: the entry) and `gap`",
            "content": {"text/event-stream": {}},
        },
        404: {"model": shapes.Failure, "description": "there is no such session"},
        **shapes.ANY_FAILURE,
    },
)
async def events(
    relay: TheRelay,
    viewer: Viewer,
    session_id: SessionId,
    after: Annotated[str | None, Query(description="begin after this cursor")] = None,
    last_event_id: Annotated[str | None, Header(description="the same, as browsers say it")] = None,
) -> Response:
    """Stream a session's log: what is held after the cursor, then what comes."""
    await relay.sessions.get(viewer.tenant, session_id)  # raises NotFound
    begin = last_event_id or after
    cursor = Cursor.parse(begin) if begin else START
    if len(relay.streams) >= relay.settings.max_event_streams:
        raise Overloaded("this relay holds all the event streams it may; try later")
    body = _stream(relay, viewer, session_id, cursor)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(body, headers=headers, media_type="text/event-stream")


async def _stream(
    relay: Relay, viewer: Identity, session_id: str, after: Cursor
) -> AsyncIterator[bytes]:
    stream = EventStream()
    subscriber = Subscriber(
        relay.hub.channel(viewer.tenant, session_id), stream, after, history=True
    )
    filling = asyncio.create_task(_fill(stream, subscriber, relay))
    stop_watching = relay.identities.watch(viewer.token_id, stream.end)
    # Or a revocation in this tenant would not wake a process that has no dashboard of it.
    stop_listening = await relay.changes.listen(viewer.tenant, lambda _: None)
    end = _end_when_expired(stream, viewer)
    relay.streams.add(stream)
    try:
        yield KEEPALIVE_COMMENT  # the headers go out although nothing is held
        async for chunk in stream.chunks():
            yield chunk
    finally:
        relay.streams.discard(stream)
        stop_watching()
        stop_listening()
        end.cancel()
        subscriber.leave()
        filling.cancel()


async def _fill(stream: EventStream, subscriber: Subscriber, relay: Relay) -> None:
    # A task of its own: it waits until the response has taken what came before.
    try:
        await subscriber.start(relay.log)
    except BridgeError as error:
        logger.warning("an event stream ended: %s", error)
        stream.end()


def _end_when_expired(stream: EventStream, viewer: Identity) -> asyncio.TimerHandle:
    left = LONGEST_SECONDS
    if viewer.expires_at is not None:
        left = min(left, viewer.expires_at / 1000 - time.time())
    return asyncio.get_running_loop().call_later(left, stream.end)
