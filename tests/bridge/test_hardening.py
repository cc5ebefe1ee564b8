"""Hostile clients on real sockets: each gets the right close code, and nobody else notices."""

import asyncio
import struct
import zlib
from pathlib import Path

import pytest
from fakes.wire import FRAME_LIMIT, EchoServer, RawClient, masked

PAGE = 4096


@pytest.fixture(scope="module")
def server():
    with EchoServer() as one:
        yield one


@pytest.fixture
async def bystander(server):
    """A well-behaved client that is connected all the while, and must still be served after."""
    client = await RawClient.connect(server.port)
    await client.echo(b"before")
    yield client
    assert await client.echo(b"after") == b"after"
    client.drop()


def unmasked(opcode, payload=b""):
    return bytes((0x80 | opcode, len(payload))) + payload


MALFORMED = {
    "text that is not UTF-8": (masked(1, b"\xc3\x28"), 1007),
    "UTF-8 cut off at the end": (masked(1, "é".encode()[:1]), 1007),
    "a surrogate in UTF-8": (masked(1, b"\xed\xa0\x80"), 1007),
    "bad UTF-8 over two fragments": (masked(1, b"\xc3", fin=False) + masked(0, b"\x28"), 1007),
    "an unmasked frame": (unmasked(1, b"hello"), 1002),
    "an unmasked ping": (unmasked(9), 1002),
    "reserved bit 1, as compression sets it": (masked(1, b"x", rsv=0x40), 1002),
    "reserved bit 2": (masked(1, b"x", rsv=0x20), 1002),
    "reserved bit 3": (masked(1, b"x", rsv=0x10), 1002),
    "opcode 3": (masked(3, b"x"), 1002),
    "opcode 15": (masked(15, b"x"), 1002),
    "a ping of 126 bytes": (masked(9, b"p" * 126), 1002),
    "a fragmented ping": (masked(9, b"p", fin=False), 1002),
    "a continuation first": (masked(0, b"x"), 1002),
    "a text amid fragments": (masked(1, b"x", fin=False) + masked(1, b"y"), 1002),
    "a close of one byte": (masked(8, b"\x03"), 1002),
    "close code 999": (masked(8, struct.pack("!H", 999)), 1002),
    "close code 1005": (masked(8, struct.pack("!H", 1005)), 1002),
    "close code 1006": (masked(8, struct.pack("!H", 1006)), 1002),
    "close code 5000": (masked(8, struct.pack("!H", 5000)), 1002),
    "a close reason that is not UTF-8": (masked(8, struct.pack("!H", 1000) + b"\xff"), 1007),
    "a length of 2^63": (b"\x81\xff" + struct.pack("!Q", 1 << 63), 1009),
    "a length of 2^64 - 1": (b"\x82\xff" + b"\xff" * 8, 1009),
    "a message over the limit": (masked(1, bytes(FRAME_LIMIT + 1)), 1009),
    "fragments over the limit together": (
        masked(1, b"x" * FRAME_LIMIT, fin=False) + masked(0, b"x"),
        1009,
    ),
    "sixteen fragments of a mebibyte": (
        masked(1, b"x" * (1 << 20), fin=False) + masked(0, b"x" * (1 << 20), fin=False) * 15,
        1009,
    ),
    "a deflate bomb": (masked(1, zlib.compress(bytes(50 << 20)), rsv=0x40), 1002),
    "an HTTP request": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1002),
}


@pytest.mark.attack("S16", "malformed frames at the relay's own websocket")
@pytest.mark.parametrize("kind", MALFORMED)
async def test_a_malformed_frame_is_answered_with_its_code(server, bystander, kind):
    stream, code = MALFORMED[kind]
    client = await RawClient.connect(server.port)
    client.send(stream)
    assert await client.closed_with() == code
    peer = server.peers[-1]
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert [ended[0] for ended in peer.ended] == [code]


