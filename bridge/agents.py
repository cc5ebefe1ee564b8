"""Agents: who may write for each, what it is, and whether it is reachable.

A claim is the right of one connector process to write an agent's sessions. Its lease is renewed
every five seconds by the relay process that holds the connector's socket.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bridge import keys
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol import attachment
from bridge.protocol.attachment import Attachment, Reason, Seen
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import InvalidParams, NotFound, Replaced
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello
from bridge.redis import Store, as_ms

RENEW_SECONDS = 5.0  # so that what is known of a silent but living line is never 19 s old
LEASE_MS = 30_000  # five renewals may be missed
AHEAD_MS = 24 * 3600 * 1000  # a clock may be wrong by a day, not by more
CLAIMED = "claimed"  # a notice's state: somebody else's claim may be over
SESSIONS_TURN_MS = 3600 * 1000  # how often a living claim extends its sessions' lives
DEFAULT_AGE_SECONDS = 14 * 24 * 3600
_SEEN = ("connected_at", "last_seen", "lease_until", "closed_at", "close_reason")
_FIELDS = (*_SEEN, "card", "connector", "epoch", "node")
_BATCH = 500
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Claim:
    """The right of one connector process to write an agent's sessions, over one connection."""

    tenant: str
    agent: str
    epoch: int
    writer: str
    node: str
    connection: str = ""  # made by each claim, so that an old socket's end does not end a new one


class AgentRecord(msgspec.Struct, frozen=True):
    """An agent as it is known here."""

    card: AgentCard
    connector: ConnectorCard
    epoch: int
    attachment: Attachment
    node: str = ""  # the relay process that its uplink was last on

    @property
    def id(self) -> str:
        """The agent's id."""
        return self.card.id

    def as_json(self) -> Payload:
        """Give the wire shape."""
        card = self.card
        return {
            "id": card.id,
            "name": card.name,
            "title": card.title,
            "version": card.version,
            "host": self.connector.host,
            "os": self.connector.os,
            "roots": card.roots,
            "modes": card.modes,
            "capabilities": card.capabilities,
            "alive": card.alive,
            "login": card.login,
            "sandbox": card.sandbox,
            "approvals": card.approvals,
            "relayRules": card.relay_rules,
            "signed": card.signed,
            "devices": [device.id for device in card.devices],
            "guarantees": msgspec.to_builtins(card.guarantees),
            "epoch": self.epoch,
            "attachment": attachment_json(self.attachment),
        }


