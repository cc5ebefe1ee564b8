"""Which entry goes to the relay next: what is journaled, in order, from where the relay stands.

The journal is the outbox's memory: nothing is kept here but how far each session is sent and
acknowledged, so a long outage costs no memory and a resend needs nothing that could be gone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from agent_side.journal import SessionJournal
from agent_side.log import Draft
from bridge.protocol import entry, uplink
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.uplink import Stored

BEHIND_SECONDS = 0.1  # for an acknowledgement; a relay beside us takes a few milliseconds
BEHIND_BYTES = 64 << 10  # on their way; a slow line needs seconds for them, however fast they came
RESEND_PAUSE_SECONDS = 1.0  # between two resends from the same place; one refusal may come often


class _Lane:
    """One session's way to the relay."""

    def __init__(self, journal: SessionJournal) -> None:
        self.journal = journal
        self.sent = START
        self.flying: deque[tuple[Cursor, int]] = deque()  # sent, not acknowledged: cursor, bytes
        self.resent_from: Cursor | None = None
        self.resent_at = 0.0


class Outbox:
    """What the relay must still get, over all sessions, within a window."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a connection; ``clock`` gives seconds."""
        self.connected = False
        self.flying_entries = 0
        self.flying_bytes = 0
        self._clock = clock
        self._sent_at: deque[float] = deque()  # of what is on its way, the oldest first
        self.unsent: Callable[[], int] = _nothing  # bytes that the line has not taken yet
        self._window = (uplink.WINDOW_ENTRIES, uplink.WINDOW_BYTES)
        self._frame_limit = uplink.FRAME_LIMIT
        self._lanes: dict[str, _Lane] = {}
        self._ready: dict[str, None] = {}  # sessions that may have something to send, in turn

    @property
    def window_is_open(self) -> bool:
        """Whether more may be sent before something is acknowledged."""
        entries, size = self._window
        return self.flying_entries < entries and self.flying_bytes < size

    def is_behind(self, round_trip_ms: int | None) -> bool:
        """Whether the line is slower than what comes: full, or answering much later than it can."""
        if self.unsent() or not self.window_is_open or self.flying_bytes > BEHIND_BYTES:
            return True
        usual = max(BEHIND_SECONDS, 3 * (round_trip_ms or 0) / 1000)
        return bool(self._sent_at) and self._clock() - self._sent_at[0] > usual

    @property
    def idle(self) -> bool:
        """Whether everything is sent and acknowledged."""
        return not self._ready and not self.flying_entries

    def add(self, session_id: str, journal: SessionJournal) -> None:
        """Take a session in; nothing is sent before ``put`` or ``connect`` names it."""
        self._lanes.setdefault(session_id, _Lane(journal))

    def put(self, session_id: str) -> None:
        """Say that a session's journal has something new."""
        if self.connected:
            self._ready[session_id] = None

    def connect(self, stored: list[Stored], limits: dict[str, int] | None = None) -> None:
        """Begin a connection from what the relay has of each session."""
        self.disconnect()
        self._take_limits(limits or {})
        begin = {known.session_id: known.cursor for known in stored}
        for session_id, lane in self._lanes.items():
            lane.sent = begin.get(session_id, START)
            self._ready[session_id] = None
        self.connected = True

    def disconnect(self) -> None:
        """Forget what is on its way: the connection is gone."""
        self.connected = False
        self.flying_entries = self.flying_bytes = 0
        self._sent_at.clear()
        self.unsent = _nothing
        self._ready.clear()
        for lane in self._lanes.values():
            lane.flying.clear()
            lane.resent_from = None

    def acknowledge(self, stored: Stored) -> float:
        """Take an acknowledgement; give the seconds after which to call again, 0: never."""
        lane = self._lanes.get(stored.session_id)
        if lane is None or not self.connected:
            return 0.0
        while lane.flying and lane.flying[0][0] <= stored.cursor:
            self._land(lane)
        return self._resend(stored, lane) if stored.resend else 0.0

    def next(self) -> bytes | None:
        """Give the next entry to send, None when there is none or the window is full."""
        while self._ready and self.window_is_open:
            session_id = next(iter(self._ready))
            del self._ready[session_id]
            lane = self._lanes[session_id]
            if (found := next(lane.journal.read_after(lane.sent), None)) is not None:
                self._ready[session_id] = None  # at the end: the others' turn first
                return self._send(session_id, lane, *found)
        return None

    def _send(self, session_id: str, lane: _Lane, cursor: Cursor, text: bytes) -> bytes:
        if len(text) > self._frame_limit:
            text = too_big(session_id, text)
        lane.sent = cursor
        lane.flying.append((cursor, len(text)))
        self._sent_at.append(self._clock())
        self.flying_entries += 1
        self.flying_bytes += len(text)
        return text

    def _land(self, lane: _Lane) -> None:
        _, size = lane.flying.popleft()
        self._sent_at.popleft()
        self.flying_entries -= 1
        self.flying_bytes -= size

    def _resend(self, stored: Stored, lane: _Lane) -> float:
        now = self._clock()
        pause = lane.resent_at + RESEND_PAUSE_SECONDS - now
        if lane.resent_from == stored.cursor and pause > 0:
            return pause
        lane.resent_from, lane.resent_at = stored.cursor, now
        while lane.flying:
            self._land(lane)
        lane.sent = stored.cursor
        self._ready[stored.session_id] = None
        return 0.0

    def _take_limits(self, limits: dict[str, int]) -> None:
        self._window = (
            min(limits.get("windowEntries") or uplink.WINDOW_ENTRIES, uplink.WINDOW_ENTRIES),
            min(limits.get("windowBytes") or uplink.WINDOW_BYTES, uplink.WINDOW_BYTES),
        )
        self._frame_limit = min(limits.get("frameBytes") or uplink.FRAME_LIMIT, uplink.FRAME_LIMIT)


def _nothing() -> int:
    return 0


def too_big(session_id: str, text: bytes) -> bytes:
    """Give the entry that takes the place of one no frame can carry, with the same number."""
    meta = entry.read(text).meta
    said = Draft(method=entry.GAP, fields={"count": 1, "bytes": len(text), "reason": "too_big"})
    kept = meta.full or entry.Full(len(text))
    bare = entry.Meta(meta.epoch, meta.seq, at=meta.at, prev=meta.prev, full=kept)
    return entry.stamp(said.method, session_id, bare, said.fields)
