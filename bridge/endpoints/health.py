"""Whether this process lives, whether it can serve, and what it counted."""

from __future__ import annotations

from fastapi import APIRouter, Response

from bridge import metrics
from bridge.endpoints import TheRelay, shapes
from bridge.protocol.errors import Overloaded

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses={503: {"model": shapes.Failure}})
async def readyz(relay: TheRelay) -> dict[str, str]:
    """Say whether this process stays and its store takes writes; 503 with the reason otherwise."""
    if relay.admission.is_ending:
        raise Overloaded("this relay process ends", reason="relay_restarting")
    await relay.store.check()
    return {"status": "ready", "node": relay.node}


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def prometheus(relay: TheRelay) -> Response:
    """Give this process's counters for Prometheus; they name no tenant and no person."""
    return Response(relay.metrics.text(), headers={"content-type": metrics.CONTENT_TYPE})
