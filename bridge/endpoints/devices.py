"""Devices: pairing one with a machine by the code it shows, the list, revoking."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from bridge.endpoints import SIGNED_IN, Approver, TheRelay, Viewer, shapes
from bridge.endpoints.body import StrictRoute
from bridge.protocol.jsonrpc import Payload

router = APIRouter(
    prefix="/api",
    route_class=StrictRoute,
    tags=["devices"],
    dependencies=SIGNED_IN,
    responses={
        400: {"model": shapes.Failure, "description": "the request is not well formed"},
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "the role or the pairing does not allow it"},
        404: {"model": shapes.Failure, "description": "there is no such thing"},
        503: {"model": shapes.Failure, "description": "the store does not answer"},
        **shapes.ANY_FAILURE,
    },
)


@router.post("/pairings/look")
async def look(relay: TheRelay, approver: Approver, body: shapes.Code) -> shapes.PairingOffer:
    """Show which machine a code is for; a wrong code counts."""
    return shapes.PairingOffer.model_validate(await relay.pairings.look(approver, body.code))


@router.post("/pairings/answer", status_code=202)
async def answer(relay: TheRelay, approver: Approver, body: shapes.PairingAnswer) -> Response:
    """Bring a device's answer to the machine, once."""
    await relay.pairings.answer(approver, body.code, body.answer, body.proof)
    return Response(status_code=202)


@router.post("/pairings/outcome", response_model_exclude_none=True)
async def outcome(relay: TheRelay, approver: Approver, body: shapes.Code) -> shapes.PairingOutcome:
    """Tell the device that answered how far its pairing is."""
    return shapes.PairingOutcome.model_validate(await relay.pairings.outcome(approver, body.code))


@router.get("/devices", response_model=shapes.Devices, response_model_exclude_none=True)
async def devices(relay: TheRelay, viewer: Viewer) -> Payload:
    """List one's own devices; an admin's list has everybody's."""
    return {"devices": [one.as_json() for one in await relay.devices.list(viewer)]}


@router.delete("/devices/{id}", status_code=204)
async def revoke(
    relay: TheRelay,
    viewer: Viewer,
    device_id: Annotated[str, Path(alias="id", description="the device's id")],
) -> Response:
    """Shut a device out everywhere: its sign-in ends, machines forget its key."""
    await relay.devices.revoke(viewer, device_id)
    return Response(status_code=204)
