"""Requests that lie about where they go and where they come from (S32, S29, S07)."""

import asyncio
import json
import secrets

import httpx
import pytest
from fakes.site import Program, Site

TWELVE = [secrets.token_hex(12) for _ in range(12)]
HOSTILE = "a\x1b[2Kb\u2028c\u202ed\u0085e"


@pytest.fixture(scope="module")
async def site(tmp_path_factory):
    """A relay as people run it, which writes its log as JSON."""
    one = Site(tmp_path_factory.mktemp("site"))
    one.env |= {"BRIDGE_LOG_FORMAT": "json", "BRIDGE_LOG_LEVEL": "debug"}
    async with one:
        yield one


async def ask(site, head: str, *headers: str) -> tuple[int, str]:
    """Send a request's head as it is; gives the status and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(site.url.rpartition(":")[2]))
    lines = "".join(f"{header}\r\n" for header in headers)
    writer.write(f"{head}\r\n{lines}connection: close\r\n\r\n".encode("utf-8", "surrogateescape"))
    async with asyncio.timeout(20):
        answer = (await reader.read()).decode(errors="replace")
    writer.close()
    status = answer.split(" ", 2)[1] if answer.startswith("HTTP/1.1") else "0"
    return int(status), answer.partition("\r\n\r\n")[2]


def entries(site, words: str = ""):
    """Give the log's lines, each of which must be one JSON object."""
    found = [json.loads(line) for line in site.relay.lines if line.startswith("{")]
    return [line for line in found if words in line["message"]]


async def logged(site, words: str):
    """Wait for a request's line in the log."""
    await site.relay.said(words)
    return entries(site, words)


LIES = [
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET /api/me HTTP/1.1", ["host: x/abc?bar="]),
    ("GET /api/me HTTP/1.1", ["host: evil.example"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1@evil.example"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "x-forwarded-host: evil.example"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "forwarded: for=10.9.8.7;host=evil.example"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "x-forwarded-for: 10.9.8.7"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "x-forwarded-proto: https"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "x-original-url: /healthz"]),
    ("GET /api/me HTTP/1.1", ["host: 127.0.0.1", "x-rewrite-url: /healthz"]),
    ("GET /api/me?/healthz HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET http://evil.example/api/me HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET //evil.example/api/me HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET /healthz/../api/me HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET /api/me%2e HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET @evil.example/api/me HTTP/1.1", ["host: 127.0.0.1"]),
    ("GET /api/%6de HTTP/1.1", ["host: 127.0.0.1", "authorization: Basic YTpi"]),
    (
        "POST /api/me HTTP/1.1",
        ["host: a", "x-http-method-override: GET", "content-length: 0"],
    ),
]


@pytest.mark.attack("S32", "a Host, path or forwarding header that lies")
@pytest.mark.parametrize(("head", "headers"), LIES, ids=lambda lie: str(lie)[:60])
async def test_no_lie_about_the_way_lets_anybody_in(site, head, headers):
    status, body = await ask(site, head, *headers)
    assert status in {400, 401, 404, 405}, (status, body)
    assert "subject" not in body


@pytest.mark.attack("S32", "a forged X-Forwarded-For: the address that is counted and logged")
async def test_the_address_is_the_peers_whatever_it_says(site, figure):
    forged = [f"10.0.0.{n}" for n in range(20)]
    for address in forged:
        await ask(site, f"GET /api/x-{address}/ HTTP/1.1", "host: a", f"x-forwarded-for: {address}")
    believed = 0
    for address in forged:
        [line] = await logged(site, f"/api/x-{address}/")
        believed += line["client"] != "127.0.0.1"
    figure(f"believed {believed} of {len(forged)}")
    assert believed == 0


FORGED = '{"level":"error","message":"forged"}'
LINES = [
    f"GET /f1%0d%0a{FORGED.replace(' ', '')} HTTP/1.1",
    "GET /f2%1b%5b2K%E2%80%A8%C2%85%E2%80%AE HTTP/1.1",
    "GET /f3\x1b[2K HTTP/1.1",
    "GET /f4" + "%0a" * 1000 + " HTTP/1.1",
    "DELETE /f5%00%ff HTTP/1.1",
]


@pytest.mark.attack("S29", "line ends and control characters in paths, headers and names")
async def test_every_line_of_the_log_is_one_event(site, figure):
    before = len(site.relay.lines)
    for head in LINES:
        await ask(site, head, "host: a", f"user-agent: {HOSTILE}\t{FORGED}", f"cookie: {HOSTILE}")
    async with httpx.AsyncClient(base_url=site.url, headers={"origin": site.url}) as anybody:
        body = {"secret": f"x\n{FORGED}", "device": f"phone\r\n{FORGED}{HOSTILE}"}
        await anybody.post("/api/sign-in", json=body)
        await anybody.get("/the-last-one")
    await logged(site, "/the-last-one")
    written = site.relay.lines[before:]
    forged = [line for line in written if json.loads(line)["message"] == "forged"]
    figure(f"{len(written)} lines, forged {len(forged)}")
    assert forged == []
    assert len([line for line in written if "/f" in line]) <= len(LINES)
    assert not [line for line in written for c in line if c < " " or c in "\x7f\x85\u2028\u202e"]


@pytest.mark.attack("S07", "secrets in addresses, headers, cookies and bodies: the whole log")
async def test_no_secret_is_in_any_log(site, tmp_path, figure):
    """E11."""
    token = await site.token()
    sign = token.rpartition(".")[2]
    a, b, c, d, e, f, g, h, i, j, k, m = TWELVE
    for head, *headers in (
        (f"GET /api/me?token={a} HTTP/1.1",),
        (f"GET /acp?ticket={b} HTTP/1.1", "upgrade: websocket", "connection: upgrade"),
        (f"GET /?x=1&access_token={c} HTTP/1.1",),
        ("GET /api/me HTTP/1.1", f"authorization: Bearer {d}"),
        ("GET /api/me HTTP/1.1", f"authorization: Basic {e}"),
        ("GET /api/me HTTP/1.1", f"cookie: bridge_local={f}; __Host-bridge={g}"),
        ("GET /acp HTTP/1.1", f"sec-websocket-protocol: acp.v1, bearer.{h}"),
        (f"GET /api/sessions/x/events?bearer={i} HTTP/1.1",),
        (f"GET /api/me?{token} HTTP/1.1", f"authorization: Bearer {token}"),
    ):
        await ask(site, head, "host: 127.0.0.1", *headers)
    async with httpx.AsyncClient(base_url=site.url, headers={"origin": site.url}) as anybody:
        await anybody.post("/api/sign-in", json={"secret": j})
        await anybody.post("/api/sign-in", content=f'{{"secret": "{k}')
        await anybody.post("/api/sign-in", json={"secret": {"of": m}})
        await anybody.get("/that-is-all")
    await logged(site, "/that-is-all")
    env = {**site.env, "FERRET_BRIDGE_TOKEN": TWELVE[0] + "." + TWELVE[1], "HOME": str(tmp_path)}
    connector = await Program.start(site.connect_command("x", "demo"), env)
    assert await asyncio.wait_for(connector.process.wait(), 40) == 3
    await connector.end()
    logs = "\n".join([*site.relay.lines, *connector.lines])
    found = [secret for secret in [*TWELVE, sign] if secret in logs]
    figure(f"{len(TWELVE) + 1} secrets, found {len(found)}")
    assert found == []
