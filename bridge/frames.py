"""Websocket frames as RFC 6455 has them, without I/O: bytes in, whole messages out, and back.

A server's side only: what comes in must be masked, what goes out is not, and no extension is
ever agreed on, so a reserved bit is an error.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.protocol.close_codes import CloseCode

try:
    from websockets.speedups import apply_mask
except ImportError:  # no compiled wheel for this platform
    from websockets.utils import apply_mask

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_FIN, _RESERVED, _MASKED = 0x80, 0x70, 0x80
_WHOLE_TEXT = _FIN | _TEXT
_FIRST_BYTES = frozenset(
    {_CONTINUATION, _TEXT, _BINARY}
    | {_FIN | opcode for opcode in (_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG)}
)
_CONTROL_LIMIT = 125  # bytes, RFC 6455 section 5.5
_NO_MASK = bytes(4)
_SHORTEST = 2  # bytes of a frame's header that are always there
_TWO_BYTES = 126  # in place of a size: it follows in two bytes; 127: in eight
_USUAL = bytes((_WHOLE_TEXT, _MASKED | _TWO_BYTES))  # text of 126 bytes to 64 KiB
_USUAL_HEADER, _USUAL_LIMIT = 8, 1 << 16  # bytes
_NO_STATUS = 1005  # RFC 6455 section 7.4.1: a close frame without a code


class Ending(NamedTuple):
    """Why no more will be read: the other side's close frame, or what it did wrong."""

    code: int
    reason: str
    failed: bool  # it broke the protocol, and is told so with this code


class Received(NamedTuple):
    """What one read brought, in order of arrival within each field."""

    messages: list[bytes]  # whole, unmasked, valid UTF-8
    pings: list[bytes]
    ending: Ending | None  # came after all of the above


_NOTHING = Received([], [], None)


class FrameReader:
    """Takes a client's bytes as they come and gives its messages; fails once and for all."""

    __slots__ = ("_fragments", "_limit", "_need", "_pings", "_rest", "ending")

    def __init__(self, limit: int) -> None:
        """Refuse messages of more than ``limit`` bytes."""
        self.ending: Ending | None = None
        self._limit = limit
        self._rest: bytearray | None = None  # the beginning of a frame that is not whole yet
        self._need = 0  # bytes that it needs before looking at it again is worth it
        self._fragments: bytearray | None = None  # of a message that is not whole yet
        self._pings: list[bytes] = []

    def feed(self, data: bytes) -> Received:
        """Take the next bytes; after an ending everything is ignored."""
        if self.ending is not None:
            return _NOTHING
        if self._rest is not None:
            self._rest += data
            if len(self._rest) < self._need:
                return _NOTHING
            data = bytes(self._rest)
            self._rest = None
        messages: list[bytes] = []
        try:
            position = self._take_usual(data, messages)
            if position < len(data):
                self._read(data, position, messages)
        except _Broken as broken:
            self.ending = Ending(broken.code, broken.reason, failed=True)
        pings, self._pings = self._pings, []
        return Received(messages, pings, self.ending)

    def _take_usual(self, data: bytes, messages: list[bytes]) -> int:
        """Take the whole text messages of usual size that a read begins with; most are such."""
        position, end = 0, len(data)
        if self._fragments is not None or self._limit < _USUAL_LIMIT:
            return 0
        while data[position : position + 2] == _USUAL and end - position >= _USUAL_HEADER:
            start = position + _USUAL_HEADER
            stop = start + (data[position + 2] << 8 | data[position + 3])
            if stop > end:
                break
            payload, mask = data[start:stop], data[start - 4 : start]
            if mask != _NO_MASK:
                payload = apply_mask(payload, mask)
            messages.append(payload if payload.isascii() else _utf8(payload))
            position = stop
        return position

    def _read(self, data: bytes, position: int, messages: list[bytes]) -> None:
        end = len(data)
        while end - position >= _SHORTEST:
            first = data[position]
            start, size = self._header(data, position, end)
            stop = start + size
            if end < stop:
                return self._keep(data, position, stop)
            payload, mask = data[start:stop], data[start - 4 : start]
            if mask != _NO_MASK:
                payload = apply_mask(payload, mask)
            position = stop
            if first == _WHOLE_TEXT:
                messages.append(payload if payload.isascii() else _utf8(payload))
            elif self._take(first, payload, messages):
                return None
        return self._keep(data, position, position + _SHORTEST) if position < end else None

    def _header(self, data: bytes, position: int, end: int) -> tuple[int, int]:
        """Give where a frame's payload starts and its size; past the end while not known."""
        first, second = data[position], data[position + 1]
        if second < _MASKED or first not in _FIRST_BYTES:
            raise _Broken(CloseCode.PROTOCOL_ERROR, _refused_header(first))
        size, start = second & 0x7F, position + 6
        if size > _CONTROL_LIMIT:
            if first & _CLOSE:
                raise _Broken(CloseCode.PROTOCOL_ERROR, "control frame too long")
            extra = 2 if size == _TWO_BYTES else 8
            start += extra
            if end < start - 4:  # the size itself is still to come
                return start - 4, 0
            size = int.from_bytes(data[position + 2 : position + 2 + extra], "big")
        if first != _WHOLE_TEXT or self._fragments is not None or size > self._limit:
            self._check_header(first, size)
        return start, size

    def _check_header(self, first: int, size: int) -> None:
        """Refuse a frame before its payload is waited for."""
        opcode = first & 0x0F
        if opcode >= _CLOSE:
            return
        if size + len(self._fragments or b"") > self._limit:
            raise _Broken(CloseCode.TOO_BIG, f"message over {self._limit} bytes")
        if opcode == _CONTINUATION and self._fragments is None:
            raise _Broken(CloseCode.PROTOCOL_ERROR, "unexpected continuation frame")
        if opcode != _CONTINUATION and self._fragments is not None:
            raise _Broken(CloseCode.PROTOCOL_ERROR, "expected a continuation frame")

    def _take(self, first: int, payload: bytes, messages: list[bytes]) -> bool:
        """Take a frame that is not a whole text message; True after a close frame."""
        opcode = first & 0x0F
        if opcode == _CLOSE:
            self.ending = self._close(payload)
            return True
        if opcode == _PING:
            self._pings.append(payload)
        elif opcode != _PONG:
            self._join(first, payload, messages)
        return False

    def _join(self, first: int, payload: bytes, messages: list[bytes]) -> None:
        if first & _FIN and self._fragments is None:
            messages.append(_utf8(payload))
            return
        if self._fragments is None:
            self._fragments = bytearray()
        self._fragments += payload
        if first & _FIN:
            messages.append(_utf8(bytes(self._fragments)))
            self._fragments = None

    def _close(self, payload: bytes) -> Ending:
        if len(payload) == 1:
            raise _Broken(CloseCode.PROTOCOL_ERROR, "close frame of one byte")
        code = int.from_bytes(payload[:2], "big") if payload else _NO_STATUS
        reason = _utf8(payload[2:]).decode()
        if payload and not _may_be_sent(code):
            raise _Broken(CloseCode.PROTOCOL_ERROR, f"close frame with the code {code}")
        if self._fragments is not None:
            raise _Broken(CloseCode.PROTOCOL_ERROR, "incomplete fragmented message")
        return Ending(code, reason, failed=False)

    def _keep(self, data: bytes, position: int, stop: int) -> None:
        self._rest = bytearray(data[position:])
        self._need = stop - position


