"""Notifications: the key to subscribe with, one's browsers, and a test of each."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Response

from bridge.endpoints import SIGNED_IN, TheRelay, Viewer, push_shapes, shapes
from bridge.endpoints.body import StrictRoute
from bridge.protocol.entry import timestamp
from bridge.protocol.jsonrpc import Payload
from bridge.subscriptions import Quiet, Wish
from bridge.web_push import Receiver

router = APIRouter(
    prefix="/api/push",
    route_class=StrictRoute,
    tags=["push"],
    dependencies=SIGNED_IN,
    responses={
        400: {"model": shapes.Failure, "description": "the request is not well formed"},
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "only browsers are notified"},
        404: {"model": shapes.Failure, "description": "there is no such thing"},
        503: {"model": shapes.Failure, "description": "the store does not answer"},
        **shapes.ANY_FAILURE,
    },
)


@router.get("", response_model=push_shapes.Push, response_model_exclude_none=True)
async def push(relay: TheRelay, viewer: Viewer) -> Payload:
    """Give the key to subscribe with, and one's browsers that are notified."""
    own = await relay.subscriptions.of(viewer)
    return {
        "key": relay.push.public_key,
        "subscriptions": [one.as_json(viewer) for one in own],
    }


@router.put(
    "/subscription", response_model=push_shapes.Subscription, response_model_exclude_none=True
)
async def subscribe(relay: TheRelay, viewer: Viewer, body: push_shapes.Subscribe) -> Payload:
    """Notify this browser from now on, or change of what."""
    receiver = Receiver(body.endpoint, body.keys.p256dh, body.keys.auth)
    relay.push.check(receiver)
    quiet = Quiet(**body.wish.quiet.model_dump()) if body.wish.quiet else None
    wish = Wish(tuple(body.wish.kinds), body.wish.shows, quiet)
    return (await relay.subscriptions.put(viewer, receiver, wish)).as_json(viewer)


@router.delete("/subscriptions/{id}", status_code=204)
async def unsubscribe(
    relay: TheRelay,
    viewer: Viewer,
    subscription_id: Annotated[str, Path(alias="id", description="the subscription's id")],
) -> Response:
    """Notify one of one's own browsers no more."""
    await relay.subscriptions.remove(viewer, subscription_id)
    return Response(status_code=204)


@router.post("/test", response_model=push_shapes.PushAttempts, response_model_exclude_none=True)
async def test(relay: TheRelay, viewer: Viewer) -> Payload:
    """Notify all of one's browsers and tell what became of each message."""
    attempts = await relay.notifier.test(viewer)
    now = timestamp(await relay.store.time_ms())
    return {
        "attempts": [
            {"id": one.id, "device": one.device, "at": now, **msgspec.to_builtins(attempt)}
            for one, attempt in attempts
        ]
    }
