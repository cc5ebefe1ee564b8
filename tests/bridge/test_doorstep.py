"""Connections that send half of a request, or nothing: they are cut, and hinder nobody."""

import asyncio
import itertools
import sys
import time
from asyncio.subprocess import PIPE

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.served import serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bridge import doorstep
from bridge.doorstep import RelayHttpProtocol, doorstep_of

SOURCES = itertools.cycle(f"127.0.0.{n}" for n in range(2, 250))


async def ends(reader) -> bytes:
    """Wait until the relay has cut the line; gives what it said before."""
    try:
        async with asyncio.timeout(15):
            return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.fixture
def hasty(monkeypatch):
    """A relay with little patience."""
    monkeypatch.setattr(RelayHttpProtocol, "head_seconds", 0.2)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nUpgrade: websocket"],
    ids=["nothing", "a word", "half a head", "half a handshake"],
)
async def test_who_sends_no_whole_head_is_cut(redis_url, hasty, sent):
    async with serving(redis_url) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(sent)
        assert await ends(reader) == b""
        writer.close()
        assert len(doorstep_of(served.server.server_state)) == 0


async def test_a_byte_now_and_then_does_not_buy_more_time(redis_url, hasty):
    async with serving(redis_url) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        cut = asyncio.create_task(ends(reader))
        for byte in itertools.cycle(b"X-A: b\r\n"):
            writer.write(bytes([byte]))
            done, _ = await asyncio.wait({cut}, timeout=0.05)
            if done:
                break
        writer.close()


async def test_the_second_request_of_a_connection_has_the_same_deadline(redis_url, hasty):
    async with serving(redis_url) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /healthz HTT")
        assert b"HTTP/1.1" not in await ends(reader)
        writer.close()


async def test_a_head_without_end_is_refused(redis_url):
    async with serving(redis_url) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET / HTTP/1.1\r\n" + b"X-A: bbbbbbbbbbbbbbbbbbbb\r\n" * 4000)
        assert (await ends(reader)).startswith(b"HTTP/1.1 400")
        writer.close()


async def test_of_too_many_that_wait_the_oldest_is_cut(redis_url, monkeypatch):
    monkeypatch.setattr(doorstep, "WAITING_MOST", 2)
    async with serving(redis_url) as served:
        lines = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(3)]
        assert await ends(lines[0][0]) == b""
        for _, writer in lines:
            writer.close()


@pytest.mark.parametrize("peer", [ClientPeer, UplinkPeer], ids=["dashboard", "connector"])
async def test_who_opens_a_websocket_and_says_nothing_is_closed(redis_url, peer, figure):
    async with serving(redis_url) as served, peer(served) as silent:
        began = time.monotonic()
        assert await silent.closed() == 4400
        took = time.monotonic() - began
    figure(f"a silent websocket was closed after {took:.1f} s")
    assert took < 8


FLOOD = """
import itertools, socket, sys
port, count, sent = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode()
sources = itertools.cycle(f"127.0.0.{n}" for n in range(2, 250))
lines = []
for _ in range(count):
    lines.append(socket.create_connection(("127.0.0.1", port), 20, (next(sources), 0)))
    lines[-1].sendall(sent)
print("open", flush=True)
for line in lines:
    try:
        line.recv(1)
    except OSError:
        pass
print("cut", flush=True)
"""


async def flood(served, count: int, sent: str):
    """Open lines from many addresses, in a process of their own."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", FLOOD, str(served.port), str(count), sent, stdout=PIPE
    )


async def unauthenticated(served):
    """Ask for a websocket without a token, and stay on the line."""
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"ws://127.0.0.1:{served.port}/acp", local_addr=(next(SOURCES), 0))
    assert refused.value.response.status_code == 401


@pytest.mark.attack("S30", "half-sent handshakes and idle lines from many addresses")
async def test_a_flood_of_half_sent_handshakes_hinders_no_good_client(redis_url, figure):
    """S30."""
    async with serving(redis_url) as served:
        half = "GET /acp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
        slow, many = await flood(served, 500, half), await flood(served, 2000, "")
        times = []
        for _ in range(100):
            began = time.monotonic()
            async with ClientPeer(served) as good:
                await good.initialize()
            times.append(time.monotonic() - began)
            await unauthenticated(served)
        for one in (slow, many):
            assert (await one.communicate())[0] == b"open\ncut\n"
        left = len(doorstep_of(served.server.server_state)), served.relay.admission.taken
    worst = sorted(times)[98]
    figure(f"S30: 2,500 idle lines; a good client is in within {worst * 1000:.0f} ms (p99)")
    assert worst < 1
    assert left == (0, 0)
