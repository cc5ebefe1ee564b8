"""The sessions' logs on this machine: one file each, a line an entry.

A line is one of three: an entry as it was sent; ``{"full": entry, "sent": entry}`` for an entry
that was shortened for the way; ``{"session": facts}``, what is known of the session from there on.
Lines are written before what they hold is shown to anybody. A torn last line is cut when the file
is opened.
"""

from __future__ import annotations

import logging
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bridge.protocol import entry, jsonrpc
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import BridgeError

OPEN_FILES = 64  # kept open; a machine may have thousands of sessions
PRIVATE = 0o600
FULL_AT = len(b'{"full":')  # where the whole entry begins in the line of a shortened one
FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)

logger = logging.getLogger(__name__)


class SessionFacts(msgspec.Struct, rename="camel", omit_defaults=True):
    """What is known of a session besides its entries; kept in its journal."""

    session_id: str
    agent_session_id: str = ""  # the agent's own; never leaves the connector
    cwd: str = ""
    title: str = ""
    created_at: int = 0  # Unix milliseconds
    counter: int = 0  # of the session's card
    ended: bool = False
    modes: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    config_options: list[Any] | None = None
    usage: dict[str, Any] | None = None


class _Shortened(msgspec.Struct):
    full: msgspec.Raw
    sent: msgspec.Raw


class _FactsLine(msgspec.Struct):
    session: SessionFacts


_shortened = msgspec.json.Decoder(_Shortened).decode
_facts_line = msgspec.json.Decoder(_FactsLine).decode


class SessionJournal:
    """One session's file and where each entry begins in it."""

    def __init__(self, path: Path, on_entry: Callable[[bytes, entry.Envelope], None]) -> None:
        """Open or make the file, cut a torn tail, tell every entry; raises OSError."""
        self.facts: SessionFacts | None = None
        self.last = START
        self._offsets = array("Q")
        self._sizes = array("L")
        self._fulls: dict[int, int] = {}  # the whole length of entries that were shortened
        self._epochs: list[int] = []
        self._firsts: list[int] = []  # the position of each epoch's first entry
        self._unwritten: list[bytes] = []
        self._path = path
        self._fd: int | None = None
        self._end = 0
        self._take_in(on_entry)

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._offsets)

    # Writing.

    def append(self, cursor: Cursor, sent: bytes, full: bytes | None = None) -> None:
        """Add the next entry; it is on its way to the disk after ``flush``."""
        line = sent if full is None else _both(full, sent)
        if full is not None:
            self._fulls[len(self._offsets)] = len(full)
        self._index(cursor, line)
        self._queue(line)

    def keep_facts(self, facts: SessionFacts) -> None:
        """Add what is known of the session now."""
        self.facts = facts
        self._queue(jsonrpc.encode(_FactsLine(facts)))

    def flush(self) -> None:
        """Write what waits; raises OSError."""
        if self._unwritten:
            waiting = memoryview(b"".join(self._unwritten))
            self._unwritten.clear()
            while waiting:
                waiting = waiting[os.write(self._open(), waiting) :]

    def close(self) -> None:
        """Write what waits and let the file go until it is needed again."""
        self.flush()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # Reading.

    def following(self, cursor: Cursor) -> Cursor | None:
        """Give the cursor of the first entry after this one, None at the end."""
        position = self._position_after(cursor)
        return self._cursor_at(position) if position < len(self._offsets) else None

    @property
    def first(self) -> Cursor | None:
        """The cursor of the oldest entry."""
        return self.following(START)

    def read_after(self, cursor: Cursor, *, full: bool = False) -> Iterator[tuple[Cursor, bytes]]:
        """Give the entries after a cursor, oldest first."""
        return self._read(self._position_after(cursor), len(self._offsets), full=full)

    def read_before(
        self, cursor: Cursor | None, count: int, *, full: bool = False
    ) -> Iterator[tuple[Cursor, bytes]]:
        """Give up to ``count`` entries right before a cursor (None: the newest), oldest first."""
        stop = len(self._offsets) if cursor is None else self._position_at(cursor)
        return self._read(max(0, stop - count), stop, full=full)

    def page_before(
        self, cursor: Cursor | None, count: int, size: int
    ) -> Iterator[tuple[Cursor, bytes]]:
        """Give entries right before a cursor, as sent: at most so many of them and so many bytes.

        There is always one, however large, unless the cursor is the first.
        """
        start = stop = len(self._offsets) if cursor is None else self._position_at(cursor)
        while start > max(0, stop - count):
            size -= self._sent_size(start - 1)
            if size < 0 and start < stop:
                break
            start -= 1
        return self._read(start, stop, full=False)

    def whole(self, cursor: Cursor) -> bytes | None:
        """Give one entry as it was before anything was kept from it; None: unknown."""
        position = self._position_after(cursor) - 1
        if position < 0 or self._cursor_at(position) != cursor:
            return None
        return next(self._read(position, position + 1, full=True))[1]

    # The index.

    def _sent_size(self, position: int) -> int:
        whole = self._fulls.get(position)
        size = self._sizes[position]
        return size if whole is None else size - whole - FULL_AT

    def _read(self, start: int, stop: int, *, full: bool) -> Iterator[tuple[Cursor, bytes]]:
        self.flush()
        for position in range(start, stop):
            os.lseek(self._open(), self._offsets[position], os.SEEK_SET)
            line = os.read(self._open(), self._sizes[position])
            yield self._cursor_at(position), _chosen(line, full=full)

    def _open(self) -> int:
        if self._fd is None:
            self._fd = os.open(self._path, FLAGS, PRIVATE)
        return self._fd

    def _position_after(self, cursor: Cursor) -> int:
        slot = bisect_right(self._epochs, cursor.epoch) - 1
        if slot < 0:
            return 0
        if self._epochs[slot] < cursor.epoch:
            return self._stop(slot)
        return min(self._firsts[slot] + cursor.seq, self._stop(slot))

    def _position_at(self, cursor: Cursor) -> int:
        before = Cursor(cursor.epoch, cursor.seq - 1) if cursor.seq else cursor
        return self._position_after(before)

    def _stop(self, slot: int) -> int:
        return self._firsts[slot + 1] if slot + 1 < len(self._firsts) else len(self._offsets)

    def _cursor_at(self, position: int) -> Cursor:
        slot = bisect_right(self._firsts, position) - 1
        return Cursor(self._epochs[slot], position - self._firsts[slot] + 1)

    def _index(self, cursor: Cursor, line: bytes) -> None:
        if cursor.epoch != self.last.epoch:
            self._epochs.append(cursor.epoch)
            self._firsts.append(len(self._offsets))
        self._offsets.append(self._end)
        self._sizes.append(len(line))
        self.last = cursor

    def _queue(self, line: bytes) -> None:
        self._unwritten.append(line + b"\n")
        self._end += len(line) + 1

    # Opening.

    def _take_in(self, on_entry: Callable[[bytes, entry.Envelope], None]) -> None:
        os.close(os.open(self._path, FLAGS, PRIVATE))  # make it when it is new
        with self._path.open("rb") as file:
            for line in file:
                if not (line.endswith(b"\n") and self._take_line(line[:-1], on_entry)):
                    break
                self._end += len(line)
            file.seek(self._end)
            rest = file.read()
        if rest:
            self._cut(rest)

    def _take_line(self, line: bytes, on_entry: Callable[[bytes, entry.Envelope], None]) -> bool:
        try:
            if line.startswith(b'{"session":'):
                self.facts = _facts_line(line).session
                return True
            text = _chosen(line, full=True)
            envelope = entry.read(text)
        except (BridgeError, msgspec.DecodeError, UnicodeDecodeError):
            return False
        if not self.last.is_followed_by(envelope.cursor):
            return False
        if text is not line:
            self._fulls[len(self._offsets)] = len(text)
        self._index(envelope.cursor, line)
        on_entry(text, envelope)
        return True

    def _cut(self, rest: bytes) -> None:
        if b"\n" in rest:  # more than a torn line: the disk, or somebody's editor
            aside = self._path.with_suffix(".damaged")
            aside.write_bytes(rest)
            logger.error("%s is damaged from byte %d on: see %s", self._path, self._end, aside)
        os.truncate(self._path, self._end)


