"""How this connector reaches its relay, told as people and editors need it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec

from bridge.protocol import attachment, entry
from bridge.protocol.attachment import Attachment, Reason, Seen, State
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import Presence, Watcher

NO_LEASE = 1 << 53  # the lease is the relay's matter


def now_ms() -> int:
    """Give the time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


class Status:
    """The uplink's state, its round-trip time, and who watches which session."""

    def __init__(self, relay: str | None, on_changed: Callable[[], None]) -> None:
        """Begin unconnected; ``relay`` is the address people know, None without one."""
        self.relay = relay
        self.round_trip_ms: int | None = None
        self.detail = ""  # why it is not connected, for people
        self._on_changed = on_changed
        self._seen = Seen()
        self._watching: dict[str, list[Watcher]] = {}

    @property
    def connected(self) -> bool:
        """Whether the relay has greeted us on the connection that is open now."""
        return bool(self._seen.connected_at) and not self._seen.closed_at

    def attachment(self) -> Attachment:
        """Compute how reachable we are from afar now."""
        return attachment.reduce(self._seen, now_ms())

    # What the uplink tells.

    def connect(self) -> None:
        """Note that the relay has greeted us."""
        now = now_ms()
        self.detail = ""
        self._seen = Seen(connected_at=now, last_seen=now, lease_until=NO_LEASE)
        self._on_changed()

    def hear(self) -> None:
        """Note that something came from the relay."""
        self._seen = msgspec.structs.replace(self._seen, last_seen=now_ms())

    def lose(self, reason: Reason, detail: str) -> bool:
        """Note that the relay is not there; say whether that is news."""
        news = self.connected or detail != self.detail
        closed_at = self._seen.closed_at or now_ms()
        connected_at = self._seen.connected_at or closed_at
        self._seen = msgspec.structs.replace(
            self._seen, connected_at=connected_at, closed_at=closed_at, close_reason=reason
        )
        self.detail = detail
        self._watching.clear()
        if news:
            self._on_changed()
        return news

    def watch(self, presence: Presence) -> None:
        """Note who watches a session."""
        self._watching[presence.session_id] = presence.watching
        self._on_changed()

    # What is asked.

    def watching(self, session_id: str | None = None) -> list[Watcher]:
        """Give who watches a session, or any."""
        if session_id is not None:
            return list(self._watching.get(session_id, []))
        found: dict[tuple[str, str], Watcher] = {}
        for watchers in self._watching.values():
            found.update({(w.subject, w.device): w for w in watchers})
        return list(found.values())

    def as_json(self, open_ids: list[str], session_id: str | None = None) -> Payload:
        """Answer ``_bridge/status``."""
        now = self.attachment()
        shown: dict[str, Any] = {
            "state": str(now.state) if self.relay else str(State.DETACHED),
            "reason": str(now.reason),
            "since": entry.timestamp(now.since) if now.since else None,
            "lastSeen": entry.timestamp(now.last_seen) if now.last_seen else None,
            "roundTripMs": self.round_trip_ms,
            "watching": msgspec.to_builtins(self.watching(session_id)),
            "open": open_ids,
            "relay": self.relay,
        }
        if self.detail:
            shown["detail"] = self.detail
        return shown
