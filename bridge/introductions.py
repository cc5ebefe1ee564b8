"""What one uplink says and hears of devices: pairings of its machine, and keys to forget."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import msgspec

from bridge.changes import Change
from bridge.errands import Work
from bridge.protocol import jsonrpc, uplink
from bridge.protocol.errors import NotFound
from bridge.protocol.uplink import Hello

if TYPE_CHECKING:
    from bridge.relay import Relay

METHODS = frozenset({uplink.PAIR, uplink.PAIRED})


class Introductions:
    """The devices' part of one connector's connection."""

    def __init__(
        self,
        relay: Relay,
        tenant: str,
        agents: Callable[[], Collection[str]],
        tell: Callable[[str, Any], None],
    ) -> None:
        """Speak for the agents that are claimed, and tell their connector by ``tell``."""
        self._relay = relay
        self._tenant = tenant
        self._agents = agents
        self._tell = tell

    async def take(self, method: str, params: msgspec.Raw) -> None:
        """Take what the connector says of a pairing; raises BridgeError."""
        pairings = self._relay.pairings
        if method == uplink.PAIR:
            invited = jsonrpc.typed(params, uplink.Invited)
            self._check(invited.agent)
            self._tell(uplink.PAIRING, await pairings.begin(self._tenant, invited))
            return
        end = jsonrpc.typed(params, uplink.PairingEnd)
        self._check(end.agent)
        await pairings.end(self._tenant, end)

    async def greet(self, hello: Hello) -> None:
        """Have forgotten what was revoked while the connector was away."""
        for id_ in {device.id for card in hello.agents for device in card.devices}:
            if await self._relay.devices.is_revoked(self._tenant, id_):
                self._tell(uplink.DEVICE_REVOKED, uplink.DeviceRevoked(id_))

    def heard(self, change: Change) -> Work | None:
        """Tell of a revocation at once; give what is to be done about a device's answer."""
        if change.kind == "device" and change.state == "revoked":
            self._tell(uplink.DEVICE_REVOKED, uplink.DeviceRevoked(change.id))
        if change.kind != "pairing" or change.agent not in self._agents():
            return None

        async def tell_answer() -> None:
            news = await self._relay.pairings.news(self._tenant, change.id)
            if news is not None:
                self._tell(uplink.PAIRING, news)

        return tell_answer

    def _check(self, agent: str) -> None:
        if agent not in self._agents():
            raise NotFound(f"agent {agent!r:.80} is not claimed on this uplink")
