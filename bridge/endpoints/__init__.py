"""The relay's doors: thin routes over the domain's modules, and what they all ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer

from bridge.identity import SECURE_COOKIE, Identity, address_of, identify
from bridge.protocol.acp import Role
from bridge.relay import Relay

# Shows in OpenAPI how to sign in; identify() is what checks it.
SIGNED_IN = [
    Depends(HTTPBearer(auto_error=False, bearerFormat="JWT", description="chimera-relay token")),
    Depends(APIKeyCookie(name=SECURE_COOKIE, auto_error=False, description="the page's sign-in")),
]


async def relay_of(request: Request) -> Relay:
    """Give the process's shared state, which its lifespan opened."""
    relay: Relay = request.state.relay
    return relay


TheRelay: TypeAlias = Annotated[Relay, Depends(relay_of)]


def person_with(role: Role) -> Callable[..., Awaitable[Identity]]:
    """Give the dependency that finds who is asking and refuses a lesser role."""

    async def find(request: Request, relay: TheRelay) -> Identity:
        identity, _ = await identify(relay, request, kind="person")
        await relay.buckets.take("calls", identity, address_of(request))
        identity.require(role)
        return identity

    return find


Viewer: TypeAlias = Annotated[Identity, Depends(person_with(Role.VIEWER))]
Approver: TypeAlias = Annotated[Identity, Depends(person_with(Role.APPROVER))]
Operator: TypeAlias = Annotated[Identity, Depends(person_with(Role.OPERATOR))]
Admin: TypeAlias = Annotated[Identity, Depends(person_with(Role.ADMIN))]
