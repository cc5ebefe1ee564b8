"""The registry of sessions: whose, what it shows of itself, how far its log goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec

from bridge import keys
from bridge.agents import (
    DEFAULT_AGE_SECONDS,
    SEEN_FIELDS,
    Claim,
    agent_life_ms,
    attachment_json,
    seen_of,
)
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol import attachment
from bridge.protocol.attachment import Attachment
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import InvalidParams, NotFound, Replaced
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import SessionCard
from bridge.redis import Store, as_ms

LISTED = 1000  # the newest; older ones are found by their id
PRUNED = 100  # of the oldest, looked at with each list
_FIELDS = ("agent", "card", "epoch", "seq", "created_at", "updated_at")


class SessionRecord(msgspec.Struct, frozen=True):
    """A session as it is known here; times are Unix milliseconds."""

    session_id: str
    agent: str
    title: str
    cwd: str
    state: str
    state_reason: str  # why it is stalled, else empty
    modes: dict[str, Any] | None
    models: dict[str, Any] | None
    config_options: list[Any] | None
    usage: dict[str, Any] | None
    approval: str  # the preset by which its connector decides without a person
    cursor: Cursor
    created_at: int
    updated_at: int
    open: list[str]  # round-trips that nobody has answered
    attachment: Attachment

    def as_json(self) -> Payload:
        """Give the wire shape."""
        optional = {
            "modes": self.modes,
            "models": self.models,
            "configOptions": self.config_options,
            "usage": self.usage,
            "approval": self.approval or None,
        }
        return {
            "sessionId": self.session_id,
            "agent": self.agent,
            "title": self.title,
            "cwd": self.cwd,
            "state": self.state,
            **({"stateReason": self.state_reason} if self.state_reason else {}),
            **{name: value for name, value in optional.items() if value is not None},
            "cursor": str(self.cursor),
            "createdAt": timestamp(self.created_at),
            "updatedAt": timestamp(self.updated_at),
            "open": self.open,
            "attachment": attachment_json(self.attachment),
        }


Records: TypeAlias = list[SessionRecord]


class Sessions:
    """The sessions of all tenants."""

    def __init__(
        self, store: Store, inbox: Inbox, *, age_seconds: int = DEFAULT_AGE_SECONDS
    ) -> None:
        """Keep a session for the log's age after it was last written."""
        self._store = store
        self._inbox = inbox
        self._age_ms = age_seconds * 1000
        self._agent_life_ms = agent_life_ms(age_seconds)

    async def put_card(self, claim: Claim, card: SessionCard) -> None:
        """Store a card if its counter is higher; raises Replaced, or NotFound for a foreign one."""
        tenant, session = claim.tenant, card.session_id
        if card.agent != claim.agent:
            raise InvalidParams(f"card of agent {card.agent!r:.80}, claimed is {claim.agent!r}")
        reply = await self._store.run(
            "card",
            [
                keys.log(tenant, session),
                keys.meta(tenant, session),
                keys.chunks(tenant, session),
                keys.asked(tenant, session),
                keys.claim(tenant, claim.agent),
                keys.sessions(tenant),
                keys.sessions_of(tenant, claim.agent),
                keys.changes(tenant),
                keys.watch(keys.changes(tenant)),
            ],
            [
                session,
                claim.agent,
                claim.epoch,
                claim.writer,
                card.counter,
                msgspec.json.encode(card),
                self._age_ms,
                self._agent_life_ms,
                notice(Change("session", session, agent=claim.agent, state=card.state)),
            ],
        )
        if reply[0] == b"fenced":
            raise Replaced("another connector process holds the agent", epoch=int(reply[2]))
        if reply[0] == b"foreign":
            raise NotFound(f"unknown session {session!r}")
        await self._inbox.wake(reply[1], keys.changes(tenant))

    async def get(self, tenant: str, session_id: str) -> SessionRecord:
        """Give one session; raises NotFound."""
        found = await self._read(tenant, (session_id,))
        if not found:
            raise NotFound(f"unknown session {session_id!r}")
        return found[0]

    async def list(self, tenant: str) -> list[SessionRecord]:
        """Give the tenant's newest sessions, the last written first."""
        index = keys.sessions(tenant)
        async with self._store.operation():
            ids = [i.decode() for i in await self._store.commands.zrevrange(index, 0, LISTED - 1)]
            # Beyond what is listed, expired ones would stay in the index for ever.
            oldest = await self._store.commands.zrange(index, 0, PRUNED - 1)
        records = await self._read(tenant, ids)
        records.sort(key=lambda record: record.updated_at, reverse=True)
        await self._prune(tenant, {*ids, *(i.decode() for i in oldest)})
        return records

    async def _prune(self, tenant: str, ids: set[str]) -> None:
        """Take those out of the index that expired."""
        looked_at = list(ids)
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in looked_at:
                pipe.exists(keys.meta(tenant, id_))
            there = await pipe.execute()
            gone = [id_ for id_, exists in zip(looked_at, there, strict=True) if not exists]
            if gone:
                await self._store.commands.zrem(keys.sessions(tenant), *gone)

    async def _read(self, tenant: str, ids: Sequence[str]) -> Records:
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in ids:
                pipe.hmget(keys.meta(tenant, id_), _FIELDS)
                pipe.hgetall(keys.asked(tenant, id_))
            found = await pipe.execute()
        rows = [
            (id_, fields, asked)
            for id_, fields, asked in zip(ids, found[::2], found[1::2], strict=True)
            if fields[0] is not None
        ]
        attachments = await self._attachments(tenant, {row[1][0].decode() for row in rows})
        return [_record(*row, attachments) for row in rows]

    async def _attachments(self, tenant: str, agents: set[str]) -> dict[str, Attachment]:
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.time()
            for agent in agents:
                pipe.hmget(keys.claim(tenant, agent), SEEN_FIELDS)
            time, *found = await pipe.execute()
        return {
            agent: attachment.reduce(seen_of(fields), as_ms(time))
            for agent, fields in zip(agents, found, strict=True)
        }


def _record(
    session_id: str,
    fields: list[bytes | None],
    asked: dict[bytes, bytes],
    attachments: dict[str, Attachment],
) -> SessionRecord:
    agent, card, epoch, seq, created, updated = fields
    assert agent is not None
    owner = agent.decode()
    shown = (
        msgspec.json.decode(card, type=SessionCard)
        if card
        else SessionCard(session_id, owner, counter=0)
    )
    return SessionRecord(
        session_id=session_id,
        agent=owner,
        title=shown.title,
        cwd=shown.cwd,
        state=shown.state,
        state_reason=shown.state_reason,
        modes=shown.modes,
        models=shown.models,
        config_options=shown.config_options,
        usage=shown.usage,
        approval=shown.approval,
        cursor=Cursor(int(epoch), int(seq or 0)) if epoch else START,
        created_at=int(created or 0),
        updated_at=int(updated or 0),
        open=sorted(id_.decode() for id_, state in asked.items() if state == b"open"),
        attachment=attachments[owner],
    )
