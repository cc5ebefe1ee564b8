"""The relay's sockets and hub without identity and store: what peers that keep nothing do.

Entries are checked as the uplink checks them and fanned out by the product's own hub; there is no
log behind it, so it begins empty and nobody can come back to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from fastapi import FastAPI, WebSocket

from bridge.hub import Hub
from bridge.protocol import entry
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.cursor import START, Cursor
from bridge.subscriber import Subscriber
from bridge.viewer import Item
from bridge.websocket import take_over
from bridge.wire import Peer, Socket

FRAME_LIMIT = 16 << 20
TENANT = "bench"


class NoLog:
    """A log that has nothing."""

    async def last(self, *_name: str) -> Cursor:
        return START

    async def read(self, *_what: object) -> list[tuple[Cursor, bytes]]:
        return []

    async def read_before(self, *_what: object) -> list[tuple[Cursor, bytes]]:
        return []


class NoInbox:
    """An inbox and a place in it that nothing ever comes to."""

    def follow(self, *_what: object) -> NoInbox:
        return self

    async def ready(self) -> None:
        return

    def advance(self, place: tuple[int, int]) -> None:
        del place

    def stop(self) -> None:
        return


class Publisher:
    """What an uplink does with entries, but for claims, storing and acknowledging."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    def received(self, messages: list[bytes]) -> None:
        items: list[Item] = []
        for text in messages:
            envelope = entry.read(text)
            items.append(Item(envelope.cursor, text, envelope))
        session = items[0].envelope.session_id
        hub.publish(TENANT, session, items)
        hub.stored(TENANT, session, [], items[-1].cursor)

    def lost(self, code: int, reason: str) -> None:
        del code, reason


class Dashboard:
    """A viewer that passes on all it is given."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self.write = socket.write
        self._subscriber: Subscriber | None = None

    async def load(self, session: str) -> None:
        channel = hub.channel(TENANT, session)
        self._subscriber = Subscriber(channel, self, START, history=True)
        await self._subscriber.start(hub.log)

    def received(self, messages: list[bytes]) -> None:
        del messages

    def lost(self, code: int, reason: str) -> None:
        del code, reason
        if self._subscriber is not None:
            self._subscriber.leave()

    @property
    def buffered(self) -> int:
        return self._socket.buffered

    def special(self, item: Item, frame: bytes) -> None:
        del item
        self._socket.write(frame)

    def ask(self, item: Item) -> None:
        del item

    def gap(self, session_id: str, held_from: Cursor, reason: str) -> None:
        del session_id, held_from, reason

    def too_slow(self) -> None:
        self._socket.close(CloseCode.TOO_SLOW)


hub = Hub(cast("Any", NoLog()), cast("Any", NoInbox()))
app = FastAPI()


@app.websocket("/pub/{number}")
async def publish(ws: WebSocket) -> None:
    await _serve(ws, Publisher)


@app.websocket("/sub/{number}")
async def subscribe(ws: WebSocket, number: str) -> None:
    made: list[Dashboard] = []

    def make(socket: Socket) -> Peer:
        made.append(Dashboard(socket))
        return made[0]

    await _serve(ws, make)
    await made[0].load(f"bench-{number}")


async def _serve(ws: WebSocket, make: Callable[[Socket], Peer]) -> None:
    await take_over(ws, make, subprotocol=None, headers=[], frame_limit=FRAME_LIMIT)
