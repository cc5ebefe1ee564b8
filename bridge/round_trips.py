"""The records of questions: decide once, read, list.

A record opens and closes with its entry of the log (``log.py``). In between the first answer wins,
in one script with its audit, its mail to the agent and the notice to everybody who watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from bridge import keys
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol.acp import DECIDE
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.errors import NotFound, Overloaded
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import SUBJECT_LIMIT, Decision, Outcome, State
from bridge.redis import Store

_FIELDS = (
    "id",
    "session",
    "agent",
    "kind",
    "subject",
    "hash",
    "option_ids",
    "risk",
    "state",
    "asked_at",
    "expires_at",
    "tool_call_id",
    "epoch",
    "seq",
    "entry",
    "answer",
    "decided_by",
    "decided_at",
    "decision_id",
    "result",
    "reason",
    "closed_by",
    "closed_answer",
    "closed_at",
)
CLOSED_SEARCHED = 1000  # of a tenant's lately closed ones, for those of one session
_LIFE_MS = keys.AGENT_SECONDS * 1000


class Decided(msgspec.Struct, frozen=True):
    """What became of one attempt to decide.

    ``by``, ``at`` (Unix milliseconds) and ``answer`` are of the answer that won, where one did.
    ``reason``: of a late or closed one, how it ended; of a refused one ``hash``,
    ``unknown_option``, ``subject_too_big``, ``truncated``, ``decision_id_used`` or ``signature``.
    """

    state: Outcome
    by: Origin | None
    reason: str | None
    at: int
    answer: Payload | None

    def as_json(self) -> Payload:
        """Give the wire shape."""
        shown: Payload = {"state": self.state.value, "at": timestamp(self.at)}
        if self.by is not None:
            shown["by"] = origin_json(self.by)
        if self.reason is not None:
            shown["reason"] = self.reason
        if self.answer is not None:
            shown["answer"] = self.answer
        return shown


class Given(msgspec.Struct, frozen=True):
    """The decision that won."""

    answer: Payload
    by: Origin
    at: int  # Unix milliseconds
    decision_id: str


class RoundTripRecord(msgspec.Struct, frozen=True):
    """A question as it is known here; times are Unix milliseconds."""

    id: str
    session_id: str
    agent: str
    kind: str
    subject: str
    hash: str
    option_ids: list[str]
    risk: str
    state: State
    asked_at: int
    expires_at: int | None
    tool_call_id: str | None
    cursor: Cursor  # of the question's entry
    entry: bytes | None  # the question as the connector sent it, until it is closed
    decision: Given | None
    result: str | None
    reason: str | None
    by: Origin | None
    answer: Payload | None
    closed_at: int | None

    def as_json(self) -> Payload:
        """Give the wire shape."""
        shown: Payload = {
            "id": self.id,
            "sessionId": self.session_id,
            "agent": self.agent,
            "kind": self.kind,
            "subject": self.subject,
            "hash": self.hash,
            "optionIds": self.option_ids,
            "risk": self.risk,
            "state": self.state.value,
            "epoch": self.cursor.epoch,
            "askedAt": timestamp(self.asked_at),
        }
        optional = {
            "expiresAt": timestamp(self.expires_at) if self.expires_at else None,
            "toolCallId": self.tool_call_id,
            "decision": _given_json(self.decision) if self.decision else None,
            "result": self.result,
            "reason": self.reason,
            "by": origin_json(self.by) if self.by else None,
            "answer": self.answer,
            "closedAt": timestamp(self.closed_at) if self.closed_at else None,
        }
        return shown | {name: value for name, value in optional.items() if value is not None}


Records: TypeAlias = list[RoundTripRecord]
Ids: TypeAlias = list[str]


class RoundTrips:
    """The round-trips of all tenants."""

    def __init__(
        self, store: Store, inbox: Inbox, *, on_record: Callable[[str], None] = lambda _tenant: None
    ) -> None:
        """Decide through ``store``, wake through ``inbox``; told of tenants with new audit."""
        self._store = store
        self._inbox = inbox
        self._on_record = on_record

    async def decide(
        self, tenant: str, decision: Decision, by: Origin, signature: str | None = None
    ) -> Decided:
        """Record an answer if it is the first; raises NotFound, or Overloaded on full mail.

        A signature must have been checked; an answer that lacks one where it is needed is refused.
        """
        keys.check_id(decision.decision_id, "decision id")
        agent, session = await self.owner(tenant, decision.id)
        mail, changes = keys.mail(tenant, agent), keys.changes(tenant)
        reply = await self._store.run(
            "decide",
            [
                keys.round_trip(tenant, decision.id),
                keys.asked(tenant, session),
                keys.audit(tenant),
                mail,
                keys.mailed(tenant, agent),
                keys.claim(tenant, agent),
                keys.watch(mail),
                changes,
                keys.watch(changes),
            ],
            [
                decision.id,
                decision.decision_id,
                decision.hash,
                msgspec.json.encode(decision.answer),
                _chosen(decision.answer),
                msgspec.json.encode(by),
                msgspec.json.encode(_message(session, decision)),
                _LIFE_MS,
                SUBJECT_LIMIT,
                notice(_decided_notice(session, agent, decision, by)),
                agent,
                session,
                signature or "",
            ],
            replicated=True,
        )
        outcome, reason, winner, at, answer, mail_nodes, changes_nodes = reply
        if outcome == b"unknown":
            raise _unknown(decision.id)
        if outcome == b"full":
            raise Overloaded(f"the mail of agent {agent!r} is full; nothing was recorded")
        await self._inbox.wake_all(_streams({mail: mail_nodes, changes: changes_nodes}))
        self._on_record(tenant)
        return Decided(
            Outcome(outcome.decode()),
            _origin(winner),
            reason.decode() or None,
            int(at),
            msgspec.json.decode(answer) if answer else None,
        )

    async def get(self, tenant: str, id_: str) -> RoundTripRecord:
        """Give one round-trip; raises NotFound."""
        found = await self._read(tenant, (id_,))
        if not found:
            raise _unknown(id_)
        return found[0]

    async def list(
        self,
        tenant: str,
        *,
        open_only: bool = True,
        session_id: str | None = None,
        limit: int = 200,
    ) -> list[RoundTripRecord]:
        """Give open ones, or also decided and lately closed ones; the newest question first."""
        ids = await self._ids(tenant, session_id, limit, closed=not open_only)
        found = [
            record
            for record in await self._read(tenant, ids)
            if (not open_only or record.state is State.OPEN)
            and session_id in (None, record.session_id)
        ]
        found.sort(key=lambda record: record.asked_at, reverse=True)
        return found[:limit]

    async def closed_of(self, tenant: str, ids: Ids) -> Ids:
        """Give those of the ids that are closed here."""
        if not ids:
            return []
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in ids:
                pipe.hget(keys.round_trip(tenant, id_), "state")
            states = await pipe.execute()
        closed = State.CLOSED.value.encode()
        return [id_ for id_, state in zip(ids, states, strict=True) if state == closed]

    async def owner(self, tenant: str, id_: str) -> tuple[str, str]:
        """Give the agent and the session of a round-trip; raises NotFound."""
        name = keys.round_trip(tenant, id_)
        async with self._store.operation():
            agent, session = await self._store.commands.hmget(name, "agent", "session")
        if agent is None:
            raise _unknown(id_)
        return agent.decode(), session.decode()

    async def _ids(self, tenant: str, session_id: str | None, limit: int, *, closed: bool) -> Ids:
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            if session_id is None:
                pipe.zrevrange(keys.open_round_trips(tenant), 0, -1)
            else:
                pipe.hkeys(keys.asked(tenant, session_id))
            if closed:
                most = limit if session_id is None else CLOSED_SEARCHED
                pipe.zrevrange(keys.closed_round_trips(tenant), 0, most - 1)
            found = await pipe.execute()
        return [id_.decode() for ids in found for id_ in ids]

    async def _read(self, tenant: str, ids: Sequence[str]) -> Records:
        if not ids:
            return []
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in ids:
                pipe.hmget(keys.round_trip(tenant, id_), _FIELDS)
            found = await pipe.execute()
        rows = (dict(zip(_FIELDS, fields, strict=True)) for fields in found)
        return [_record(row) for row in rows if row["state"] is not None]


def origin_json(origin: Origin) -> Payload:
    """Give an origin's wire shape."""
    built: Payload = msgspec.to_builtins(origin)
    return built


