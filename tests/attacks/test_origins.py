"""A page of another site, in the browser of somebody who is signed in, gets nothing (S14, E10)."""

import json

import httpx
import pytest
from fakes.served import serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bridge.protocol.acp import Role

PUBLIC = "https://relay.example"
FOREIGN = [
    None,
    "",
    "null",
    "https://evil.example",
    "http://relay.example",
    "https://relay.example:8443",
    "https://relay.example.evil",
    "https://relay.example.",
    "https://evil/relay.example",
    "https://relay.example/",
    "https://relay.example@evil.example",
    "https://evil.example#https://relay.example",
    "https://evil.example?https://relay.example",
    "https://xrelay.example",
    "https://sub.relay.example",
    "https://RELAY.EXAMPLE",
    "https://relay.example, https://evil.example",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://127.1:{port}",
    "http://[::1]:{port}",
    "http://localhost:{port}",
    "http://127.0.0.1:{port}.evil.example",
    "http://127.0.0.1:{port}@evil.example",
    "file://",
    "ws://127.0.0.1:{port}",
    "wss://relay.example",
    "chrome-extension://abcdefghijklmnop",
]


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server, public_url=PUBLIC) as one:
        yield one


@pytest.fixture(scope="module")
async def cookies(served):
    secret, _ = await served.relay.logins.sign_in(await served.link(Role.ADMIN), "Mac")
    return f"__Host-bridge={secret}; bridge_local={secret}"


def headers_of(served, cookies, origin):
    named = {} if origin is None else {"origin": origin.format(port=served.port)}
    return {"cookie": cookies, **named}


async def opens(served, path, headers):
    """Give the status that a websocket is answered with."""
    url = f"ws://127.0.0.1:{served.port}{path}"
    try:
        async with connect(url, additional_headers=headers, subprotocols=["acp.v1"]):
            return 101
    except InvalidStatus as refused:
        return refused.response.status_code


CALLS = [
    ("POST", "/api/ticket"),
    ("POST", "/api/sign-out"),
    ("POST", "/api/round-trips/rt-1/decision"),
    ("POST", "/api/sessions/s1/mail"),
    ("POST", "/api/pairings/look"),
    ("DELETE", "/api/devices/d1"),
]


@pytest.mark.attack("S14", "a websocket and calls that act, from a foreign page, with the cookie")
@pytest.mark.parametrize("origin", FOREIGN, ids=repr)
async def test_a_foreign_page_opens_no_websocket_and_acts_on_nothing(served, cookies, origin):
    """E10."""
    headers = headers_of(served, cookies, origin)
    assert [await opens(served, path, headers) for path in ("/acp", "/acp/ws")] == [403, 403]
    async with httpx.AsyncClient(base_url=served.url, headers=headers) as foreign:
        for method, path in CALLS:
            answer = await foreign.request(method, path, json={})
            assert answer.status_code == 403, path
            assert "set-cookie" not in answer.headers
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.attack("S14", "reading with a signed-in cookie from a foreign page")
@pytest.mark.parametrize("origin", [one for one in FOREIGN if one], ids=repr)
async def test_a_foreign_page_reads_nothing(served, cookies, origin):
    headers = headers_of(served, cookies, origin)
    async with httpx.AsyncClient(base_url=served.url, headers=headers) as foreign:
        for path in ("/api/me", "/api/sessions", "/api/sessions/s1/events", "/api/audit"):
            assert (await foreign.get(path)).status_code == 403
        asked = {"access-control-request-method": "POST"}
        allowed = await foreign.options("/api/ticket", headers=asked)
        assert not [name for name in allowed.headers if name.startswith("access-control")]


async def test_the_relays_own_page_is_let_in(served, cookies):
    for origin in (PUBLIC, f"http://127.0.0.1:{served.port}"):
        headers = headers_of(served, cookies, origin)
        assert await opens(served, "/acp", headers) == 101
        async with httpx.AsyncClient(base_url=served.url, headers=headers) as own:
            assert (await own.post("/api/ticket")).status_code == 200


# What a browser is told with every answer.

STRICT = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@pytest.mark.attack("S21", "answers of every kind: the headers that keep a browser strict")
@pytest.mark.parametrize("path", ["/", "/api/me", "/api/none", "/healthz", "/acp", "/%ff"])
async def test_every_answer_keeps_browsers_strict(served, path):
    async with httpx.AsyncClient(base_url=served.url) as anybody:
        answer = await anybody.get(path)
    assert {name: answer.headers.get(name) for name in STRICT} == STRICT
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    if path == "/":
        assert "require-trusted-types-for 'script'" in policy
        assert "base-uri 'none'" in policy


@pytest.mark.attack("S21", "the cookie's flags")
@pytest.mark.parametrize("origin", [PUBLIC, "http://127.0.0.1:{port}"])
async def test_the_cookie_is_kept_from_scripts_and_other_sites(served, origin):
    named = {"origin": origin.format(port=served.port)}
    async with httpx.AsyncClient(base_url=served.url, headers=named) as browser:
        answer = await browser.post("/api/sign-in", json={"secret": await served.link()})
    name, _, flags = answer.headers["set-cookie"].partition("=")
    found = {flag.strip().lower() for flag in flags.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= found
    assert not any(flag.startswith("domain") for flag in found)
    assert (name, "secure" in found) == (
        ("__Host-bridge", True) if origin == PUBLIC else ("bridge_local", False)
    )
    assert json.loads(answer.text)["subject"] == "alice"


# Tickets.


@pytest.mark.attack("S15", "a ticket again, from another page, without one, after its time")
async def test_a_ticket_opens_one_socket_of_its_own_page_in_its_time(
    served, cookies, redis_server, figure
):
    from redis.asyncio import Redis

    own = headers_of(served, cookies, PUBLIC)
    opened, tried = 0, 0
    async with (
        httpx.AsyncClient(base_url=served.url, headers=own) as page,
        Redis.from_url(redis_server) as redis,
    ):

        async def ticket():
            return (await page.post("/api/ticket")).json()["ticket"]

        async def held():
            return {key async for key in redis.scan_iter("b:ticket:*")}

        used = await ticket()
        assert await opens(served, f"/acp?ticket={used}", {"origin": PUBLIC}) == 101
        before, old = await held(), await ticket()
        [key] = await held() - before
        assert 0 < await redis.ttl(key) <= 30
        await redis.pexpire(key, 1)
        while await redis.exists(key):
            pass
        for secret, origin in (
            (used, PUBLIC),
            (old, PUBLIC),
            (await ticket(), "https://evil.example"),
            (await ticket(), None),
            ("guess", PUBLIC),
            ("", PUBLIC),
        ):
            headers = {} if origin is None else {"origin": origin}
            status = await opens(served, f"/acp?ticket={secret}", headers)
            tried += 1
            opened += status == 101
            assert status == 403, (secret, origin)
    figure(f"{tried} tickets, opened {opened}")