def text_frame(payload: bytes) -> bytes:
    """Make a whole text message's frame."""
    size = len(payload)
    if _CONTROL_LIMIT < size < 1 << 16:  # the usual size, without a call
        return b"\x81\x7e%b%b" % (size.to_bytes(2, "big"), payload)
    return _header(_WHOLE_TEXT, size) + payload


def ping_frame(payload: bytes = b"") -> bytes:
    """Make a ping of at most 125 bytes."""
    return _header(_FIN | _PING, len(payload)) + payload


def pong_frame(payload: bytes) -> bytes:
    """Make the answer to a ping."""
    return _header(_FIN | _PONG, len(payload)) + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """Make a close frame, its reason cut to what fits; no code for 1005."""
    if code == _NO_STATUS:
        return _header(_FIN | _CLOSE, 0)
    text = reason.encode()[: _CONTROL_LIMIT - 2].decode(errors="ignore").encode()
    return _header(_FIN | _CLOSE, 2 + len(text)) + code.to_bytes(2, "big") + text


class _Broken(Exception):
    """What the other side did wrong, with the close code that says so."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def _header(first: int, size: int) -> bytes:
    if size <= _CONTROL_LIMIT:
        return bytes((first, size))
    if size < 1 << 16:
        return bytes((first, 126)) + size.to_bytes(2, "big")
    return bytes((first, 127)) + size.to_bytes(8, "big")


def _refused_header(first: int) -> str:
    if first & _RESERVED:
        return "reserved bits must be 0"
    if first in _FIRST_BYTES:
        return "frames must be masked"
    opcode = first & 0x0F
    if opcode in (_CLOSE, _PING, _PONG):
        return "fragmented control frame"
    return f"unknown opcode {opcode}"


def _utf8(payload: bytes) -> bytes:
    if not payload.isascii():
        try:
            payload.decode()
        except UnicodeDecodeError as error:
            where = f"{error.reason} at position {error.start}"
            raise _Broken(CloseCode.INVALID_TEXT, where) from None
    return payload


def _may_be_sent(code: int) -> bool:
    """Whether a close frame may carry this code (RFC 6455 section 7.4, IANA's registry)."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code < 5000  # noqa: PLR2004
