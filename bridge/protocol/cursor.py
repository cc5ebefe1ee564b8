"""A place in a session's log: ``epoch:seq``, and ``epoch-seq`` as a Redis Stream id."""

from __future__ import annotations

import re
from typing import NamedTuple

from bridge.protocol.errors import InvalidParams

_FORM = re.compile(r"(\d{1,16}):(\d{1,16})", re.ASCII)


class Cursor(NamedTuple):
    """The last entry somebody has; cursors order as the log does."""

    epoch: int  # one per connector process, about its start in Unix milliseconds
    seq: int  # 1, 2, 3… per session within the epoch; 0: before the first

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """Read ``epoch:seq``; raises InvalidParams."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise InvalidParams(f"invalid cursor {text[:40]!r}: write it as epoch:seq")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_stream_id(cls, stream_id: bytes | str) -> Cursor:
        """Read a Redis Stream id."""
        text = stream_id.decode() if isinstance(stream_id, bytes) else stream_id
        epoch, seq = text.split("-")
        return cls(int(epoch), int(seq))

    @property
    def stream_id(self) -> str:
        """The id of this entry in the Redis Stream."""
        return f"{self.epoch}-{self.seq}"

    def is_followed_by(self, other: Cursor) -> bool:
        """Whether no entry lies between this one and the other, as far as numbers tell."""
        if other.epoch == self.epoch:
            return other.seq == self.seq + 1
        return other.epoch > self.epoch and other.seq == 1

    def __str__(self) -> str:
        """Write ``epoch:seq``."""
        return f"{self.epoch}:{self.seq}"


START = Cursor(0, 0)
