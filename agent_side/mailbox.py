"""What came down for this connector, on disk: taken once, handled once, its outcome remembered.

A line is one of: ``{"mail": …}`` taken; ``{"handed": id}`` given to the agent, which must not
happen twice; ``{"done": …}`` with its outcome; ``{"known": …}`` what an older file had.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from agent_side.folder import sync_folder
from bridge.protocol import acp, jsonrpc
from bridge.protocol.uplink import Mail, MailDone

IDS_KEPT = 10_000  # a mail that comes again after as many others would be taken for new
OUTCOMES_KEPT = 256  # given again to a relay that missed them


class _Known(msgspec.Struct):
    journaled: int
    handled: list[str]


class _Line(msgspec.Struct, omit_defaults=True):
    mail: Mail | None = None
    handed: str | None = None
    done: MailDone | None = None
    known: _Known | None = None


class Mailbox:
    """The mail of one agent."""

    def __init__(self, path: Path, on_fault: Callable[[OSError], None]) -> None:
        """Name the file, which ``open`` reads; ``on_fault`` hears that it cannot be written."""
        self.journaled = 0  # the number of the last mail on disk
        self.pending: dict[str, Mail] = {}  # taken, without an outcome
        self.handed: set[str] = set()  # of those, what the agent was given
        self._ids: dict[str, None] = {}  # the oldest first
        self._outcomes: dict[str, MailDone] = {}
        self._path = path
        self._on_fault = on_fault
        self._file: IO[bytes] | None = None

    def open(self) -> None:
        """Read the file, write it anew without what is over, keep it open; raises OSError."""
        if self._path.exists():
            self._read()
        fresh = self._path.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(_line(_Line(known=_Known(self.journaled, list(self._ids)))))
            for mail_id, mail in self.pending.items():
                file.write(_line(_Line(mail=mail)))
                if mail_id in self.handed:
                    file.write(_line(_Line(handed=mail_id)))
            for done in self._outcomes.values():
                file.write(_line(_Line(done=done)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        sync_folder(self._path.parent)
        self._file = self._path.open("ab")

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def take(self, mail: Mail) -> bool:
        """Have a mail on disk; False when it was there already, or when the disk is full.

        A decision does not wait for the disk: its question ends with this process, so what a
        machine that crashes forgets of it has no question left to be applied to.
        """
        journaled = max(self.journaled, mail.n)
        is_new = mail.mail_id not in self._ids
        line = _Line(mail=mail) if is_new else _Line(known=_Known(journaled, []))
        sync = mail.message.get("method") != acp.DECIDE
        if (is_new or journaled > self.journaled) and not self._write(line, sync=sync):
            return False
        self.journaled = journaled
        if is_new:
            self._remember(mail.mail_id)
            self.pending[mail.mail_id] = mail
        return is_new

    def hand(self, mail_id: str) -> bool:
        """Have on disk that the agent is given this mail; False: it must not be given it."""
        self.handed.add(mail_id)
        return self._write(_Line(handed=mail_id))

    def finish(self, done: MailDone) -> None:
        """Keep what became of a mail."""
        self._finished(done)
        self._write(_Line(done=done), sync=False)

    def outcome(self, mail_id: str) -> MailDone | None:
        """Give what became of a mail, while it is remembered."""
        return self._outcomes.get(mail_id)

    def outcomes(self) -> list[MailDone]:
        """Give all outcomes that are remembered."""
        return list(self._outcomes.values())

    def _finished(self, done: MailDone) -> None:
        self.pending.pop(done.mail_id, None)
        self.handed.discard(done.mail_id)
        self._outcomes[done.mail_id] = done
        if len(self._outcomes) > OUTCOMES_KEPT:
            del self._outcomes[next(iter(self._outcomes))]

    def _remember(self, mail_id: str) -> None:
        self._ids[mail_id] = None
        if len(self._ids) > IDS_KEPT:
            del self._ids[next(iter(self._ids))]

    def _write(self, line: _Line, *, sync: bool = True) -> bool:
        assert self._file is not None
        try:
            self._file.write(_line(line))
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            self._on_fault(error)
            return False
        return True

    def _read(self) -> None:
        for text in self._path.read_bytes().split(b"\n")[:-1]:  # after the last feed: a torn line
            try:
                line = msgspec.json.decode(text, type=_Line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            self._take_line(line)

    def _take_line(self, line: _Line) -> None:
        if line.known is not None:
            self.journaled = max(self.journaled, line.known.journaled)
            for id_ in line.known.handled:
                self._remember(id_)
        if line.mail is not None:
            self.journaled = max(self.journaled, line.mail.n)
            self._remember(line.mail.mail_id)
            self.pending[line.mail.mail_id] = line.mail
        if line.handed is not None:
            self.handed.add(line.handed)
        if line.done is not None:
            self._finished(line.done)


def _line(line: _Line) -> bytes:
    return jsonrpc.encode(line) + b"\n"
