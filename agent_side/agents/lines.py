"""Lines out of a stream of bytes, of any length up to a bound."""

from __future__ import annotations


class LineSplitter:
    """Collects chunks and gives whole lines; a line over ``limit`` bytes is dropped and counted."""

    def __init__(self, limit: int) -> None:
        self.skipped = 0
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; give the lines that end in them, without their line feeds."""
        *ends, rest = chunk.split(b"\n")
        lines = []
        for end in ends:
            self._keep(end)
            if not self._skipping:
                lines.append(b"".join(self._parts))
            self._restart()
        self._keep(rest)
        return lines

    def rest(self) -> bytes:
        """Give what came after the last line feed (the stream has ended)."""
        line = b"".join(self._parts)
        self._restart()
        return line

    def _keep(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        if self._size <= self._limit:
            self._parts.append(part)
            return
        self._skipping = True
        self.skipped += 1
        self._parts.clear()

    def _restart(self) -> None:
        self._parts.clear()
        self._size = 0
        self._skipping = False
