"""Websockets that serve themselves: FastAPI does path, identity and accept, then steps aside.

``take_over`` hands uvicorn's transport to a Socket: no task, no queue and no ASGI state per
connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket
from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from bridge.limits import Admission, Place, Refusal, SocketLimits
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.errors import Overloaded
from bridge.wire import Peer, Socket, Wire

EARLY_LIMIT = 64 << 10  # bytes a client may send before it is accepted
EXTENSION = "relay.takeover"

logger = logging.getLogger(__name__)


class RelayWebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn's handshake and ASGI connection, with a way out of them for ``take_over``."""

    admission: ClassVar[Admission | None] = None

    @classmethod
    def limited_to(cls, admission: Admission) -> type[RelayWebSocketProtocol]:
        """Give this class with other limits, as uvicorn wants a class."""
        return type(cls.__name__, (cls,), {"admission": admission})

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], **more: Any
    ) -> None:
        """Begin as uvicorn does, but never agree on compression: 40 KiB and more a socket."""
        super().__init__(config, server_state, app_state, **more)
        self.conn.available_extensions = []
        self.hands_over = False
        self.early = bytearray()  # came before the answer to the handshake
        self._server_state = server_state

    @property
    def wire(self) -> Wire:
        """The sockets of the server that this connection came to."""
        return wire_of(self._server_state, self.admission)

    def data_received(self, data: bytes) -> None:
        """Hold what comes before it is known who will read it."""
        if not self.handshake_initiated or self.handshake_complete:
            super().data_received(data)
            return
        self.early += data
        if len(self.early) > EARLY_LIMIT:
            self.transport.pause_reading()

    def start_keepalive(self) -> None:
        """Leave the pings of a socket to the wire's timer."""
        if not self.hands_over:
            super().start_keepalive()

    async def send(self, message: ASGISendEvent) -> None:
        """Send, and let a route that stays have what came early."""
        await super().send(message)
        if self.early and self.handshake_complete and not self.hands_over:
            early, self.early = bytes(self.early), bytearray()
            self.transport.resume_reading()
            super().data_received(early)

    async def run_asgi(self) -> None:
        """Run the route, and leave the transport alone when a socket has it."""
        scope = self.scope
        scope["extensions"][EXTENSION] = self  # type: ignore[assignment]
        # What uvicorn logs: a ticket in the query string is nobody's business.
        self.scope = {**scope, "query_string": b""}
        try:
            await self.app(scope, self.receive, self.send)
        except ClientDisconnected:
            pass
        except Exception:
            logger.exception("the route of %s failed", scope["path"])
            self.send_500_response()
        finally:
            if self.close_timer is None and not self.hands_over:
                self.transport.close()


def wire_of(server: ServerState, admission: Admission | None = None) -> Wire:
    """Give the sockets of a server; the first to ask sets who is admitted."""
    wire = _wires.get(server)
    if wire is None:
        admission = admission or Admission(SocketLimits())
        wire = _wires[server] = Wire(server.connections, admission)
    return wire


_wires: WeakKeyDictionary[ServerState, Wire] = WeakKeyDictionary()


async def take_over(
    ws: WebSocket,
    make_peer: Callable[[Socket], Peer],
    *,
    subprotocol: str | None,
    headers: list[tuple[bytes, bytes]],
    frame_limit: int,
    subject: str = "",
) -> None:
    """Accept, or refuse with 429 or 503; then the socket serves itself and the route is done."""
    protocol = ws.scope["extensions"].get(EXTENSION)
    if not isinstance(protocol, RelayWebSocketProtocol):
        raise TypeError("serve the relay with uvicorn's ws=RelayWebSocketProtocol")
    wire = protocol.wire
    place = Place(ws.client.host if ws.client else "local", subject)
    refusal = wire.admission.admit(place)
    if refusal is not None:
        await ws.send_denial_response(_denial(refusal))
        return
    protocol.hands_over = True
    try:
        await ws.accept(subprotocol, headers)
    except BaseException:
        protocol.hands_over = False
        wire.admission.release(place)
        raise
    _hand_over(protocol, make_peer, place, frame_limit)


def _denial(refusal: Refusal) -> JSONResponse:
    error = {"code": Overloaded.code, "message": refusal.message, "reason": Overloaded.reason}
    retry = {"Retry-After": str(refusal.retry_after)}
    return JSONResponse({"error": error}, refusal.status, retry)


def _hand_over(
    protocol: RelayWebSocketProtocol,
    make_peer: Callable[[Socket], Peer],
    place: Place,
    frame_limit: int,
) -> None:
    wire = protocol.wire
    if not protocol.handshake_complete or protocol.disconnected:
        protocol.hands_over = False
        wire.admission.release(place)  # the client has gone meanwhile
        return
    socket = wire.adopt(protocol, place, frame_limit)
    try:
        socket.start(make_peer(socket), bytes(protocol.early))
    except BaseException:
        socket.close(CloseCode.INTERNAL)
        raise
