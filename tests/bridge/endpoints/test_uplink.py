"""``GET /uplink``: who may attach an agent, and what the handshake answers."""

import pytest
from fakes.peers import Peer, UplinkPeer
from fakes.served import serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bridge.protocol.acp import Role
from bridge.protocol.uplink import SUBPROTOCOL


def url(process):
    return f"ws://127.0.0.1:{process.port}/uplink"


async def refused(process, **options):
    """Try to attach and give the status of the refusal and its text."""
    with pytest.raises(InvalidStatus) as failure:
        async with connect(url(process), **options):
            pass
    response = failure.value.response
    return response.status_code, response.body.decode()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_an_agents_token_gets_in_under_the_uplinks_subprotocol(process):
    async with UplinkPeer(process) as peer:
        assert peer.socket.subprotocol == SUBPROTOCOL
        assert (await peer.hello())["relay"]["node"] == process.relay.node


async def test_a_token_among_the_subprotocols_gets_in(process):
    offered = [SUBPROTOCOL, f"bearer.{process.token(kind='agent')}"]
    async with connect(url(process), subprotocols=offered) as socket:
        assert socket.subprotocol == SUBPROTOCOL


@pytest.mark.parametrize("token", ["forged", None], ids=["forged", "a person's"])
async def test_another_token_does_not_get_in(process, token):
    headers = bearer(token or process.token(Role.ADMIN))
    status, text = await refused(process, subprotocols=[SUBPROTOCOL], additional_headers=headers)
    assert status == 401
    assert "token" in text


async def test_without_a_token_it_is_said_where_to_get_one(process):
    status, text = await refused(process, subprotocols=[SUBPROTOCOL])
    assert status == 401
    assert "chimera-relay token --kind agent" in text


async def test_without_the_subprotocol_it_is_said_which_one(process):
    headers = bearer(process.token(kind="agent"))
    status, text = await refused(process, additional_headers=headers)
    assert status == 400
    assert SUBPROTOCOL in text


async def test_the_pages_cookie_attaches_no_agent(process):
    async with process.signed_in() as browser:
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    options = {"additional_headers": {"Cookie": cookie}, "origin": process.url}
    status, _ = await refused(process, subprotocols=[SUBPROTOCOL], **options)
    assert status == 401


async def test_who_says_nothing_is_closed(monkeypatch, process):
    monkeypatch.setattr("bridge.uplink.HELLO_SECONDS", 0.0)
    headers = bearer(process.token(kind="agent"))
    options = {"subprotocols": [SUBPROTOCOL], "additional_headers": headers}
    async with Peer(url(process), **options) as silent:
        assert await silent.closed() == 4400


async def test_a_frame_over_the_limit_closes_the_uplink(redis_url):
    limit = 64 << 10
    async with serving(redis_url, uplink_frame_bytes=limit) as small, UplinkPeer(small) as peer:
        assert (await peer.hello())["limits"]["frameBytes"] == limit
        await peer.say(b" " * (limit + 1))
        assert await peer.closed() == 1009
