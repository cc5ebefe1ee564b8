"""Signing in with a one-time link, signing out, and tickets for websockets."""

from __future__ import annotations

import re

from fastapi import APIRouter, Request, Response

from bridge.changes import Change
from bridge.endpoints import SIGNED_IN, TheRelay, Viewer, shapes
from bridge.endpoints.body import StrictRoute
from bridge.identity import (
    LOOPBACK_COOKIE,
    SECURE_COOKIE,
    Identity,
    address_of,
    cookie_of,
    refuse_token_in_url,
    require_own_origin,
)
from bridge.login import LOGIN_SECONDS, TICKET_SECONDS
from bridge.origins import host_of, is_loopback, is_secure
from bridge.protocol.errors import AuthRequired, NotAllowed
from bridge.relay import Relay

router = APIRouter(
    prefix="/api",
    route_class=StrictRoute,
    tags=["sign-in"],
    responses={
        401: {"model": shapes.Failure, "description": "the link or cookie is not valid"},
        403: {"model": shapes.Failure, "description": "a foreign page, or plain http"},
        **shapes.ANY_FAILURE,
    },
)

# The first word of a User-Agent that tells people which of their devices it is.
_DEVICES = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "Chromebook"),
    ("Macintosh", "Mac"),
    ("Windows", "Windows"),
    ("Linux", "Linux"),
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@router.get("/me", dependencies=SIGNED_IN)
async def me(relay: TheRelay, request: Request, response: Response, viewer: Viewer) -> shapes.Me:
    """Tell who is asking; lengthens the life of the browser's cookie."""
    for name in (SECURE_COOKIE, LOOPBACK_COOKIE):
        if viewer.door == "page" and name in request.cookies:
            _set_cookie(response, name, request.cookies[name])
            break
    return _me(relay, viewer)


@router.post("/sign-in")
async def sign_in(
    relay: TheRelay, request: Request, response: Response, body: shapes.SignIn
) -> shapes.Me:
    """Spend the secret of a sign-in link: sets the cookie of this browser."""
    refuse_token_in_url(request)
    origin = _origin_for_cookie(relay, request)
    await relay.buckets.take_unknown("sign_ins", address_of(request))
    device = _CONTROL.sub("", body.device).strip() or _device(request.headers.get("user-agent", ""))
    try:
        secret, identity = await relay.logins.sign_in(body.secret, device)
    except AuthRequired:
        relay.metrics.count("sign_ins_total", result="refused")
        raise
    await relay.audit.write(
        identity.tenant, "sign_in", identity.origin, **{"from": address_of(request)}
    )
    relay.metrics.count("sign_ins_total", result="signed_in")
    _set_cookie(response, SECURE_COOKIE if is_secure(origin) else LOOPBACK_COOKIE, secret)
    return _me(relay, identity)


@router.post("/sign-out", status_code=204)
async def sign_out(relay: TheRelay, request: Request) -> Response:
    """End this browser's login and every connection that lives from it."""
    response = Response(status_code=204)
    secret = cookie_of(request)
    # Also without a cookie: a foreign page's form is sent without it, and would have it deleted.
    if secret is not None or "origin" in request.headers:
        require_own_origin(relay, request)
    if secret is not None:
        await _end_login(relay, request, secret)
    response.delete_cookie(SECURE_COOKIE, path="/", secure=True, httponly=True, samesite="strict")
    response.delete_cookie(LOOPBACK_COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.post("/ticket", dependencies=SIGNED_IN)
async def ticket(relay: TheRelay, request: Request, viewer: Viewer) -> shapes.Ticket:
    """Give a ticket for ``/acp?ticket=``: once, within 30 seconds, from the same origin."""
    origin = request.headers.get("origin")
    if origin is None:
        raise NotAllowed("a ticket is bound to a page: the request must carry its Origin")
    secret = await relay.logins.make_ticket(viewer, origin)
    return shapes.Ticket(ticket=secret, expires_in=TICKET_SECONDS)


async def _end_login(relay: Relay, request: Request, secret: str) -> None:
    identity = await relay.logins.find(secret)
    token_id = await relay.logins.end(secret)
    relay.identities.closed(token_id)
    if identity is not None:
        ended = Change("login", identity.subject, state="ended", logins=[token_id])
        await relay.changes.tell(identity.tenant, ended)
        await relay.audit.write(
            identity.tenant, "sign_out", identity.origin, **{"from": address_of(request)}
        )


def _origin_for_cookie(relay: Relay, request: Request) -> str:
    origin = request.headers.get("origin", "")
    if is_secure(origin) or is_loopback(origin):
        require_own_origin(relay, request)
        return origin
    if origin.startswith("http://") and host_of(origin):
        raise NotAllowed(
            "sign-in over plain http works only on the relay's own machine: open it by https; "
            "set BRIDGE_TLS_CERT and BRIDGE_TLS_KEY, or put a proxy with TLS in front",
            reason="https_required",
        )
    require_own_origin(relay, request)  # raises: no origin, or none of ours
    return origin


def _set_cookie(response: Response, name: str, secret: str) -> None:
    response.set_cookie(
        name,
        secret,
        max_age=LOGIN_SECONDS,
        path="/",
        secure=name == SECURE_COOKIE,
        httponly=True,
        samesite="strict",
    )


def _me(relay: Relay, identity: Identity) -> shapes.Me:
    return shapes.Me(
        subject=identity.subject,
        tenant=identity.tenant,
        role=str(identity.role),
        device=identity.device,
        kind=identity.kind,
        relay=shapes.RelayCard(version=relay.version, node=relay.node),
    )


def _device(user_agent: str) -> str:
    return next((name for word, name in _DEVICES if word in user_agent), "browser")
