"""What devices signed, checked before anything is recorded. The connector checks it all again."""

from __future__ import annotations

from bridge.agents import AgentRecord, Agents
from bridge.devices import Devices
from bridge.protocol import signing
from bridge.protocol.errors import SignatureRefused
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision
from bridge.protocol.signing import DecisionClaims, MailClaims
from bridge.redis import Store
from bridge.round_trips import RoundTrips


class Signatures:
    """Checks with the keys that the agents' connectors have pinned and told of."""

    def __init__(
        self, store: Store, agents: Agents, round_trips: RoundTrips, devices: Devices
    ) -> None:
        """Find keys through these."""
        self._store = store
        self._agents = agents
        self._round_trips = round_trips
        self._devices = devices

    async def decision(self, tenant: str, jws: str) -> Decision:
        """Give the decision that was signed; raises SignatureRefused, NotFound."""
        unchecked = signing.unverified(jws, DecisionClaims)
        agent_id, session = await self._round_trips.owner(tenant, unchecked.id)
        agent = await self._agents.get(tenant, agent_id)
        claims = signing.verify(jws, await self._key(tenant, agent, jws), DecisionClaims)
        if claims.session_id != session:
            raise SignatureRefused("the signature is for another session")
        await self._check(claims, agent)
        return Decision(claims.id, claims.hash, claims.answer, claims.decision_id)

    async def mail(
        self, tenant: str, agent_id: str, mail_id: str, message: Payload, jws: str | None
    ) -> None:
        """Check who signed a message, if anybody did; raises SignatureRefused."""
        if jws is None:
            return
        agent = await self._agents.get(tenant, agent_id)
        claims = signing.verify(jws, await self._key(tenant, agent, jws), MailClaims)
        if claims.mail_id != mail_id or claims.agent != agent_id:
            raise SignatureRefused("the signature is for another message")
        if claims.hash != signing.message_hash(message):
            raise SignatureRefused("the message is not the one that was signed")
        await self._check(claims, agent)

    async def _key(self, tenant: str, agent: AgentRecord, jws: str) -> str:
        id_ = signing.claimed_by(jws)
        key = next((device.key for device in agent.card.devices if device.id == id_), None)
        if key is None or await self._devices.is_revoked(tenant, id_):
            raise SignatureRefused("that device is not paired with this machine")
        return key

    async def _check(self, claims: DecisionClaims | MailClaims, agent: AgentRecord) -> None:
        if claims.epoch != agent.epoch:
            raise SignatureRefused("signed for an earlier run of the machine's connector")
        signing.check_time(claims, await self._store.time_ms())
