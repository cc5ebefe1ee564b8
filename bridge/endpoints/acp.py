"""Where dashboards and any ACP client attach: ``GET /acp``, alias ``/acp/ws``.

The ACP remote transport over a websocket: one message per text frame, ``initialize`` first.
"""

from __future__ import annotations

import secrets
from functools import partial

from fastapi import APIRouter, WebSocket
from starlette.responses import PlainTextResponse

from bridge.dashboard import Dashboard
from bridge.endpoints import TheRelay
from bridge.identity import identify
from bridge.relay import Relay
from bridge.websocket import take_over

router = APIRouter()


async def attach(websocket: WebSocket) -> None:
    """Serve one client that shows a person's token, ticket or cookie."""
    relay: Relay = websocket.state.relay
    identity, subprotocol = await identify(relay, websocket, kind="person")
    await take_over(
        websocket,
        partial(Dashboard, relay, identity),
        subprotocol=subprotocol,
        headers=[(b"acp-connection-id", secrets.token_hex(8).encode())],
        frame_limit=relay.settings.acp_frame_bytes,
        subject=f"{identity.tenant}/{identity.subject}",
    )


@router.get("/acp", include_in_schema=False)
@router.get("/acp/ws", include_in_schema=False)
@router.get("/uplink", include_in_schema=False)
async def upgrade_required(relay: TheRelay) -> PlainTextResponse:
    """Say that this address is a websocket, or for how long nobody is let in.

    A page cannot read the answer to its refused websocket; it asks here.
    """
    if wait := relay.admission.wait:
        return PlainTextResponse("full; come again", 503, {"Retry-After": str(wait)})
    say = "this address is a websocket: connect with wss://"
    return PlainTextResponse(say, 426, {"Upgrade": "websocket", "Connection": "Upgrade"})
