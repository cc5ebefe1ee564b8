"""The process around the application: its listening socket, its proxies, and its orderly end."""

import asyncio
import contextlib
import socket

import pytest
from fakes.served import serving
from starlette.websockets import WebSocket
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from bridge.identity import identify
from bridge.protocol.acp import Role
from bridge.server import PortUnavailable, listen
from bridge.websocket import take_over


class Echo:
    """A peer that answers with what it was sent."""

    def __init__(self, socket) -> None:
        self.socket = socket

    def received(self, messages) -> None:
        for message in messages:
            self.socket.send(message)

    def lost(self, code, reason) -> None:
        pass


async def echo(websocket: WebSocket) -> None:
    _, subprotocol = await identify(websocket.state.relay, websocket, kind="person")
    await take_over(websocket, Echo, subprotocol=subprotocol, headers=[], frame_limit=1 << 20)


@contextlib.asynccontextmanager
async def with_echo(redis_url, **settings):
    async with serving(redis_url, **settings) as served:
        served.server.config.app.add_api_websocket_route("/echo", echo)
        served.socket_url = served.url.replace("http", "ws") + "/echo"
        yield served


def bearer(served, role=Role.VIEWER):
    return {"Authorization": f"Bearer {served.token(role)}"}


async def test_a_websocket_is_closed_with_1012_when_the_relay_ends(redis_url):
    async with with_echo(redis_url) as served:
        async with connect(served.socket_url, additional_headers=bearer(served)) as one:
            await one.send("hello")
            assert await one.recv() == "hello"
            served.server.should_exit = True
            with pytest.raises(ConnectionClosed) as closed:
                await one.recv()
        assert closed.value.rcvd.code == 1012


async def test_who_is_not_let_in_learns_it_before_the_websocket_opens(redis_url):
    async with with_echo(redis_url) as served, served.signed_in() as browser:
        token = served.token()
        cookie = {"Cookie": f"bridge_local={browser.cookies['bridge_local']}"}
        for query, headers, status, reason in (
            ("", {}, 401, "auth_required"),
            ("", {"Authorization": "Bearer x.y.z"}, 401, "token_invalid"),
            (f"?token={token}", {}, 400, "invalid_request"),
            ("?ticket=x", {}, 403, "ticket_invalid"),
            ("", cookie, 403, "origin_not_allowed"),
            ("", {**cookie, "Origin": "https://evil.example"}, 403, "origin_not_allowed"),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(served.socket_url + query, additional_headers=headers)
            response = refused.value.response
            assert response.status_code == status
            assert f'"reason":"{reason}"'.encode() in response.body
            assert token.encode() not in response.body
            assert response.headers["x-content-type-options"] == "nosniff"


async def test_each_way_in_opens_the_websocket(redis_url):
    async with with_echo(redis_url) as served, served.signed_in() as browser:
        cookie = {"Cookie": f"bridge_local={browser.cookies['bridge_local']}"}
        ticket = (await browser.post("/api/ticket")).json()["ticket"]
        own = {"Origin": served.url}
        offered = ["acp.v1", f"bearer.{served.token()}"]
        for query, headers, subprotocols, answered in (
            ("", bearer(served), None, None),
            ("", {}, offered, "acp.v1"),
            (f"?ticket={ticket}", own, ["acp.v1"], "acp.v1"),
            ("", {**cookie, **own}, ["acp.v1"], "acp.v1"),
        ):
            url = served.socket_url + query
            async with connect(
                url, additional_headers=headers, subprotocols=subprotocols
            ) as opened:
                assert opened.subprotocol == answered
                await opened.send("hello")
                assert await opened.recv() == "hello"


async def test_what_a_stranger_says_of_its_address_is_not_believed(redis_url, caplog):
    caplog.set_level("INFO", "bridge.access")
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    async with serving(redis_url) as served, served.client(None, **forged) as client:
        answer = await client.get("/api/me")
    assert "strict-transport-security" not in answer.headers
    assert [one.client for one in caplog.records if one.name == "bridge.access"] == ["127.0.0.1"]


async def test_a_trusted_proxy_is_believed(redis_url, caplog):
    caplog.set_level("INFO", "bridge.access")
    told = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    trusting = serving(redis_url, trusted_proxies=("127.0.0.1",))
    async with trusting as served, served.client(None, **told) as client:
        answer = await client.get("/api/me")
    assert "strict-transport-security" in answer.headers
    assert [one.client for one in caplog.records if one.name == "bridge.access"] == ["203.0.113.9"]


def test_listening_prefers_ipv4_and_takes_a_free_port():
    with listen("localhost", 0) as listener:
        assert listener.family == socket.AF_INET
        assert listener.getsockname()[1] > 0
    with listen("::1", 0) as listener:
        assert listener.family == socket.AF_INET6


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid", "300.1.1.1"])
def test_an_address_that_cannot_be_listened_on_is_named(host):
    with pytest.raises(PortUnavailable, match=f"{host} is no address of this machine"):
        listen(host, 0)


async def test_the_relay_ends_while_requests_are_under_way(redis_url):
    async with serving(redis_url) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        served.server.should_exit = True
        async with asyncio.timeout(5):
            await served.stopped()
        writer.close()
