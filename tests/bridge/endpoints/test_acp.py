"""``GET /acp``: who gets in, by what, and what the handshake answers."""

import asyncio
import json

import httpx
import pytest
from fakes.peers import ClientPeer, Peer
from fakes.served import serving
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bridge.protocol import jsonrpc
from bridge.protocol.acp import Role

LIMIT = 64 << 10
HELLO = jsonrpc.request(1, "initialize", {"protocolVersion": 1})


def url(process, path="/acp"):
    return f"ws://127.0.0.1:{process.port}{path}"


async def refused(process, path="/acp", **options):
    """Try to connect and give the status of the refusal."""
    with pytest.raises(InvalidStatus) as failure:
        async with connect(url(process, path), **options):
            pass
    return failure.value.response.status_code


async def hello(socket):
    await socket.send(HELLO, text=True)
    return json.loads(await socket.recv())["result"]["_meta"]["chimera.bridge"]


@pytest.mark.parametrize("path", ["/acp", "/acp/ws"])
async def test_a_token_in_the_header_gets_in_under_a_connection_id(process, path):
    headers = {"Authorization": f"Bearer {process.token(Role.VIEWER, subject='bob')}"}
    async with connect(url(process, path), additional_headers=headers) as socket:
        assert socket.response.headers["Acp-Connection-Id"]
        assert socket.subprotocol is None
        assert (await hello(socket))["subject"] == "bob"


async def test_a_token_among_the_subprotocols_gets_in_and_is_not_echoed(process):
    offered = ["acp.v1", f"bearer.{process.token()}"]
    async with connect(url(process), subprotocols=offered) as socket:
        assert socket.subprotocol == "acp.v1"
        assert (await hello(socket))["role"] == "admin"


async def test_the_pages_cookie_gets_in_with_its_own_origin_only(process):
    async with process.signed_in(Role.APPROVER) as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        headers = {"Cookie": cookie}
        async with connect(url(process), additional_headers=headers, origin=process.url) as socket:
            assert (await hello(socket))["role"] == "approver"
        assert (
            await refused(process, additional_headers=headers, origin="http://evil.example") == 403
        )
        assert await refused(process, additional_headers=headers) in {401, 403}


async def test_signing_out_closes_the_pages_socket(process):
    async with process.signed_in() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        async with connect(
            url(process), additional_headers={"Cookie": cookie}, origin=process.url
        ) as socket:
            await hello(socket)
            await browser.post("/api/sign-out")
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
    assert closed.value.rcvd.code == 4401


async def test_signing_out_closes_the_pages_sockets_at_other_relay_processes(
    process, redis_server, figure
):
    async with serving(redis_server) as another, process.signed_in() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        async with (
            connect(
                url(another), additional_headers={"Cookie": cookie}, origin=another.url
            ) as socket,
            ClientPeer(another) as other_person,
        ):
            await hello(socket)
            await other_person.initialize()
            loop = asyncio.get_running_loop()
            began = loop.time()
            assert (await browser.post("/api/sign-out")).status_code == 204
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            took = loop.time() - began
            await other_person.call("session/list")
    figure(f"a sign-out closed a socket of another relay process after {took * 1000:.0f} ms")
    assert closed.value.rcvd.code == 4401
    assert took < 1


async def test_a_ticket_gets_in_once(process):
    async with process.signed_in() as browser:
        ticket = (await browser.post("/api/ticket")).json()["ticket"]
    path = f"/acp?ticket={ticket}"
    async with connect(url(process, path), origin=process.url) as socket:
        assert (await hello(socket))["subject"] == "alice"
    assert await refused(process, path, origin=process.url) == 403


async def test_without_anything_or_with_a_wrong_token_nobody_gets_in(process):
    agents = process.token(kind="agent")
    assert await refused(process) == 401
    for token in ("forged", agents):
        headers = {"Authorization": f"Bearer {token}"}
        assert await refused(process, additional_headers=headers) == 401


async def test_a_token_in_the_address_is_refused(process):
    assert await refused(process, f"/acp?token={process.token()}") == 400


@pytest.mark.parametrize("path", ["/acp", "/acp/ws", "/uplink"])
async def test_without_an_upgrade_the_address_says_what_it_is(process, path):
    async with httpx.AsyncClient(base_url=process.url) as client:
        answer = await client.get(path)
    assert answer.status_code == 426
    assert answer.headers["upgrade"] == "websocket"
    assert "websocket" in answer.text


async def test_a_frame_over_the_limit_closes_only_that_client(redis_url):
    async with (
        serving(redis_url, acp_frame_bytes=LIMIT) as small,
        ClientPeer(small) as big,
        ClientPeer(small) as other,
    ):
        await big.initialize()
        await other.initialize()
        await big.say(b" " * (LIMIT + 1))
        assert await big.closed() == 1009
        assert await other.call("session/list")


async def test_who_says_nothing_is_closed(monkeypatch, process):
    monkeypatch.setattr("bridge.dashboard.INITIALIZE_SECONDS", 0.0)
    headers = {"Authorization": f"Bearer {process.token()}"}
    async with Peer(url(process), additional_headers=headers) as silent:
        assert await silent.closed() == 4400


async def test_many_clients_that_leave_at_once_leave_nothing_behind(process):
    clients = [ClientPeer(process) for _ in range(20)]
    await asyncio.gather(*(one.__aenter__() for one in clients))
    await asyncio.gather(*(one.initialize() for one in clients))
    assert len(process.relay.dashboards) == 20
    for one in clients:
        one.socket.transport.abort()
    async with asyncio.timeout(10):
        while len(process.relay.dashboards):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.005)
