"""The dashboards of this process: who watches what here, and when their tokens end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from bridge.protocol.uplink import Watcher

if TYPE_CHECKING:
    from bridge.dashboard import Dashboard


class Dashboards:
    """The dashboards of this process, and what they are told of their tenants."""

    def __init__(self) -> None:
        """Begin without any."""
        self._all: set[Dashboard] = set()
        self._changed: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def add(self, one: Dashboard) -> None:
        """Take one more."""
        self._all.add(one)

    def remove(self, one: Dashboard) -> None:
        """Forget one."""
        self._all.discard(one)

    def presence_changed(self, tenant: str, session_id: str) -> None:
        """Note that somebody came, left, or looked away."""
        self._changed.add((tenant, session_id))

    def presence_untold(self, sessions: set[tuple[str, str]]) -> None:
        """Note again what could not be told."""
        self._changed |= sessions

    def take_changed(self) -> set[tuple[str, str]]:
        """Give the sessions whose watchers changed since the last time."""
        changed, self._changed = self._changed, set()
        return changed

    def watching(self, tenant: str, session_id: str) -> list[Watcher]:
        """Give this process's watchers of a session."""
        return [
            one.watcher
            for one in self._all
            if session_id in one.subscribers and one.identity.tenant == tenant
        ]

    def watched(self) -> set[tuple[str, str]]:
        """Give all sessions that somebody watches through this process."""
        return {(one.identity.tenant, id_) for one in self._all for id_ in one.subscribers}

    def watchers_of(self, tenant: str) -> list[Dashboard]:
        """Give the dashboards that asked to be told of a tenant's changes."""
        return [one for one in self._all if one.watches and one.identity.tenant == tenant]

    def tenants(self) -> set[str]:
        """Give the tenants of which somebody asked to be told."""
        return {one.identity.tenant for one in self._all if one.watches}

    def recovered(self) -> None:
        """Have each bring what the store did not take while it was away."""
        for one in tuple(self._all):
            one.recovered()

    def tick(self) -> None:
        """End those whose token has ended."""
        now = time.time_ns() // 10**6
        for one in tuple(self._all):
            one.tick(now)
