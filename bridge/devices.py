"""People's paired devices as the relay knows them: when seen, with which logins, whether revoked.

Their keys are the connectors' matter, which tell them with each agent's card. What is kept here
serves people: names, times, and that a device which was revoked is shut out everywhere at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec

from bridge import keys
from bridge.agents import AgentRecord, Agents
from bridge.audit import Audit
from bridge.changes import Change, notice
from bridge.identity import Identity
from bridge.inbox import Inbox
from bridge.login import Logins
from bridge.protocol import signing
from bridge.protocol.acp import Role
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.errors import NotFound
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import DeviceCard
from bridge.redis import Store

LIFE_SECONDS = 400 * 86_400  # since it was last seen
_LOGIN = b"login:"  # begins the fields that name a device's logins


class Device(msgspec.Struct, frozen=True):
    """A device and the machines that take its signature."""

    id: str
    name: str
    subject: str
    paired_at: int
    last_seen: int
    revoked_at: int
    machines: list[AgentRecord]

    def as_json(self) -> Payload:
        """Give the wire shape."""
        times = {
            "pairedAt": self.paired_at,
            "lastSeen": self.last_seen,
            "revokedAt": self.revoked_at,
        }
        return {
            "id": self.id,
            "name": self.name,
            "subject": self.subject,
            "fingerprint": signing.fingerprint(self.id),
            "machines": [
                {"agent": one.id, "name": one.card.name, "host": one.connector.host}
                for one in self.machines
            ],
            **{name: timestamp(at) for name, at in times.items() if at},
        }


class Devices:
    """The devices of all tenants."""

    def __init__(
        self, store: Store, inbox: Inbox, agents: Agents, logins: Logins, audit: Audit
    ) -> None:
        """Keep them in this store."""
        self._audit = audit
        self._store = store
        self._inbox = inbox
        self._agents = agents
        self._logins = logins

    async def paired(self, tenant: str, card: DeviceCard, token_id: str) -> None:
        """Note that a machine took a device, which used this login."""
        now = await self._store.time_ms()
        fields = {
            "name": card.name,
            "subject": card.subject,
            "paired_at": now,
            "last_seen": now,
            "revoked_at": 0,
            _LOGIN + token_id.encode(): now,
        }
        await self._put(tenant, card.id, fields, now)
        origin = Origin(card.subject, tenant, card.name)
        await self._audit.write(tenant, "device_paired", origin, device=card.id)
        await self._tell(tenant, Change("device", card.id, state="paired"))

    async def seen(self, identity: Identity, id_: str) -> None:
        """Note that a device of this person came with this login; a foreign one changes nothing."""
        name = keys.device(identity.tenant, id_)
        async with self._store.operation():
            subject, revoked = await self._store.commands.hmget(name, "subject", "revoked_at")
        if subject is None or subject.decode() != identity.subject or int(revoked or 0):
            return
        now = await self._store.time_ms()
        fields = {"last_seen": now, _LOGIN + identity.token_id.encode(): now}
        await self._put(identity.tenant, id_, fields, now)

    async def is_revoked(self, tenant: str, id_: str) -> bool:
        """Tell whether a device was shut out."""
        async with self._store.operation():
            found = await self._store.commands.hget(keys.device(tenant, id_), "revoked_at")
        return bool(int(found or 0))

    async def list(self, identity: Identity) -> list[Device]:
        """Give the devices of a person, an admin's of everybody, the last seen first."""
        tenant = identity.tenant
        agents = await self._agents.list(tenant)
        cards = {card.id: card for agent in agents for card in agent.card.devices}
        async with self._store.operation():
            known = await self._store.commands.zrange(keys.devices(tenant), 0, -1)
        ids = {*cards, *(id_.decode() for id_ in known)}
        found = [await self._get(tenant, id_, cards.get(id_), agents) for id_ in ids]
        shown = [one for one in found if one is not None and _is_of(one, identity)]
        return sorted(shown, key=lambda one: (one.last_seen, one.id), reverse=True)

    async def revoke(self, identity: Identity, id_: str) -> None:
        """Shut a device out: its logins end here, connectors forget its key; raises NotFound."""
        tenant = identity.tenant
        name = keys.device(tenant, id_)
        if not any(one.id == id_ for one in await self.list(identity)):
            raise NotFound(f"unknown device {id_!r:.80}")
        async with self._store.operation():
            fields = await self._store.commands.hkeys(name)
        logins = [f.removeprefix(_LOGIN).decode() for f in fields if f.startswith(_LOGIN)]
        now = await self._store.time_ms()
        await self._put(tenant, id_, {"revoked_at": now}, now)
        for token_id in logins:
            await self._logins.end_by_id(token_id)
        await self._audit.write(tenant, "device_revoked", identity.origin, device=id_)
        await self._tell(tenant, Change("device", id_, state="revoked", logins=logins))

    async def _tell(self, tenant: str, change: Change) -> None:
        await tell(self._store, self._inbox, tenant, keys.device(tenant, change.id), change)

    async def _get(
        self, tenant: str, id_: str, card: DeviceCard | None, agents: Sequence[AgentRecord]
    ) -> Device | None:
        names = ("name", "subject", "paired_at", "last_seen", "revoked_at")
        async with self._store.operation():
            found = await self._store.commands.hmget(keys.device(tenant, id_), names)
            if found[0] is None and card is None:
                await self._store.commands.zrem(keys.devices(tenant), id_)
                return None
        name, subject, *times = found
        return Device(
            id_,
            name.decode() if name else card.name if card else "",
            subject.decode() if subject else card.subject if card else "",
            int(times[0] or 0),
            int(times[1] or 0),
            int(times[2] or 0),
            [one for one in agents if any(d.id == id_ for d in one.card.devices)],
        )

    async def _put(self, tenant: str, id_: str, fields: dict[Any, Any], now: int) -> None:
        name, index = keys.device(tenant, id_), keys.devices(tenant)
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.hset(name, mapping=fields)
            pipe.expire(name, LIFE_SECONDS)
            pipe.zadd(index, {id_: now})
            await pipe.execute()


async def tell(store: Store, inbox: Inbox, tenant: str, about: str, change: Change) -> None:
    """Tell everybody in a tenant of a change, which is of what this key holds."""
    changes = keys.changes(tenant)
    nodes = await store.run(
        "tell", [about, changes, keys.watch(changes)], [notice(change), secrets.token_hex(8)]
    )
    await inbox.wake(nodes, changes)


def _is_of(device: Device, identity: Identity) -> bool:
    return identity.role >= Role.ADMIN or device.subject == identity.subject
