"""Open websockets that serve themselves, and the one timer and one flush of a process for all.

No task, no queue and no ASGI state per connection. What goes out is gathered over everything that
happens in one turn of the event loop and written once.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Protocol

from bridge.frames import Ending, FrameReader, close_frame, ping_frame, pong_frame, text_frame
from bridge.limits import Admission, Place
from bridge.protocol.close_codes import CloseCode

PING_AFTER_SECONDS = 20.0  # home routers drop idle TCP after about a minute
DEAD_AFTER_SECONDS = 20.0  # after an unanswered ping
CLOSING_SECONDS = 1.0  # for the other side's close frame; uvicorn waits 3 seconds in all
TICK_SECONDS = 1.0
WAVES = 10  # in which a process that ends sends its clients elsewhere
WAVE_SOCKETS = 20  # fewer are no storm
_LOST = 1006  # RFC 6455 section 7.4.1: no close frame came

logger = logging.getLogger(__name__)


class Peer(Protocol):
    """What owns a socket: an uplink or a dashboard."""

    def received(self, messages: list[bytes]) -> None:
        """Take the text messages of one read, in order."""

    def lost(self, code: int, reason: str) -> None:
        """Learn, once, that the socket is gone."""


class Accepted(Protocol):
    """What accepted a connection, and hands its transport over."""

    transport: asyncio.Transport


class Socket(asyncio.Protocol):
    """An accepted websocket."""

    __slots__ = (
        "_close",
        "_deadline",
        "_out",
        "_peer",
        "_pinged",
        "_reader",
        "_transport",
        "_wire",
        "last_heard",
        "place",
    )

    def __init__(
        self, wire: Wire, transport: asyncio.Transport, place: Place, frame_limit: int
    ) -> None:
        """Serve the transport from its place."""
        self.place = place
        self.last_heard = wire.loop.time()
        self._wire = wire
        self._transport = transport
        self._reader = FrameReader(frame_limit)
        self._peer: Peer | None = None
        self._out: list[bytes] = []  # frames of this loop turn
        self._close: tuple[int, str] | None = None  # how it ended, once it does
        self._deadline = 0.0  # loop time at which it is closed or cut; 0: none
        self._pinged = False

    # Sending.

    def write(self, frames: bytes) -> None:
        """Send what is framed already, with all else that goes out in this loop turn."""
        out = self._out
        if not out:
            dirty = self._wire.dirty
            if not dirty:
                self._wire.flush_soon()
            dirty.append(self)
        out.append(frames)

    def send(self, text: bytes) -> None:
        """Send one text message."""
        self.write(text_frame(text))

    @property
    def buffered(self) -> int:
        """Bytes that the client has not taken yet."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._out))

    def flush(self) -> None:
        """Write what was gathered."""
        out = self._out
        if out:
            self._out = []
            if self._close is None:
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    # Ending.

    @property
    def is_open(self) -> bool:
        """Whether neither side has begun to close it."""
        return self._close is None

    def close(self, code: CloseCode, reason: str = "") -> None:
        """Send what is gathered and a close frame, then wait a moment for the answer."""
        self._fail(code, reason or code.reason)

    def expect_within(self, seconds: float) -> None:
        """Close unless a message comes in time; the first one that comes lifts it."""
        self._deadline = self._wire.loop.time() + seconds

    def pause_reading(self) -> None:
        """Take no more bytes until told to go on."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        self._transport.resume_reading()

    def shutdown(self) -> None:
        """Tell the client that the relay restarts; uvicorn calls it when the server stops."""
        self.close(CloseCode.RESTARTING)

    # What the transport calls.

    def data_received(self, data: bytes) -> None:
        """Give the peer the messages in it and answer control frames."""
        self.last_heard = self._wire.loop.time()
        self._pinged = False
        messages, pings, ending = self._reader.feed(data)
        if self._close is not None:
            if ending is not None and not ending.failed:
                self._transport.close()  # both sides have said close
            return
        if messages:
            self._deadline = 0.0
            self._deliver(messages)
        if pings:
            self.write(pong_frame(pings[-1]))  # RFC 6455 5.5.3: only the latest need be answered
        if ending is not None:
            self._end(ending)

    def eof_received(self) -> None:
        """Let the transport close."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the peer."""
        del exc  # a reset and an end are the same to everybody
        self._wire.forget(self)
        self._out.clear()
        code, reason = self._close or (_LOST, "connection lost")
        self._close = code, reason
        peer, self._peer = self._peer, None
        if peer is not None:
            peer.lost(code, reason)

    # What the wire calls.

    def start(self, peer: Peer, early: bytes) -> None:
        """Serve a peer, from the bytes that came before it was there."""
        self._peer = peer
        self._transport.resume_reading()
        if early:
            self.data_received(early)

    def tick(self, now: float) -> None:
        """Keep deadlines, ping a silent client, cut a dead one."""
        if self._deadline and now >= self._deadline:
            self._past_deadline()
        elif now - self.last_heard >= PING_AFTER_SECONDS and self._close is None:
            if now - self.last_heard >= PING_AFTER_SECONDS + DEAD_AFTER_SECONDS:
                self._close = _LOST, "no answer to a ping"
                self._transport.abort()
            elif not self._pinged:
                self._pinged = True
                self.write(ping_frame())

    def _past_deadline(self) -> None:
        if self._close is None:
            self.close(CloseCode.BAD_REQUEST, "no message in time")
        else:
            self._transport.abort()

    def _deliver(self, messages: list[bytes]) -> None:
        peer = self._peer
        if peer is None:
            return
        try:
            peer.received(messages)
        except Exception:
            logger.exception("closing the connection of %s", self.place.address)
            self.close(CloseCode.INTERNAL)

    def _end(self, ending: Ending) -> None:
        if self._close is not None:
            return
        if ending.failed:
            self._fail(ending.code, ending.reason)
            if self._transport.can_write_eof():  # its answer could not be read any more
                self._transport.write_eof()
            return
        self.flush()
        self._close = ending.code, ending.reason
        self._transport.write(close_frame(ending.code))
        self._transport.close()

    def _fail(self, code: int, reason: str) -> None:
        if self._close is not None:
            return
        self.flush()
        self._close = code, reason
        self._deadline = self._wire.loop.time() + CLOSING_SECONDS
        if not self._transport.is_closing():
            self._transport.write(close_frame(code, reason))
            self._transport.resume_reading()


