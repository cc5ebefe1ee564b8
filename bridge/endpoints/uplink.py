"""Where connectors attach: ``GET /uplink``."""

from __future__ import annotations

from functools import partial

from fastapi import WebSocket

from bridge.identity import identify
from bridge.protocol.errors import InvalidRequest
from bridge.protocol.uplink import SUBPROTOCOL
from bridge.relay import Relay
from bridge.uplink import Uplink
from bridge.websocket import take_over


async def attach(websocket: WebSocket) -> None:
    """Serve one connector that shows an agent's token."""
    relay: Relay = websocket.state.relay
    identity, subprotocol = await identify(relay, websocket, kind="agent")
    if subprotocol is None:
        raise InvalidRequest(f"ask for the websocket subprotocol {SUBPROTOCOL}")
    await take_over(
        websocket,
        partial(Uplink, relay, identity),
        subprotocol=subprotocol,
        headers=[],
        frame_limit=relay.settings.uplink_frame_bytes,
        subject=f"{identity.tenant}/{identity.subject}",
    )
