"""What is looked at on a cable: commands on the way to Redis, acknowledgements to a connector."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hiredis
import msgspec
from fakes.cable import Tap

import bridge
from bridge.protocol import uplink
from bridge.redis import script

NAMES = [path.stem for path in Path(bridge.__file__).parent.glob("scripts/*.lua")]


class Commands:
    """The kinds of command that went to Redis; the reply to one of a kind may be lost."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.lost = ""  # the kind whose reply was lost
        self._scripts = {script(name).sha: name for name in NAMES}
        self._wanted = ""
        self._was_lost = asyncio.Event()

    def lose_reply_to(self, kind: str) -> None:
        """Let the next command of a kind be done, and cut the line instead of its reply."""
        self._wanted, self.lost = kind, ""
        self._was_lost.clear()

    async def until_lost(self) -> None:
        await self._was_lost.wait()

    def tap(self) -> Tap:
        return _CommandTap(self)

    def kind_of(self, command: list[bytes]) -> str:
        """Name a command; a script by its own name."""
        name = command[0].decode().upper()
        if name == "EVALSHA":
            return self._scripts.get(command[1].decode(), "script")
        return "script" if name == "EVAL" else name

    def is_lost(self, command: list[bytes]) -> bool:
        kind = self.kind_of(command)
        self.seen[kind] += 1
        if kind != self._wanted:
            return False
        self._wanted, self.lost = "", kind
        self._was_lost.set()
        return True


class _CommandTap(Tap):
    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._reader = hiredis.Reader()
        self._lose = False

    def up(self, data: bytes) -> None:
        self._reader.feed(data)
        while (command := self._reader.gets()) is not False:
            self._lose = self._commands.is_lost(command) or self._lose

    def down(self, data: bytes) -> bool:
        return not self._lose


class Acknowledgements:
    """How far a relay told its connectors that their sessions are stored."""

    def __init__(self) -> None:
        self.upto: dict[str, tuple[int, int]] = {}  # session → (epoch, seq)
        self._changed = asyncio.Event()

    @property
    def count(self) -> int:
        """How many entries, when nothing but one epoch wrote."""
        return sum(seq for _, seq in self.upto.values())

    async def more_than(self, count: int) -> None:
        """Wait until more entries than that are acknowledged."""
        while self.count <= count:
            self._changed.clear()
            await self._changed.wait()

    def tap(self) -> Tap:
        return _FrameTap(self._take)

    def _take(self, text: bytes) -> None:
        message = msgspec.json.decode(text)
        if message.get("method") == uplink.ACK:
            ack = message["params"]
            place = (ack["epoch"], ack["seq"])
            self.upto[ack["sessionId"]] = max(place, self.upto.get(ack["sessionId"], (0, 0)))
            self._changed.set()


class _FrameTap(Tap):
    """Reads a server's text frames, once the handshake is over."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._buffer = b""
        self._open = False

    def down(self, data: bytes) -> bool:
        self._buffer += data
        if not self._open:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            self._open = bool(end) and head.startswith(b"HTTP/1.1 101")
            self._buffer = rest if self._open else self._buffer
        while self._open and (frame := self._next()) is not None:
            opcode, payload = frame
            if opcode == 1:
                self._take(payload)
        return True

    def _next(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, at = buffer[1], 2
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(buffer[2:at], "big")
        if len(buffer) < at + size:
            return None
        self._buffer = buffer[at + size :]
        return buffer[0] & 15, buffer[at : at + size]
