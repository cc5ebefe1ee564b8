"""What dashboards that watch a tenant are told: each record that changed, whole; and who watches.

One task a process, whatever the number of dashboards: notices of the same record that come while
it is being read are one, and a record is read once for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from bridge.agents import AgentRecord, Agents
from bridge.changes import Change
from bridge.dashboards import Dashboards
from bridge.frames import text_frame
from bridge.health import Health
from bridge.nodes import Nodes
from bridge.outage import Outage
from bridge.presence import RENEW_SECONDS, Presence
from bridge.protocol import jsonrpc
from bridge.protocol.errors import NotFound, StoreUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.round_trips import RoundTrips
from bridge.sessions import Sessions

CHANGED = "_bridge/changed"
TICK_SECONDS = 1.0
LOOK_SECONDS = 5.0  # at agents: one that went away says nothing when its lease ends


class Record(Protocol):
    """An agent, a session or a round-trip as it is stored."""

    def as_json(self) -> Payload:
        """Give the wire shape."""


Get: TypeAlias = Callable[[str, str], Awaitable[Record]]

logger = logging.getLogger(__name__)


class Bulletin:
    """Tells dashboards what changed."""

    def __init__(
        self,
        dashboards: Dashboards,
        *,
        agents: Agents,
        nodes: Nodes,
        sessions: Sessions,
        round_trips: RoundTrips,
        presence: Presence,
        health: Health,
    ) -> None:
        """Read records from these, for those dashboards."""
        self._health = health
        self._dashboards = dashboards
        self._agents = agents
        self._nodes = nodes
        self._presence = presence
        self._get: dict[str, Get] = {
            "agent": agents.get,
            "session": sessions.get,
            "roundTrip": round_trips.get,
        }
        self._due: dict[tuple[str, str, str], None] = {}  # (tenant, kind, id), in order
        self._wanted = asyncio.Event()
        self._shown: dict[tuple[str, str], Payload] = {}  # (tenant, agent) → attachment told
        self._looked_at: set[str] = set()  # tenants

    def note(self, tenant: str, change: Change) -> None:
        """Have a record that changed told to the tenant's dashboards."""
        if change.kind in self._get:
            self._add(tenant, change.kind, change.id)
        if change.kind == "roundTrip" and change.session_id is not None:
            self._add(tenant, "session", change.session_id)

    async def run(self) -> None:
        """Tell what changes, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell_changes())
            tasks.create_task(self._tick())

    async def tell_presence(self) -> None:
        """Note for all to see who came, left or looked away here; raises StoreUnavailable."""
        changed = self._dashboards.take_changed()
        try:
            await self._note_presence(changed, changed=True)
        except StoreUnavailable:
            self._dashboards.presence_untold(changed)
            raise

    def tell_health(self) -> None:
        """Tell everybody who watches whether the store takes writes."""
        frame = text_frame(jsonrpc.notification(CHANGED, {"store": self._health.as_json()}))
        for tenant in self._dashboards.tenants():
            for one in self._dashboards.watchers_of(tenant):
                one.socket.write(frame)

    async def _tell_changes(self) -> None:
        outage = Outage("changes")
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            due, self._due = self._due, {}
            try:
                while due:
                    await self._tell(*next(iter(due)))
                    del due[next(iter(due))]
                outage.over()
            except StoreUnavailable as error:
                self._due = due | self._due
                await outage.wait(error)
                self._wanted.set()

    async def _tell(self, tenant: str, kind: str, id_: str) -> None:
        if not self._dashboards.watchers_of(tenant):
            return
        try:
            record = await self._get[kind](tenant, id_)
        except NotFound:
            return
        if isinstance(record, AgentRecord):
            self._nodes.note(tenant, record)
        frame = text_frame(jsonrpc.notification(CHANGED, {kind: record.as_json()}))
        for one in self._dashboards.watchers_of(tenant):
            one.socket.write(frame)

    def _add(self, tenant: str, kind: str, id_: str) -> None:
        self._due[tenant, kind, id_] = None
        self._wanted.set()

    # Every second.

    async def _tick(self) -> None:
        looked_at = renewed_at = time.monotonic()
        outage = Outage("what dashboards are told")
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self._dashboards.tick()
            if self._due:
                self._wanted.set()
            try:
                await self.tell_presence()
                if now - renewed_at >= RENEW_SECONDS:
                    await self._note_presence(self._dashboards.watched(), changed=False)
                    renewed_at = now
                if now - looked_at >= LOOK_SECONDS or self._has_new_tenants():
                    await self._look_at_agents()
                    looked_at = now
                    outage.over()
            except StoreUnavailable as error:
                await outage.wait(error)

    async def _note_presence(self, sessions: set[tuple[str, str]], *, changed: bool) -> None:
        for tenant, session_id in sessions:
            watching = self._dashboards.watching(tenant, session_id)
            await self._presence.put(tenant, session_id, watching, changed=changed)

    def _has_new_tenants(self) -> bool:
        return not self._dashboards.tenants() <= self._looked_at

    async def _look_at_agents(self) -> None:
        tenants = self._dashboards.tenants()
        for tenant in tenants:
            for agent in await self._agents.list(tenant):
                self._nodes.note(tenant, agent)
                shown = agent.as_json()["attachment"]
                told = {name: shown[name] for name in ("state", "reason")}
                if self._shown.get((tenant, agent.id), told) != told:
                    self._add(tenant, "agent", agent.id)
                self._shown[tenant, agent.id] = told
        self._looked_at = tenants
