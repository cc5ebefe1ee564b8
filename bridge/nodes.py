"""The other relay processes: which of them are gone, and the claims they leave behind.

A process that is killed says nothing. Redis shows it nevertheless: every second a living process
extends its inbox, and its connections, which carry its name, end with it. One that is merely busy
keeps its connections; one that is cut off, or whose machine died, is told by the claims' leases.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn

from redis.exceptions import ResponseError

from bridge import keys
from bridge.agents import AgentRecord, Agents
from bridge.inbox import INBOX_SECONDS, Inbox
from bridge.outage import Outage
from bridge.protocol.attachment import State
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store, client_name

LOOK_SECONDS = 0.4
QUIET_MS = 1200  # without its inbox being extended: look closer
STEADY_SECONDS = 5.0  # after a failure of the store, processes are still on their way back

_HELD = frozenset({State.ATTACHED, State.UNRESPONSIVE})
_INBOX_MS = INBOX_SECONDS * 1000
_logger = logging.getLogger(__name__)


class Nodes:
    """The processes that hold what people here look at."""

    def __init__(self, store: Store, inbox: Inbox, agents: Agents) -> None:
        """Release through ``agents`` what a process of this store leaves behind."""
        self._store = store
        self._agents = agents
        self._node = inbox.node
        self._held: dict[tuple[str, str], str] = {}  # (tenant, agent) → node
        self._failures = 0
        self._steady_at = 0.0

    def note(self, tenant: str, agent: AgentRecord) -> None:
        """Note which process holds an agent's uplink."""
        if agent.attachment.state in _HELD and agent.node != self._node:
            self._held[tenant, agent.id] = agent.node
        else:
            self._held.pop((tenant, agent.id), None)

    async def run(self) -> NoReturn:
        """Look after them until cancelled."""
        outage = Outage("other processes")
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.look()
                outage.over()
            except StoreUnavailable as error:
                await outage.wait(error)

    async def look(self) -> None:
        """Release the claims of processes that are gone; raises StoreUnavailable."""
        if not self._held or not self._is_steady():
            return
        for node in await self._quiet(sorted(set(self._held.values()))):
            if not await self._is_connected(node):
                await self._release(node)

    def _is_steady(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._store.failures != self._failures:
            self._failures = self._store.failures
            self._steady_at = now + STEADY_SECONDS
        return now >= self._steady_at

    async def _quiet(self, nodes: list[str]) -> list[str]:
        """Give those whose inbox was not extended lately."""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for node in nodes:
                pipe.pttl(keys.inbox(node))
            left = await pipe.execute()
        return [node for node, ms in zip(nodes, left, strict=True) if ms < _INBOX_MS - QUIET_MS]

    async def _is_connected(self, node: str) -> bool:
        name = client_name(node)
        async with self._store.operation():
            for master in (await self._store.masters()).values():
                try:
                    clients = await master.client_list()
                except ResponseError:  # not permitted here: the leases tell
                    return True
                if any(client.get("name") == name for client in clients):
                    return True
        return False

    async def _release(self, node: str) -> None:
        held = [place for place, holder in self._held.items() if holder == node]
        _logger.warning("the relay process %s is gone; it held %d agents", node, len(held))
        for tenant, agent in held:
            await self._agents.lose(tenant, agent, node)
            del self._held[tenant, agent]