class Wire:
    """All sockets of one server: their one timer, their one flush per loop turn, their places."""

    def __init__(self, connections: set[Any], admission: Admission) -> None:
        """Keep the sockets in uvicorn's own set of connections too."""
        self.loop = asyncio.get_running_loop()
        self.admission = admission
        self._connections = connections
        self._sockets: set[Socket] = set()
        self.dirty: list[Socket] = []  # those with something to write in this loop turn
        self._timer: asyncio.TimerHandle | None = None

    def adopt(self, protocol: Accepted, place: Place, frame_limit: int) -> Socket:
        """Make a socket of an accepted connection."""
        socket = Socket(self, protocol.transport, place, frame_limit)
        self._connections.discard(protocol)
        self._connections.add(socket)
        self._sockets.add(socket)
        protocol.transport.set_protocol(socket)
        if self._timer is None:
            self._timer = self.loop.call_later(TICK_SECONDS, self._tick)
        return socket

    async def drain(self, seconds: float) -> None:
        """Let nobody in, and tell everybody in waves that the relay restarts."""
        self.admission.end()
        sockets = list(self._sockets)
        random.shuffle(sockets)  # connectors and dashboards alike in each wave
        waves = max(1, min(WAVES, len(sockets) // WAVE_SOCKETS))
        for number in range(waves):
            if number:
                await asyncio.sleep(seconds / (waves - 1))
            for socket in sockets[number::waves]:
                socket.shutdown()

    def forget(self, socket: Socket) -> None:
        """Give a lost socket's place to others."""
        self._connections.discard(socket)
        self._sockets.discard(socket)
        self.admission.release(socket.place)

    def flush_soon(self) -> None:
        """Flush the dirty sockets at the end of this loop turn."""
        self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        dirty, self.dirty = self.dirty, []
        for socket in dirty:
            socket.flush()

    def _tick(self) -> None:
        now = self.loop.time()
        for socket in tuple(self._sockets):
            socket.tick(now)
        again = self._sockets
        self._timer = self.loop.call_later(TICK_SECONDS, self._tick) if again else None
