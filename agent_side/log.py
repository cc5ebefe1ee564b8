"""Writes the sessions' logs: numbers an entry, journals it, then hands it on, all in one order.

What is appended in one turn of the event loop is written to the disk together, then delivered. A
step that must come after entries (the answer to a prompt, after the turn's last text) goes through
``then`` and keeps its place among them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from agent_side.journal import Journal
from agent_side.redaction import OPEN_LENGTH, Redaction
from bridge.protocol import chunk, entry, jsonrpc
from bridge.protocol.chunk import Chunk
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Origin, RoundTrip

RUN_SECONDS = 0.04  # a piece of text waits so long for its neighbours, while the relay is behind
RUN_LENGTH = 16_000  # characters of one joined entry
OPEN_SECONDS = 2.0  # a piece that may begin a secret waits so long for the next one

logger = logging.getLogger(__name__)


class Written(NamedTuple):
    """An entry that is in the journal."""

    session_id: str
    cursor: Cursor
    text: bytes  # in full
    sent: bytes  # what goes to the relay; shorter when the agent's line was huge
    joined: bool = False  # from pieces that were shown one by one


class Piece(NamedTuple):
    """A piece of text that is shown here at once and numbered together with its neighbours."""

    session_id: str
    text: bytes  # a message without a number
    is_first: bool


class _Run:
    """Neighbouring pieces that will be one entry."""

    def __init__(self, draft: Draft, first: Chunk) -> None:
        self.draft = draft
        self.chunks = [first]
        self.length = len(first.content.text)
        self.end = first.content.text  # what a secret may begin in
        self.added_at = time.monotonic()

    def takes(self, chunk: Chunk) -> bool:
        return chunk.continues(self.chunks[-1]) and self.length < RUN_LENGTH

    def add(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.length += len(chunk.content.text)
        self.end = (self.end + chunk.content.text)[-OPEN_LENGTH:]
        self.added_at = time.monotonic()

    def joined(self) -> Draft:
        if len(self.chunks) == 1:
            return self.draft
        return Draft(method=entry.UPDATE, fields={"update": chunk.join(self.chunks)})


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


_Item: TypeAlias = Written | Piece | Callable[[], None]


class Log:
    """The only writer of this connector's sessions."""

    def __init__(
        self,
        journal: Journal,
        epoch: int,
        deliver: Callable[[Written], None],
        on_fault: Callable[[OSError], None],
        *,
        is_behind: Callable[[], bool] = lambda: False,
        on_piece: Callable[[Piece], None] = lambda _piece: None,
        redaction: Redaction | None = None,
    ) -> None:
        """Write under an epoch; ``on_fault`` hears that the disk does not take it.

        While the way to the relay ``is_behind``, and where a secret may have begun, pieces of text
        are joined before they are numbered; ``on_piece`` hears each at once.
        """
        self.epoch = epoch
        self._journal = journal
        self._deliver = deliver
        self._on_fault = on_fault
        self._host = socket.gethostname()
        self.delivered: dict[str, Cursor] = {}  # per session, in this process
        self._waiting: deque[_Item] = deque()
        self._broken = False  # what is not on disk is shown to nobody
        self._is_behind = is_behind
        self._on_piece = on_piece
        self._redaction = redaction or Redaction()
        self._runs: dict[str, _Run] = {}
        self._held: dict[str, list[Written]] = {}  # sessions whose opener has no answer yet

    def say(self, session_id: str, draft: Draft, piece: Chunk) -> None:
        """Append a piece of text, joined with its neighbours where that must be."""
        run = self._runs.get(session_id)
        if run is not None and not run.takes(piece):
            self.settle(session_id)
            run = None
        if run is not None:
            run.add(piece)
        elif session_id not in self._held and self._must_wait(piece.content.text):
            self._begin(session_id, draft, piece)
        else:
            self.append(session_id, draft)
            return
        text = jsonrpc.notification(draft.method, {**draft.fields, "sessionId": session_id})
        self._queue(Piece(session_id, text, is_first=run is None))
        if run is not None and not self._must_wait(run.end):
            self.settle(session_id)

    def settle(self, session_id: str) -> None:
        """Number the pieces of a session that wait to be joined."""
        run = self._runs.pop(session_id, None)
        if run is not None:
            self._append(session_id, run.joined(), joined=True)

    def settle_all(self) -> None:
        """Number all pieces that wait to be joined."""
        for session_id in tuple(self._runs):
            self.settle(session_id)

    def append(self, session_id: str, draft: Draft) -> Cursor:
        """Number an entry and have it written and delivered in its turn."""
        self.settle(session_id)
        return self._append(session_id, draft)

    def _begin(self, session_id: str, draft: Draft, piece: Chunk) -> None:
        run = self._runs[session_id] = _Run(draft, piece)
        self._settle_later(session_id, run)

    def _settle_later(self, session_id: str, run: _Run) -> None:
        asyncio.get_running_loop().call_later(RUN_SECONDS, self._settle_run, session_id, run)

    def _settle_run(self, session_id: str, run: _Run) -> None:
        if self._runs.get(session_id) is not run:
            return
        waited = time.monotonic() - run.added_at
        if waited < OPEN_SECONDS and self._redaction.is_open(run.end):
            self._settle_later(session_id, run)
        else:
            self.settle(session_id)

    def _must_wait(self, text: str) -> bool:
        return self._is_behind() or self._redaction.is_open(text)

    def _append(self, session_id: str, draft: Draft, *, joined: bool = False) -> Cursor:
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
        away = self._for_the_way(draft)
        if away is not draft:
            if draft.short_fields is not None:
                meta = msgspec.structs.replace(meta, full=entry.Full(len(text), self._host))
            sent = _stamped(session_id, draft, meta, away.fields, away.agent_meta)
        self._journal.append(session_id, cursor, sent, None if sent is text else text)
        self._queue(Written(session_id, cursor, text, sent, joined))
        return cursor

    def _for_the_way(self, draft: Draft) -> Draft:
        """Give what goes to the relay of a draft: itself, or shortened and without secrets.

        A question goes as it is: its subject must say exactly what will run.
        """
        fields, agent_meta = draft.fields, draft.agent_meta
        if draft.short_fields is not None:
            fields, agent_meta = draft.short_fields, draft.short_meta
        if draft.method not in entry.QUESTIONS:
            fields = self._redaction.fields(fields)
            agent_meta = agent_meta and self._redaction.fields(agent_meta)
        if fields is draft.fields and agent_meta is draft.agent_meta:
            return draft
        return msgspec.structs.replace(draft, fields=fields, agent_meta=agent_meta)

    def then(self, step: Callable[[], None]) -> None:
        """Do something after everything appended so far is delivered."""
        self.settle_all()
        self._queue(step)

    def hold(self, session_id: str) -> None:
        """Journal the session's entries but deliver them only after ``release``."""
        self.settle(session_id)
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

    def _queue(self, item: _Item) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(item)

    def _deliver_waiting(self) -> None:
        batch, self._waiting = self._waiting, deque()
        for item in batch:
            if isinstance(item, Piece):
                self._on_piece(item)
            elif not isinstance(item, Written):
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
