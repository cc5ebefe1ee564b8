"""The uplinks of this process: their clock, and what all of them must learn."""

from __future__ import annotations

import asyncio

import msgspec

from bridge.protocol.errors import AgentUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.uplink import Uplink

TICK_SECONDS = 1.0


class Uplinks:
    """The uplinks of this process."""

    def __init__(self) -> None:
        """Begin without any."""
        self._all: set[Uplink] = set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def add(self, one: Uplink) -> None:
        """Take one more."""
        self._all.add(one)

    def remove(self, one: Uplink) -> None:
        """Forget one."""
        self._all.discard(one)

    def held(self) -> set[tuple[str, str]]:
        """Give the tenant and the id of each agent whose uplink is here."""
        return {(one.identity.tenant, agent) for one in self._all for agent in one.agents}

    async def ask(self, tenant: str, agent: str, params: Payload) -> msgspec.Raw:
        """Ask for what an agent's connector keeps; raises BridgeError, TimeoutError never."""
        for one in tuple(self._all):
            if one.identity.tenant == tenant and one.holds(agent):
                return await one.ask(params)
        raise AgentUnavailable(f"the connector of agent {agent!r} is not here any more")

    async def run(self) -> None:
        """Keep claims, pings and ends of tokens, once a second for all of them."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for one in tuple(self._all):
                one.tick(loop.time())

    def recovered(self) -> None:
        """Have each look what the store still has, which was away."""
        for one in tuple(self._all):
            one.recovered()

    async def release(self) -> None:
        """Give all claims back before this process ends."""
        for one in tuple(self._all):
            await one.release()
