"""Our frames against the `websockets` package's own state machine, byte for byte."""

import struct
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN, SERVER, Protocol

from bridge.frames import Ending, FrameReader, close_frame, ping_frame, pong_frame, text_frame

LIMIT = 70_000
CLOSE = 8


def frame(opcode, payload=b"", *, fin=True, rsv=0, masked=True, key=b"\x01\x02\x03\x04", size=None):
    """A client's frame, as wrong as asked for."""
    first = (0x80 if fin else 0) | rsv | opcode
    length = len(payload) if size is None else size
    bit = 0x80 if masked else 0
    if length < 126:
        head = bytes((first, bit | length))
    elif length < 1 << 16:
        head = struct.pack("!BBH", first, bit | 126, length)
    else:
        head = struct.pack("!BBQ", first, bit | 127, length)
    body = bytes(b ^ key[i % 4] for i, b in enumerate(payload)) if masked else payload
    return head + (key if masked else b"") + body


def ours(chunks, limit=LIMIT):
    """Everything that a reader says of a stream: messages, pings, the ending."""
    reader = FrameReader(limit)
    messages, pings = [], []
    for chunk in chunks:
        received = reader.feed(chunk)
        messages += received.messages
        pings += received.pings
    return messages, pings, reader.ending


def theirs(stream):
    """The same from the oracle, whose UTF-8 check sits a layer higher."""
    protocol = Protocol(SERVER, state=OPEN, max_size=LIMIT)
    protocol.receive_data(stream)
    messages, pings, parts = [], [], []
    for event in protocol.events_received():
        if event.opcode is Opcode.PING:
            pings.append(bytes(event.data))
        elif event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            parts.append(bytes(event.data))
            if event.fin:
                messages.append(b"".join(parts))
                parts = []
                if not is_utf8(messages[-1]):
                    return messages[:-1], None, 1007
    if protocol.parser_exc is not None:
        return messages, pings, protocol.close_sent.code
    return messages, pings, protocol.close_rcvd.code if protocol.close_rcvd else None


def is_utf8(payload):
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def chopped(stream, cuts):
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(places)]


KEYS = st.sampled_from([b"\0\0\0\0", b"\x01\x02\x03\x04", b"\xff\0\xaa\x7f"])
SIZES = st.sampled_from([0, 1, 2, 125, 126, 127, 300, 65_535, 65_536])
TEXTS = st.one_of(
    st.text(max_size=40).map(str.encode),
    SIZES.map(lambda n: b"x" * n),
    st.sampled_from([b"\xff", b"\xc3", "é😀".encode(), b"\xed\xa0\x80"]),
)
CLOSES = st.one_of(
    st.just(b""),
    st.sampled_from([b"\x03", struct.pack("!H", 1000) + b"\xff"]),
    st.builds(
        lambda code, reason: struct.pack("!H", code) + reason.encode(),
        st.sampled_from([0, 999, 1000, 1003, 1004, 1005, 1006, 1007, 1014, 1015, 2999, 3000, 4999])
        | st.integers(0, 65_535),
        st.text(max_size=10),
    ),
)
DATA = st.builds(frame, st.sampled_from([1, 2, 0]), TEXTS, fin=st.booleans(), key=KEYS)
WHOLE = st.builds(frame, st.sampled_from([1, 2]), TEXTS, key=KEYS)
CONTROL = st.builds(frame, st.sampled_from([9, 10]), st.binary(max_size=125), key=KEYS)
CLOSING = CLOSES.map(lambda payload: frame(CLOSE, payload))
BROKEN = st.one_of(
    st.builds(frame, st.sampled_from([3, 7, 11, 15]), st.just(b"")),
    st.builds(
        frame, st.sampled_from([0, 1, 8, 9]), st.just(b""), rsv=st.sampled_from([64, 32, 16])
    ),
    st.builds(frame, st.sampled_from([1, 9]), st.just(b""), masked=st.just(False)),
    st.builds(frame, st.sampled_from([8, 9, 10]), st.just(b"y" * 126)),
    st.builds(frame, st.sampled_from([9, 10]), st.just(b"y"), fin=st.just(False)),
    st.builds(frame, st.just(1), st.just(b""), size=st.sampled_from([LIMIT + 1, 1 << 62, 1 << 63])),
)
STREAMS = st.lists(st.one_of(WHOLE, DATA, CONTROL, WHOLE, CLOSING, BROKEN), max_size=8).map(
    b"".join
)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


@given(STREAMS, CUTS)
@settings(max_examples=150, deadline=None)
@example(frame(1, b"a", fin=False) + frame(9, b"p") + frame(0, b"b"), [1, 2, 3, 9, 10])
def test_any_stream_in_any_pieces_reads_as_the_oracle_reads_it(stream, cuts):
    messages, pings, ending = ours(chopped(stream, cuts))
    expected_messages, expected_pings, expected_code = theirs(stream)
    assert messages == expected_messages
    assert (ending.code if ending else None) == expected_code
    if expected_pings is not None:
        assert pings == expected_pings


