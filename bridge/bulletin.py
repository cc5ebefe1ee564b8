"""What dashboards that watch a tenant are told: each record that changed, whole; and who watches.

One task a process, whatever the number of dashboards: notices of the same record that come while
it is being read are one, and a record is read once for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from bridge.changes import Change
from bridge.frames import text_frame
from bridge.presence import RENEW_SECONDS
from bridge.protocol import jsonrpc
from bridge.protocol.errors import BridgeError, NotFound, StoreUnavailable
from bridge.protocol.jsonrpc import Payload

if TYPE_CHECKING:
    from bridge.relay import Relay

CHANGED = "_bridge/changed"
TICK_SECONDS = 1.0
LOOK_SECONDS = 5.0  # at agents: one that went away says nothing when its lease ends

logger = logging.getLogger(__name__)


class Bulletin:
    """Tells dashboards what changed."""

    def __init__(self, relay: Relay) -> None:
        """Begin without tenants."""
        self._relay = relay
        self._due: dict[tuple[str, str, str], None] = {}
        self._wanted = asyncio.Event()
        self._listening: dict[str, Callable[[], None]] = {}
        self._shown: dict[tuple[str, str], Payload] = {}  # (tenant, agent) → attachment told

    async def run(self) -> None:
        """Tell what changes, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_changes())
            tasks.create_task(self._tick())

    async def _tell_changes(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            due, self._due = self._due, {}
            for tenant, kind, id_ in due:
                try:
                    await self._tell(tenant, kind, id_)
                except StoreUnavailable as error:
                    logger.warning("a change is told later: %s", error)
                    self._due[tenant, kind, id_] = None

    async def _tell(self, tenant: str, kind: str, id_: str) -> None:
        watchers = self._relay.dashboards.watchers_of(tenant)
        record = await self._read(tenant, kind, id_) if watchers else None
        if record is None:
            return
        frame = text_frame(jsonrpc.notification(CHANGED, {kind: record}))
        for one in self._relay.dashboards.watchers_of(tenant):
            one.socket.write(frame)

    async def _read(self, tenant: str, kind: str, id_: str) -> Payload | None:
        relay = self._relay
        try:
            if kind == "session":
                return (await relay.sessions.get(tenant, id_)).as_json()
            if kind == "agent":
                return (await relay.agents.get(tenant, id_)).as_json()
            return (await relay.round_trips.get(tenant, id_)).as_json()
        except NotFound:
            return None

    def _on_change(self, tenant: str, change: Change) -> None:
        if change.kind in {"session", "agent", "roundTrip"}:
            self._due[tenant, change.kind, change.id] = None
            if change.kind == "roundTrip" and change.session_id is not None:
                self._due[tenant, "session", change.session_id] = None
            self._wanted.set()

    # Every second.

    async def _tick(self) -> None:
        looked_at = renewed_at = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self._relay.dashboards.tick()
            try:
                await self._listen()
                await self._note_presence(self._relay.dashboards.take_changed(), changed=True)
                if self._due:
                    self._wanted.set()
                if now - renewed_at >= RENEW_SECONDS:
                    renewed_at = now
                    await self._note_presence(self._relay.dashboards.watched(), changed=False)
                if now - looked_at >= LOOK_SECONDS:
                    looked_at = now
                    await self._look_at_agents()
            except BridgeError as error:
                logger.warning("dashboards are told later: %s", error)

    async def _listen(self) -> None:
        """Listen to the tenants that are watched, and to no others."""
        watched = self._relay.dashboards.tenants()
        for tenant in watched - self._listening.keys():
            heard = partial(self._on_change, tenant)
            self._listening[tenant] = await self._relay.changes.listen(tenant, heard)
        for tenant in self._listening.keys() - watched:
            self._listening.pop(tenant)()

    async def _note_presence(self, sessions: set[tuple[str, str]], *, changed: bool) -> None:
        for tenant, session_id in sessions:
            watching = self._relay.dashboards.watching(tenant, session_id)
            await self._relay.presence.put(tenant, session_id, watching, changed=changed)

    async def _look_at_agents(self) -> None:
        for tenant in self._relay.dashboards.tenants():
            for agent in await self._relay.agents.list(tenant):
                shown = agent.as_json()["attachment"]
                told = {name: shown[name] for name in ("state", "reason")}
                if self._shown.get((tenant, agent.id), told) != told:
                    self._due[tenant, "agent", agent.id] = None
                    self._wanted.set()
                self._shown[tenant, agent.id] = told