class Agents:
    """The agents of all tenants."""

    def __init__(
        self, store: Store, inbox: Inbox, *, age_seconds: int = DEFAULT_AGE_SECONDS
    ) -> None:
        """Keep sessions for the log's age, agents for 30 days or as long if that is longer."""
        self._store = store
        self._inbox = inbox
        self._age_ms = age_seconds * 1000
        self._life_ms = agent_life_ms(age_seconds)

    # Of the connector.

    async def claim(self, tenant: str, hello: Hello, card: AgentCard, node: str) -> Claim:
        """Claim an agent; raises Replaced with the epoch that holds it, or InvalidParams."""
        claim = Claim(tenant, card.id, hello.epoch, hello.writer, node, secrets.token_hex(8))
        if hello.epoch < 1:
            raise InvalidParams(f"invalid epoch {hello.epoch}: the process's start in Unix ms")
        state, held, nodes = await self._store.run(
            "claim",
            [
                keys.claim(tenant, card.id),
                keys.agents(tenant),
                keys.changes(tenant),
                keys.watch(keys.changes(tenant)),
                keys.mail(tenant, card.id),
                keys.mailed(tenant, card.id),
            ],
            [
                card.id,
                hello.epoch,
                hello.writer,
                node,
                msgspec.json.encode(card),
                msgspec.json.encode(hello.connector),
                hello.mail.journaled,
                LEASE_MS,
                self._life_ms,
                AHEAD_MS,
                notice(Change("agent", card.id, state=CLAIMED)),
                claim.connection,
            ],
        )
        if state == b"ahead":
            raise InvalidParams(
                f"epoch {hello.epoch} or mail {hello.mail.journaled} is more than a day ahead of "
                f"the relay's clock ({int(held)}); set this machine's clock"
            )
        if state == b"held":
            raise _replaced(claim, int(held))
        await self._inbox.wake(nodes, keys.changes(tenant))
        return claim

    async def renew(self, claim: Claim, quiet_ms: int, round_trip_ms: int | None = None) -> bool:
        """Extend the lease; False when the claim is no longer this connection's.

        ``quiet_ms``: how long ago the connector was heard; no clock but the store's counts.
        ``round_trip_ms``: to the connector and back, if it was measured.
        """
        names = [
            keys.claim(claim.tenant, claim.agent),
            keys.mail(claim.tenant, claim.agent),
            keys.mailed(claim.tenant, claim.agent),
            keys.sessions_of(claim.tenant, claim.agent),
        ]
        renewed = await self._store.run(
            "renew",
            names,
            [
                claim.epoch,
                claim.writer,
                claim.connection,
                max(0, quiet_ms),
                LEASE_MS,
                self._life_ms,
                SESSIONS_TURN_MS,
                "" if round_trip_ms is None else round_trip_ms,
            ],
        )
        if renewed == 2:  # noqa: PLR2004 (the script's word for it)
            await self._extend_sessions(claim)
        return bool(renewed)

    async def close(self, claim: Claim, reason: Reason) -> None:
        """Note that the claim's connection ended; nothing if another has followed already."""
        nodes = await self._store.run(
            "release",
            [
                keys.claim(claim.tenant, claim.agent),
                keys.changes(claim.tenant),
                keys.watch(keys.changes(claim.tenant)),
            ],
            [
                claim.epoch,
                claim.writer,
                claim.connection,
                reason.value,
                self._life_ms,
                notice(Change("agent", claim.agent, reason=reason.value)),
            ],
        )
        await self._inbox.wake(nodes, keys.changes(claim.tenant))

    async def lose(self, tenant: str, agent: str, node: str) -> None:
        """Note that the process which held an agent's connection is gone with it."""
        changes, reason = keys.changes(tenant), Reason.SOCKET_CLOSED.value
        nodes = await self._store.run(
            "lose",
            [keys.claim(tenant, agent), changes, keys.watch(changes)],
            [node, reason, self._life_ms, notice(Change("agent", agent, reason=reason))],
        )
        await self._inbox.wake(nodes, changes)

    async def put_card(self, claim: Claim, card: AgentCard) -> None:
        """Store the agent's card; raises Replaced."""
        if card.id != claim.agent:
            raise InvalidParams(f"card of agent {card.id!r:.80}, claimed is {claim.agent!r}")
        state, held, nodes = await self._store.run(
            "agent",
            [
                keys.claim(claim.tenant, claim.agent),
                keys.changes(claim.tenant),
                keys.watch(keys.changes(claim.tenant)),
            ],
            [
                claim.epoch,
                claim.writer,
                msgspec.json.encode(card),
                notice(Change("agent", claim.agent)),
            ],
        )
        if state == b"fenced":
            raise _replaced(claim, int(held))
        await self._inbox.wake(nodes, keys.changes(claim.tenant))

    # Of everybody else.

    async def get(self, tenant: str, agent: str) -> AgentRecord:
        """Give one agent; raises NotFound."""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.time()
            pipe.hmget(keys.claim(tenant, agent), _FIELDS)
            time, fields = await pipe.execute()
        record = _record(fields, as_ms(time))
        if record is None:
            raise NotFound(f"unknown agent {agent!r}")
        return record

    async def round_trip_ms(self, tenant: str, agent: str) -> int | None:
        """Give the time to an agent's connector and back, as it was measured last."""
        name = keys.claim(tenant, agent)
        async with self._store.operation():
            found = await self._store.commands.hget(name, "round_trip_ms")
        return int(found) if found else None

    async def list(self, tenant: str) -> list[AgentRecord]:
        """Give the tenant's agents, the last connected first."""
        index = keys.agents(tenant)
        async with self._store.operation():
            ids = [id_.decode() for id_ in await self._store.commands.zrevrange(index, 0, -1)]
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.time()
            for id_ in ids:
                pipe.hmget(keys.claim(tenant, id_), _FIELDS)
            time, *found = await pipe.execute()
            records = [_record(fields, as_ms(time)) for fields in found]
            gone = [id_ for id_, record in zip(ids, records, strict=True) if record is None]
            if gone:
                await self._store.commands.zrem(index, *gone)
        return [record for record in records if record is not None]

    async def _extend_sessions(self, claim: Claim) -> None:
        """Let the agent's sessions live on from now; pinned ones have no end and keep none."""
        tenant, index = claim.tenant, keys.sessions_of(claim.tenant, claim.agent)
        async with self._store.operation():
            ids = [id_.decode() for id_ in await self._store.commands.zrange(index, 0, -1)]
        for start in range(0, len(ids), _BATCH):
            batch = ids[start : start + _BATCH]
            async with self._store.operation():
                pipe = self._store.commands.pipeline(transaction=False)
                for id_ in batch:
                    pipe.exists(keys.meta(tenant, id_))
                exist = await pipe.execute()
                for id_, there in zip(batch, exist, strict=True):
                    if not there:
                        pipe.zrem(index, id_)
                        continue
                    for name in (keys.log, keys.meta, keys.chunks, keys.asked):
                        pipe.pexpire(name(tenant, id_), self._age_ms, xx=True)
                await pipe.execute()


def agent_life_ms(age_seconds: int) -> int:
    """Give how long what belongs to an agent is kept after it was last there."""
    return max(keys.AGENT_SECONDS, age_seconds) * 1000


def seen_of(fields: Sequence[bytes | None]) -> Seen:
    """Read what a claim knows of its connection, from the fields that SEEN_FIELDS names."""
    connected, last, lease, closed, reason = fields
    if connected is None:
        return Seen()
    return Seen(int(connected), int(last or 0), int(lease or 0), int(closed or 0), _reason(reason))


SEEN_FIELDS = _SEEN


def attachment_json(found: Attachment) -> Payload:
    """Give an attachment's wire shape; a time that never was is null."""
    return {
        "state": found.state.value,
        "reason": found.reason.value,
        "since": timestamp(found.since) if found.since else None,
        "lastSeen": timestamp(found.last_seen) if found.last_seen else None,
    }


def _reason(text: bytes | None) -> Reason:
    return Reason(text.decode()) if text else Reason.OK


def _record(fields: Sequence[Any], now: int) -> AgentRecord | None:
    *seen, card, connector, epoch, node = fields
    if card is None:
        return None
    described = msgspec.json.decode(card, type=AgentCard)
    return AgentRecord(
        described,
        msgspec.json.decode(connector, type=ConnectorCard),
        int(epoch),
        attachment.reduce(msgspec.structs.replace(seen_of(seen), agent_alive=described.alive), now),
        (node or b"").decode(),
    )


def _replaced(claim: Claim, held: int) -> Replaced:
    return Replaced(
        f"agent {claim.agent!r} is held by another connector process (epoch {held}); "
        "stop that one, or start this one again to take over",
        epoch=held,
    )
