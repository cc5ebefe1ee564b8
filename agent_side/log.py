"""Writes the sessions' logs: numbers an entry, journals it, then hands it on, all in one order.

What is appended in one turn of the event loop is written to the disk together, then delivered. A
step that must come after entries (the answer to a prompt, after the turn's last text) goes through
``then`` and keeps its place among them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from agent_side.journal import Journal
from bridge.protocol import entry, jsonrpc
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Origin, RoundTrip

logger = logging.getLogger(__name__)


class Written(NamedTuple):
    """An entry that is in the journal."""

    session_id: str
    cursor: Cursor
    text: bytes  # in full
    sent: bytes  # what goes to the relay; shorter when the agent's line was huge


class Draft(msgspec.Struct, frozen=True):
    """An entry before it is numbered."""

    method: str
    fields: dict[str, Any]
    short_fields: dict[str, Any] | None = None  # what goes to the relay instead
    agent_meta: dict[str, Any] | None = None
    short_meta: dict[str, Any] | None = None
    id: jsonrpc.Id | None = None
    origin: Origin | None = None
    round_trip: RoundTrip | None = None
    mail_id: str | None = None


class Log:
    """The only writer of this connector's sessions."""

    def __init__(
        self,
        journal: Journal,
        epoch: int,
        deliver: Callable[[Written], None],
        on_fault: Callable[[OSError], None],
    ) -> None:
        """Write under an epoch; ``on_fault`` hears that the disk does not take it."""
        self.epoch = epoch
        self._journal = journal
        self._deliver = deliver
        self._on_fault = on_fault
        self._host = socket.gethostname()
        self.delivered: dict[str, Cursor] = {}  # per session, in this process
        self._waiting: deque[Written | Callable[[], None]] = deque()
        self._broken = False  # what is not on disk is shown to nobody
        self._held: dict[str, list[Written]] = {}  # sessions whose opener has no answer yet

    def append(self, session_id: str, draft: Draft) -> Cursor:
        """Number an entry and have it written and delivered in its turn."""
        last = self._journal.sessions[session_id].last
        same = last.epoch == self.epoch
        cursor = Cursor(self.epoch, last.seq + 1 if same else 1)
        meta = entry.Meta(
            epoch=cursor.epoch,
            seq=cursor.seq,
            at=entry.timestamp(),
            origin=draft.origin,
            round_trip=draft.round_trip,
            prev=None if same else str(last),
            mail_id=draft.mail_id,
        )
        text = _stamped(session_id, draft, meta, draft.fields, draft.agent_meta)
        sent = text
        if draft.short_fields is not None:
            kept = entry.Full(len(text), self._host)
            short = msgspec.structs.replace(meta, full=kept)
            sent = _stamped(session_id, draft, short, draft.short_fields, draft.short_meta)
        self._journal.append(session_id, cursor, sent, None if sent is text else text)
        self._queue(Written(session_id, cursor, text, sent))
        return cursor

    def then(self, step: Callable[[], None]) -> None:
        """Do something after everything appended so far is delivered."""
        self._queue(step)

    def hold(self, session_id: str) -> None:
        """Journal the session's entries but deliver them only after ``release``."""
        self._held.setdefault(session_id, [])

    def release(self, session_id: str) -> None:
        """Deliver what was held, in the next turn of the loop."""
        asyncio.get_running_loop().call_soon(self._release, session_id)

    def flush(self) -> None:
        """Write to the disk now, then deliver."""
        if self.write():
            self._deliver_waiting()

    def write(self) -> bool:
        """Write to the disk now, delivery keeps its turn; False when the disk does not take it."""
        try:
            self._journal.flush()
        except OSError as error:
            self._broken = True
            self._on_fault(error)
        return not self._broken

    def _queue(self, item: Written | Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(item)

    def _deliver_waiting(self) -> None:
        batch, self._waiting = self._waiting, deque()
        for item in batch:
            if not isinstance(item, Written):
                self._guarded(item)
            elif item.session_id in self._held:
                self._held[item.session_id].append(item)
            else:
                self._hand_on(item)

    def _release(self, session_id: str) -> None:
        for written in self._held.pop(session_id, []):
            self._hand_on(written)

    def _hand_on(self, written: Written) -> None:
        self.delivered[written.session_id] = written.cursor
        self._deliver(written)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Exception:
            logger.exception("a step after an entry failed")


def _stamped(
    session_id: str,
    draft: Draft,
    meta: entry.Meta,
    fields: dict[str, Any],
    agent_meta: dict[str, Any] | None,
) -> bytes:
    return entry.stamp(draft.method, session_id, meta, fields, id_=draft.id, agent_meta=agent_meta)
