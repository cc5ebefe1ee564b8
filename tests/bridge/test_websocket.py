"""Taken-over sockets on a real uvicorn: both event loops, with and without TLS."""

import asyncio
import gc
import ssl
import struct
import sys
import time

import pytest
import websockets
from fakes.wire import EchoServer, RawClient, masked

from bridge.protocol.close_codes import CloseCode
from bridge.websocket import RelayWebSocketProtocol
from bridge.wire import Wire

MALFORMED = [
    masked(1, b"\xff"),
    masked(3, b""),
    masked(9, b"p" * 126),
    masked(0, b"a continuation of nothing"),
    masked(8, b"\x03"),
    b"\x81\x01x",  # not masked
]
LOOPS = ["asyncio"] if sys.platform == "win32" else ["asyncio", "uvloop"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A server's and a client's TLS context around a certificate made on the spot."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    signed = (
        builder.not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    return server, client


@pytest.fixture(scope="module", params=[(loop, tls) for loop in LOOPS for tls in (False, True)])
def served(request, certificate):
    """An echo server, and the TLS context its clients need."""
    loop, tls = request.param
    server_tls, client_tls = certificate if tls else (None, None)
    with EchoServer(loop, server_tls) as server:
        yield server, client_tls


@pytest.fixture(scope="module")
def server():
    with EchoServer(LOOPS[-1]) as one:
        yield one


async def connected(served, path="/echo", **more):
    server, tls = served
    return await RawClient.connect(server.port, path, tls=tls, **more)


async def test_messages_go_both_ways_in_order(served):
    client = await connected(served)
    for number in range(100):
        client.send(masked(1, b"message %d" % number))
    assert [await client.text() for _ in range(100)] == [b"message %d" % n for n in range(100)]
    client.drop()


async def test_a_large_message_arrives_whole(served):
    client = await connected(served)
    text = b"x" * 900_000
    assert await client.echo(text) == text
    client.drop()


async def test_a_close_is_answered_with_its_code_and_the_peer_is_told_once(served):
    server, _ = served
    client = await connected(served)
    await client.echo(b"hello")
    client.send(masked(8, struct.pack("!H", 3001) + b"bye"))
    assert await client.frame() == (8, struct.pack("!H", 3001))
    assert await client.rest() == b""
    peer = server.peers[-1]
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.ended == [(3001, "bye")]


async def test_our_close_waits_for_the_answer_and_the_peer_is_told_our_code(served):
    server, _ = served
    client = await connected(served)
    await client.echo(b"hello")
    peer = server.peers[-1]
    server.call(lambda: peer.socket.close(CloseCode.REPLACED))
    assert await client.closed_with() == 4409
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.ended == [(4409, "replaced by another process")]


async def test_a_lost_connection_is_told_as_1006(served):
    server, _ = served
    client = await connected(served)
    await client.echo(b"hello")
    client.drop()
    peer = server.peers[-1]
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.ended == [(1006, "connection lost")]


async def test_a_malformed_frame_is_answered_with_its_code(served):
    client = await connected(served)
    client.send(masked(3))
    assert await client.frame() == (8, struct.pack("!H", 1002) + b"unknown opcode 3")
    client.drop()


@pytest.mark.attack("S17", "a hundred thousand malformed frames beside a good client")
async def test_a_hundred_thousand_malformed_frames_leave_others_unharmed(server, figure):
    """S17: over 100 connections, each ended by its first one."""
    good = await RawClient.connect(server.port, "/echo")
    bad = [await RawClient.connect(server.port, "/echo") for _ in range(100)]
    took = []
    for number, client in enumerate(bad):
        client.send(MALFORMED[number % len(MALFORMED)] * 1_000)
        started = time.perf_counter()
        assert await good.echo(b"still here") == b"still here"
        took.append((time.perf_counter() - started) * 1000)
    codes = {await client.closed_with() for client in bad}
    assert codes == {1002, 1007}
    assert await good.echo(b"and after it") == b"and after it"
    figure(f"p50 {sorted(took)[50]:.1f} ms, p99 {sorted(took)[98]:.1f} ms of a good client's echo")
    good.drop()


async def test_pings_are_answered(served):
    client = await connected(served)
    client.send(masked(9, b"are you there"))
    assert await client.frame() == (10, b"are you there")
    client.drop()


async def test_what_came_before_the_accept_is_carried_over(served):
    server, tls = served
    client = await RawClient.open(server.port, "/held", tls=tls)
    assert await asyncio.to_thread(server.holding.wait, 10)
    client.send(masked(1, b"first") + masked(1, b"second")[:5])
    await client.writer.drain()
    server.accept_held.set()
    await client.handshake()
    assert await client.text() == b"first"
    client.drop()


async def test_an_ordinary_route_is_served_as_uvicorn_does(served):
    server, tls = served
    address = f"{'wss' if tls else 'ws'}://127.0.0.1:{server.port}/plain"
    async with websockets.connect(address, ssl=tls) as ws:
        await ws.send("hello")
        assert await ws.recv() == "hello"


async def test_a_stock_client_connects_and_closes_cleanly(server):
    address = f"ws://127.0.0.1:{server.port}/echo"
    async with websockets.connect(address, subprotocols=["acp.v1"]) as ws:
        assert ws.subprotocol == "acp.v1"
        assert ws.response.headers["Acp-Connection-Id"] == "c1"
        await ws.send("hello")
        assert await ws.recv() == "hello"
        await ws.ping()
    assert ws.close_code == 1000


@pytest.mark.attack("S19", "compression is offered")
async def test_compression_is_never_agreed_on(server):
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"
    for path in ("/echo", "/plain"):
        client = await RawClient.connect(server.port, path, headers=(offer,))
        assert b"extensions" not in client.head.lower()
        client.drop()


async def test_what_goes_out_in_one_loop_turn_is_one_write(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket
    writes = []

    class Recorder:
        def write(self, data):
            writes.append(data)

    def send_many():
        transport, socket._transport = socket._transport, Recorder()
        for number in range(10):
            socket.send(b"%d" % number)
        socket.flush()
        socket._transport = transport

    server.call(send_many)
    assert writes == [b"".join(b"\x81\x01%d" % n for n in range(10))]
    client.drop()


async def test_frames_and_texts_keep_their_order(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket

    def send_both():
        socket.send(b"1")
        socket.write(b"\x81\x012")
        socket.send(b"3")
        assert socket.buffered >= 9

    server.call(send_both)
    assert [await client.text() for _ in range(3)] == [b"1", b"2", b"3"]
    client.drop()


async def test_a_close_in_the_same_turn_comes_after_what_was_sent(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket

    def send_and_close():
        socket.send(b"last words")
        socket.close(CloseCode.GOING_AWAY)
        socket.send(b"too late")
        assert not socket.is_open

    server.call(send_and_close)
    assert await client.text() == b"last words"
    assert await client.closed_with() == 1001


async def test_a_failing_peer_closes_only_its_own_socket(server):
    good = await RawClient.connect(server.port)
    bad = await RawClient.connect(server.port)
    bad.send(masked(1, b"fail"))
    assert await bad.closed_with() == 1011
    assert await good.echo(b"still here") == b"still here"
    good.drop()


async def test_a_silent_client_is_pinged_and_then_cut(server):
    """C07, C08."""
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    peer = server.peers[-1]
    server.call(lambda: peer.socket.tick(peer.socket.last_heard + 20))
    assert await client.frame() == (9, b"")
    server.call(lambda: peer.socket.tick(peer.socket.last_heard + 30))  # one ping is enough
    server.call(lambda: peer.socket.tick(peer.socket.last_heard + 41))
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.ended == [(1006, "no answer to a ping")]
    client.drop()


async def test_an_answer_to_the_ping_keeps_the_socket(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket
    for _ in range(2):  # a second ping shows that the first was answered
        server.call(lambda: socket.tick(socket.last_heard + 20))
        assert await client.frame() == (9, b"")
        client.send(masked(10, b""))
        await client.echo(b"again")
    client.drop()


async def test_a_client_that_says_nothing_is_closed_at_its_deadline(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket
    server.call(lambda: socket.expect_within(10))
    server.call(lambda: socket.tick(socket.last_heard + 11))
    assert await client.closed_with() == 4400


async def test_a_message_lifts_the_deadline(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    socket = server.peers[-1].socket
    server.call(lambda: socket.expect_within(10))
    await client.echo(b"in time")
    server.call(lambda: socket.tick(socket.last_heard + 11))
    assert await client.echo(b"still here") == b"still here"
    client.drop()


async def test_a_client_that_does_not_answer_the_close_is_cut(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    peer = server.peers[-1]
    server.call(lambda: peer.socket.close(CloseCode.TOO_SLOW))
    server.call(lambda: peer.socket.tick(peer.socket.last_heard + 5))
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.ended == [(4408, "too slow")]
    client.drop()


async def test_reading_can_be_paused_and_resumed(server):
    client = await RawClient.connect(server.port)
    await client.echo(b"hello")
    peer = server.peers[-1]
    server.call(peer.socket.pause_reading)
    client.send(masked(1, b"later"))
    await client.writer.drain()
    server.call(peer.socket.resume_reading)
    assert await client.text() == b"later"
    client.drop()


async def test_one_address_has_its_cap_and_hears_so_before_the_accept():
    with EchoServer(per_address=1) as server:
        first = await RawClient.connect(server.port)
        refused = await RawClient.open(server.port, "/echo")
        answer = await refused.rest()
        assert answer.startswith(b"HTTP/1.1 429")
        assert b"retry-after: 10" in answer.lower()
        assert b"127.0.0.1 has 1 connections" in answer
        other = await RawClient.connect(server.port, source="127.0.0.2")
        first.drop()
        other.drop()


async def test_a_full_relay_says_so_and_a_lost_socket_makes_room():
    with EchoServer(total=1) as server:
        first = await RawClient.connect(server.port)
        refused = await RawClient.open(server.port, "/echo")
        assert (await refused.rest()).startswith(b"HTTP/1.1 503")
        first.drop()
        assert await asyncio.to_thread(server.peers[0].gone.wait, 10)
        again = await RawClient.connect(server.port)
        again.drop()


@pytest.mark.parametrize("loop", LOOPS)
async def test_shutdown_closes_every_socket_with_1012_and_ends(loop):
    with EchoServer(loop) as server:
        clients = [await RawClient.connect(server.port) for _ in range(20)]
        deaf = await RawClient.connect(server.port)
        stopping = asyncio.create_task(asyncio.to_thread(server.stop))
        assert {await client.closed_with() for client in clients} == {1012}
        await stopping
        assert not server.server.server_state.connections
        deaf.drop()


async def test_an_idle_socket_keeps_no_task_and_no_asgi_state():
    with EchoServer() as server:
        clients = [await RawClient.connect(server.port) for _ in range(20)]
        for client in clients:
            await client.echo(b"hello")

        def count():
            gc.collect()
            state = server.server.server_state
            protocols = [
                one
                for one in gc.get_objects()
                if isinstance(one, RelayWebSocketProtocol) and one.connections is state.connections
            ]
            return len(protocols), len(state.tasks), len(asyncio.all_tasks())

        protocols, tasks, all_tasks = server.call(count)
        assert (protocols, tasks) == (0, 0)
        assert all_tasks <= 3  # the server, its lifespan and this call
        for client in clients:
            client.drop()


async def test_one_timer_serves_all_sockets_and_stops_with_the_last():
    with EchoServer() as server:
        client = await RawClient.connect(server.port)
        await client.echo(b"hello")
        socket = server.peers[0].socket
        wire: Wire = socket._wire
        assert wire._timer is not None
        client.drop()
        assert await asyncio.to_thread(server.peers[0].gone.wait, 10)
        server.call(wire._tick)
        assert wire._timer is None