class Journal:
    """All sessions' journals in a folder."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; ``load`` reads it."""
        self.sessions: dict[str, SessionJournal] = {}
        self._folder = folder
        self._touched: dict[str, SessionJournal] = {}
        self._open: dict[str, SessionJournal] = {}  # the longest untouched first

    def load(self, on_entry: Callable[[bytes, entry.Envelope], None]) -> None:
        """Open every session's file; raises OSError."""
        for path in sorted(self._folder.glob("*.jsonl")):
            self.sessions[path.stem] = SessionJournal(path, on_entry)

    def begin(self, session_id: str) -> SessionJournal:
        """Make a new session's file; the id is one of ours."""
        path = self._folder / f"{session_id}.jsonl"
        journal = self.sessions[session_id] = SessionJournal(path, lambda _text, _envelope: None)
        return journal

    def append(self, session_id: str, cursor: Cursor, sent: bytes, full: bytes | None) -> None:
        """Add a session's next entry."""
        journal = self.sessions[session_id]
        journal.append(cursor, sent, full)
        self._touched[session_id] = journal

    def keep_facts(self, facts: SessionFacts) -> None:
        """Add what is known of a session now."""
        journal = self.sessions[facts.session_id]
        journal.keep_facts(facts)
        self._touched[facts.session_id] = journal

    def flush(self) -> None:
        """Write what waits, one write a session; raises OSError."""
        touched, self._touched = self._touched, {}
        for session_id, journal in touched.items():
            journal.flush()
            self._open.pop(session_id, None)
            self._open[session_id] = journal
        while len(self._open) > OPEN_FILES:
            self._open.pop(next(iter(self._open))).close()

    def close(self) -> None:
        """Let all files go."""
        for journal in self.sessions.values():
            journal.close()


def _both(full: bytes, sent: bytes) -> bytes:
    return jsonrpc.encode(_Shortened(msgspec.Raw(full), msgspec.Raw(sent)))


def _chosen(line: bytes, *, full: bool) -> bytes:
    if not line.startswith(b'{"full":'):
        return line
    both = _shortened(line)
    return bytes(both.full if full else both.sent)
