"""Whether the process lives, whether it can serve, and what it counted."""

import pytest
from fakes.served import serving


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server) as running:
        yield running


async def test_a_healthy_relay_says_so_without_a_token(served):
    async with served.client(None) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        ready = await client.get("/readyz")
        assert ready.json() == {"status": "ready", "node": served.relay.node}


async def test_metrics_count_requests_by_route_and_name_nobody(served):
    async with served.client(tenant="secret-tenant") as client:
        await client.get("/api/sessions/private-session")
        await client.get("/api/me")
    async with served.client(None) as client:
        await client.get("/api/me")
        answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'route="/api/me",status="200"' in answer.text
    assert 'route="/api/sessions/{id}",status="404"' in answer.text
    assert 'bridge_refused_total{reason="auth_required"} 1' in answer.text
    for secret in ("secret-tenant", "private-session", "alice"):
        assert secret not in answer.text


async def test_what_a_stranger_asks_for_makes_no_new_series(served):
    async with served.client(None) as client:
        before = (await client.get("/metrics")).text.count("\n")
        for n in range(20):
            await client.get(f"/nothing-{n}")
            await client.get(f"/api/sessions/{n}")
        after = (await client.get("/metrics")).text.count("\n")
    assert after - before <= 3