def _message(session: str, decision: Decision) -> Payload:
    return {
        "method": DECIDE,
        "params": {
            "id": decision.id,
            "sessionId": session,
            "hash": decision.hash,
            "answer": decision.answer,
            "decisionId": decision.decision_id,
        },
    }


def _decided_notice(session: str, agent: str, decision: Decision, by: Origin) -> Change:
    return Change(
        "roundTrip",
        decision.id,
        session_id=session,
        agent=agent,
        state=State.DECIDED.value,
        by=by,
        answer=decision.answer,
    )


def _chosen(answer: Payload) -> str:
    """Give what an answer chooses; '' is never offered."""
    chosen = answer.get("optionId", answer.get("action"))
    return chosen if isinstance(chosen, str) else ""


def _streams(nodes_of: dict[str, list[bytes]]) -> dict[str, list[str]]:
    streams: dict[str, list[str]] = {}
    for stream, nodes in nodes_of.items():
        for node in nodes:
            streams.setdefault(node.decode(), []).append(stream)
    return streams


def _record(row: dict[str, Any]) -> RoundTripRecord:
    text = {name: value.decode() if value else "" for name, value in row.items() if name != "entry"}
    decided = text["decision_id"]
    return RoundTripRecord(
        id=text["id"],
        session_id=text["session"],
        agent=text["agent"],
        kind=text["kind"],
        subject=text["subject"],
        hash=text["hash"],
        option_ids=msgspec.json.decode(text["option_ids"]),
        risk=text["risk"],
        state=State(text["state"]),
        asked_at=int(text["asked_at"]),
        expires_at=int(text["expires_at"]) if text["expires_at"] else None,
        tool_call_id=text["tool_call_id"] or None,
        cursor=Cursor(int(text["epoch"]), int(text["seq"])),
        entry=row["entry"],
        decision=_given(text) if decided else None,
        result=text["result"] or None,
        reason=text["reason"] or None,
        by=_origin(row["closed_by"]),
        answer=msgspec.json.decode(text["closed_answer"]) if text["closed_answer"] else None,
        closed_at=int(text["closed_at"]) if text["closed_at"] else None,
    )


def _given(text: dict[str, str]) -> Given:
    by = _origin(text["decided_by"].encode())
    assert by is not None
    answer = msgspec.json.decode(text["answer"])
    return Given(answer, by, int(text["decided_at"]), text["decision_id"])


def _given_json(given: Given) -> Payload:
    return {
        "answer": given.answer,
        "by": origin_json(given.by),
        "at": timestamp(given.at),
        "decisionId": given.decision_id,
    }


def _origin(text: bytes | None) -> Origin | None:
    return msgspec.json.decode(text, type=Origin) if text else None


def _unknown(id_: str) -> NotFound:
    return NotFound(f"unknown round-trip {id_!r}")