@given(st.binary(max_size=200), CUTS)
@settings(max_examples=150, deadline=None)
def test_noise_never_raises_and_fails_where_the_oracle_fails(noise, cuts):
    messages, _, ending = ours(chopped(noise, cuts))
    expected_messages, _, expected_code = theirs(noise)
    assert messages == expected_messages
    if expected_code is not None:  # the oracle waits for a bad frame's whole payload, we do not
        assert ending is not None


@given(STREAMS, st.integers(1, 5))
@settings(max_examples=50, deadline=None)
def test_pieces_of_a_few_bytes_read_as_the_whole(stream, step):
    stream = stream[:3000]
    pieces = [stream[i : i + step] for i in range(0, len(stream), step)]
    assert ours(pieces) == ours([stream])


@given(SIZES.map(lambda n: b"z" * n) | st.text().map(str.encode))
@settings(max_examples=50, deadline=None)
def test_what_we_send_is_what_the_oracle_would_send(payload):
    assert text_frame(payload) == Frame(Opcode.TEXT, payload).serialize(mask=False)
    assert ping_frame(payload[:125]) == Frame(Opcode.PING, payload[:125]).serialize(mask=False)
    assert pong_frame(payload[:125]) == Frame(Opcode.PONG, payload[:125]).serialize(mask=False)


def test_a_close_frame_carries_its_code_and_reason():
    expected = Frame(Opcode.CLOSE, Close(4408, "too slow").serialize()).serialize(mask=False)
    assert close_frame(4408, "too slow") == expected


def test_a_long_reason_is_cut_between_characters():
    sent = close_frame(1000, "é" * 100)
    assert sent[1] == 124
    assert Close.parse(sent[2:]).reason == "é" * 61


def test_a_close_without_a_code_is_answered_without_one():
    _, _, ending = ours([frame(CLOSE)])
    assert ending == Ending(1005, "", failed=False)
    assert close_frame(1005) == b"\x88\x00"


def test_messages_before_a_fault_are_given():
    messages, _, ending = ours([frame(1, b"good") + frame(3)])
    assert messages == [b"good"]
    assert ending == Ending(1002, "unknown opcode 3", failed=True)


def test_nothing_is_read_after_an_ending():
    messages, pings, _ = ours([frame(CLOSE) + frame(1, b"late"), frame(9, b"late")])
    assert (messages, pings) == ([], [])


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (frame(1, b"\xff"), 1007),
        (frame(2, b"\xff"), 1007),
        (frame(1, b"\xc3", fin=False) + frame(0, b"\x28"), 1007),
        (frame(1, b"x", masked=False), 1002),
        (frame(1, b"x", rsv=64), 1002),
        (frame(3), 1002),
        (frame(9, b"p" * 126), 1002),
        (frame(9, b"p", fin=False), 1002),
        (frame(0, b"x"), 1002),
        (frame(1, b"x", fin=False) + frame(1, b"y"), 1002),
        (frame(1, b"x", fin=False) + frame(CLOSE), 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, struct.pack("!H", 999)), 1002),
        (frame(CLOSE, struct.pack("!H", 1005)), 1002),
        (frame(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
        (frame(1, size=1 << 63), 1009),
        (frame(1, size=LIMIT + 1), 1009),
    ],
    ids=[
        "bad UTF-8",
        "bad UTF-8 in a binary frame",
        "bad UTF-8 over two fragments",
        "unmasked",
        "reserved bit",
        "opcode 3",
        "ping of 126",
        "fragmented ping",
        "continuation first",
        "text amid fragments",
        "close amid fragments",
        "close of one byte",
        "close 999",
        "close 1005",
        "close with bad UTF-8",
        "2^63 bytes",
        "one byte too many",
    ],
)
def test_a_malformed_frame_ends_with_its_code(stream, code):
    """S16."""
    _, _, ending = ours([stream])
    assert (ending.code, ending.failed) == (code, True)


def test_a_size_over_the_limit_is_refused_before_its_mask_or_payload_comes():
    _, _, ending = ours([frame(1, size=1 << 63)[:10]])
    assert ending.code == 1009


def test_fragments_are_counted_together():
    parts = [frame(1, b"x" * 600, fin=False), frame(0, b"x" * 600)]
    assert ours(parts, limit=1200)[0] == [b"x" * 1200]
    assert ours(parts, limit=1199)[2].code == 1009


@pytest.mark.attack("S17", "a hundred thousand empty fragments")
def test_a_hundred_thousand_empty_fragments_are_one_message():
    """S17."""
    stream = frame(1, b"a", fin=False) + frame(0, fin=False) * 100_000 + frame(0, b"b")
    assert ours([stream])[0] == [b"ab"]


def test_a_message_of_one_byte_fragments_costs_its_bytes_only():
    reader = FrameReader(LIMIT)
    reader.feed(frame(1, b"x", fin=False) + frame(0, b"x", fin=False) * 10_000)
    assert len(reader._fragments) == 10_001


def test_a_large_message_in_small_pieces_is_not_copied_each_time():
    payload = b"x" * 65_536
    stream = frame(1, payload)
    reader = FrameReader(LIMIT)
    for start in range(0, len(stream) - 1, 16):
        reader.feed(stream[start : start + 16][: len(stream) - 1 - start])
        assert reader._rest is not None
    assert reader.feed(stream[-1:]).messages == [payload]