@pytest.mark.parametrize("kind", MALFORMED)
async def test_what_came_before_a_malformed_frame_is_served(server, bystander, kind):
    stream, code = MALFORMED[kind]
    client = await RawClient.connect(server.port)
    client.send(masked(1, b"good") + stream)
    assert await client.text() == b"good"
    assert await client.closed_with() == code


async def test_ten_thousand_empty_fragments_are_one_message(server, bystander):
    client = await RawClient.connect(server.port)
    client.send(masked(1, b"a", fin=False) + masked(0, fin=False) * 10_000 + masked(0, b"b"))
    assert await client.text() == b"ab"
    client.drop()


async def test_a_ping_amid_fragments_is_answered_before_the_message(server, bystander):
    client = await RawClient.connect(server.port)
    client.send(masked(1, b"a", fin=False) + masked(9, b"now") + masked(0, b"b", fin=False))
    assert await client.frame() == (10, b"now")
    client.send(masked(0, b"c"))
    assert await client.text() == b"abc"
    client.drop()


async def test_a_flood_of_pings_is_answered_with_the_latest(server, bystander):
    client = await RawClient.connect(server.port)
    client.send(b"".join(masked(9, b"%d" % number) for number in range(10_000)))
    opcode, payload = await client.frame()
    while payload != b"9999":
        opcode, payload = await client.frame()
        assert opcode == 10
    client.drop()


async def test_a_frame_sent_byte_by_byte_is_read(server, bystander):
    client = await RawClient.connect(server.port)
    for byte in masked(1, b"slowly"):
        client.send(bytes((byte,)))
        await client.writer.drain()
    assert await client.text() == b"slowly"
    client.drop()


async def test_what_follows_a_close_is_never_delivered(server, bystander):
    client = await RawClient.connect(server.port)
    client.send(masked(8, struct.pack("!H", 1000)) + masked(1, b"ghost"))
    assert await client.closed_with() == 1000
    peer = server.peers[-1]
    assert await asyncio.to_thread(peer.gone.wait, 10)
    assert peer.got == []


async def test_what_follows_a_malformed_frame_is_never_delivered(server, bystander):
    client = await RawClient.connect(server.port)
    client.send(masked(3) + masked(1, b"ghost") * 100)
    assert await client.closed_with() == 1002
    assert server.peers[-1].got == []


async def test_a_hundred_hostile_clients_leave_the_others_alone(server, bystander):
    async def attack(number):
        client = await RawClient.connect(server.port)
        stream, code = list(MALFORMED.values())[number % 20]
        client.send(stream * 50)
        assert await client.closed_with() == code

    async def use():
        for number in range(200):
            assert await bystander.echo(b"%d" % number) == b"%d" % number

    await asyncio.gather(use(), *(attack(number) for number in range(100)))


@pytest.mark.attack("S19", "fragments and giants that are announced")
async def test_an_announced_giant_costs_no_memory(server, bystander, figure):
    """The size in a header is checked, never allocated."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE

    before = resident()
    for _ in range(50):
        client = await RawClient.connect(server.port)
        client.send(b"\x81\xff" + struct.pack("!Q", (1 << 40) - 1) + b"mask" + b"x" * 1000)
        assert await client.closed_with() == 1009
    grown = resident() - before
    figure(f"{grown / 50 / 1024:.0f} KiB a socket")
    assert grown < 16 << 20


async def test_half_frames_are_held_and_freed(server, bystander):
    clients = [await RawClient.connect(server.port) for _ in range(20)]
    for client in clients:
        client.send(masked(9, b"there?") + masked(1, b"x" * 1000)[:-1])
        # Who answers a ping has its peer; the handshake's answer may come before.
        assert await client.frame() == (10, b"there?")
    for client in clients:
        client.drop()
    for peer in server.peers[-20:]:
        assert await asyncio.to_thread(peer.gone.wait, 10)
        assert peer.got == []
