"""Tokens in use: the list, and revoking one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from bridge.endpoints import SIGNED_IN, TheRelay, Viewer, shapes, token_shapes
from bridge.endpoints.body import StrictRoute
from bridge.identity import Identity, address_of, proof_of
from bridge.protocol.acp import Role
from bridge.protocol.jsonrpc import Payload

router = APIRouter(
    prefix="/api/tokens",
    route_class=StrictRoute,
    tags=["tokens"],
    responses={
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "the role does not allow it"},
        404: {"model": shapes.Failure, "description": "there is no such token"},
        503: {"model": shapes.Failure, "description": "the store does not answer"},
        **shapes.ANY_FAILURE,
    },
)


@router.get(
    "",
    dependencies=SIGNED_IN,
    response_model=token_shapes.TokensInUse,
    response_model_exclude_none=True,
)
async def tokens(relay: TheRelay, viewer: Viewer) -> Payload:
    """List one's own tokens that were used; an admin's list has everybody's, machines' too."""
    subject = None if viewer.role >= Role.ADMIN else viewer.subject
    return {"tokens": await relay.token_register.of_tenant(viewer.tenant, subject)}


@router.delete("/{id}", dependencies=SIGNED_IN, status_code=204)
async def revoke(
    relay: TheRelay,
    viewer: Viewer,
    token_id: Annotated[str, Path(alias="id", description="the token's id")],
) -> Response:
    """Take a token no more: what lives from it ends within a second, everywhere."""
    everybody = viewer.role >= Role.ADMIN
    one = await relay.token_register.revoke(viewer, token_id, everybody=everybody)
    await relay.audit.write(
        viewer.tenant, "token_revoked", viewer.origin, token=one.id, subject=one.subject
    )
    return Response(status_code=204)


@router.post("/refresh")
async def refresh(
    relay: TheRelay, request: Request, body: token_shapes.Refresh
) -> token_shapes.Refreshed:
    """Spend a refresh token: gives a token and the next refresh token.

    One that was spent before ends all that came from the same sign-in.
    """
    await relay.buckets.take_unknown("calls", address_of(request))

    async def prove(who: Identity) -> str:
        urls = relay.origins.addresses_of(request)
        return await relay.proofs.check(who, None, proof_of(request), urls, method="POST")

    grant = await relay.families.refresh(body.refresh_token, body.request_id, prove)
    return token_shapes.Refreshed(
        token=grant.token, refresh_token=grant.refresh_token, expires_in=grant.expires_in
    )
