"""The records of questions: decide once, read, list.

A record opens and closes with its entry of the log (``log.py``). In between the first answer wins,
in one script with its audit, its mail to the agent and the notice to everybody who watches.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from bridge import keys, rules
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol.acp import DECIDE
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.errors import NotFound, Overloaded, PasskeyRequired
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import SUBJECT_LIMIT, Decision, Outcome, RuleNote, State
from bridge.redis import Argument, Store
from bridge.round_trip_record import FIELDS, RoundTripRecord, origin_json, origin_of, record_of
from bridge.rule_match import Action, Rule, first

CLOSED_SEARCHED = 1000  # of a tenant's lately closed ones, for those of one session
TRIES = 5  # to answer while rules change
_LIFE_MS = keys.AGENT_SECONDS * 1000


class Decided(msgspec.Struct, frozen=True):
    """What became of one attempt to decide.

    ``by``, ``at`` (Unix milliseconds) and ``answer`` are of the answer that won, where one did.
    ``reason``: of a late or closed one, how it ended; of a refused one ``hash``,
    ``unknown_option``, ``subject_too_big``, ``truncated``, ``decision_id_used``, ``signature``,
    ``rule`` (one denies it), ``same_person`` or ``other_answer`` (of two who must approve).
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


__all__ = ["Decided", "RoundTripRecord", "RoundTrips", "origin_json"]

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
        self,
        tenant: str,
        decision: Decision,
        by: Origin,
        signature: str | None = None,
        *,
        passkey: str = "",
    ) -> Decided:
        """Record an answer if it is the first; raises NotFound, or Overloaded on full mail.

        A signature must have been checked; an answer that lacks one where it is needed is refused.
        ``passkey``: which one was touched for this very question; raises PasskeyRequired where a
        rule wants one and there is none.
        """
        keys.check_id(decision.decision_id, "decision id")
        for _ in range(TRIES):
            record, version = await self._judged(tenant, decision.id)
            asked = _Asked(record, version, decision, by, signature or "", passkey)
            if (decided := await self._record(tenant, asked)) is not None:
                return decided
        raise Overloaded("the rules are being changed; answer again")

    async def decide_by_rule(
        self, tenant: str, id_: str, answer: Payload, rule: RuleNote, *, expired: bool = False
    ) -> None:
        """Have a question's connector end it as a rule says; an answer of {} cancels it."""
        record, version = await self._judged(tenant, id_)
        decision_id = f"rule-{secrets.token_hex(8)}"
        decision = Decision(id_, record.hash, answer, decision_id, rule=rule, expired=expired)
        by = Origin(f"rule {rule.id}", tenant, door="rule")
        await self._record(tenant, _Asked(record, version, decision, by, "", ""))

    async def _record(self, tenant: str, asked: _Asked) -> Decided | None:
        """Run the script; None: what was read before is not so any more, read again."""
        record, decision = asked.record, asked.decision
        agent, session = record.agent, record.session_id
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
                keys.rules(tenant),
            ],
            asked.arguments(),
            replicated=True,
        )
        outcome, reason, winner, at, answer, mail_nodes, changes_nodes = reply
        if outcome == b"again":
            return None
        if outcome == b"unknown":
            raise _unknown(decision.id)
        if outcome == b"full":
            raise Overloaded(f"the mail of agent {agent!r} is full; nothing was recorded")
        if reason == b"passkey":
            raise PasskeyRequired("this takes a fresh touch of your passkey, for this question")
        await self._inbox.wake_all(_streams({mail: mail_nodes, changes: changes_nodes}))
        self._on_record(tenant)
        return Decided(
            Outcome(outcome.decode()),
            origin_of(winner),
            reason.decode() or None,
            int(at),
            msgspec.json.decode(answer) if answer else None,
        )

    async def escalate(self, tenant: str, id_: str, rule: str) -> None:
        """Note once that a question is open for too long, and tell everybody."""
        changes = keys.changes(tenant)
        record = await self.get(tenant, id_)
        told = Change(
            "roundTrip",
            id_,
            session_id=record.session_id,
            agent=record.agent,
            state=State.OPEN.value,
            reason="escalated",
        )
        names = [keys.round_trip(tenant, id_), keys.audit(tenant), changes, keys.watch(changes)]
        nodes = await self._store.run("escalate", names, [id_, rule, notice(told)])
        await self._inbox.wake(nodes, changes)

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
        return (await self._read_with_rules(tenant, ids))[0]

    async def _judged(self, tenant: str, id_: str) -> tuple[RoundTripRecord, str]:
        """Give a question with the rule that is about it, and the version of the rules."""
        found, version = await self._read_with_rules(tenant, (id_,))
        if not found:
            raise _unknown(id_)
        return found[0], version

    async def _read_with_rules(self, tenant: str, ids: Sequence[str]) -> tuple[Records, str]:
        if not ids:
            return [], ""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for id_ in ids:
                pipe.hmget(keys.round_trip(tenant, id_), FIELDS)
            pipe.hmget(keys.rules(tenant), rules.FIELDS)
            *found, held = await pipe.execute()
        rows = (dict(zip(FIELDS, fields, strict=True)) for fields in found)
        records = [record_of(row) for row in rows if row["state"] is not None]
        listed = rules.read(held)
        if listed.rules:
            records = await self._with_rules(tenant, records, listed.rules)
        return records, listed.version

    async def _with_rules(self, tenant: str, records: Records, listed: Sequence[Rule]) -> Records:
        """Put to each open question the first rule that is about it."""
        places = await self.places(tenant, {one.agent for one in records})
        return [
            msgspec.structs.replace(one, rule=first(listed, one.facts(*places[one.agent])))
            if one.state is State.OPEN
            else one
            for one in records
        ]

    async def places(self, tenant: str, agents: set[str]) -> dict[str, tuple[tuple[str, ...], str]]:
        """Give for each agent its names and its machine's."""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            for agent in agents:
                pipe.hmget(keys.claim(tenant, agent), "card", "connector")
            found = await pipe.execute()
        return {
            agent: (
                (msgspec.json.decode(card, type=_Named).name,) if card else (),
                msgspec.json.decode(connector, type=_Hosted).host if connector else "",
            )
            for agent, (card, connector) in zip(agents, found, strict=True)
        }


class _Named(msgspec.Struct):
    name: str = ""


class _Hosted(msgspec.Struct):
    host: str = ""


class _Asked(NamedTuple):
    """One attempt to decide, with what it was judged by."""

    record: RoundTripRecord
    version: str  # of the rules
    decision: Decision
    by: Origin
    signature: str
    passkey: str

    def arguments(self) -> list[Argument]:
        """Give what the script takes."""
        record, decision = self.record, self.decision
        first_id = record.half.first.decision_id if record.half else ""
        return [
            decision.id,
            decision.decision_id,
            decision.hash,
            msgspec.json.encode(decision.answer, order="deterministic"),
            _chosen(decision.answer),
            msgspec.json.encode(self.by),
            msgspec.json.encode(_message(record, decision)),
            _LIFE_MS,
            SUBJECT_LIMIT,
            notice(_notice(record, decision, self.by, State.DECIDED)),
            record.agent,
            record.session_id,
            self.signature,
            self.version,
            self._obstacle(),
            record.people_needed,
            self.by.subject,
            first_id,
            decision.rule.id if decision.rule else "",
            record.ends_at or "",
            notice(_notice(record, decision, self.by, State.OPEN)),
            self.passkey,
        ]

    def _obstacle(self) -> str:
        """Say why an approval cannot be taken from this person now; '' if nothing is in the way."""
        rule = self.record.rule
        if rule is None or self.decision.rule is not None:
            return ""
        if rule.action is Action.DENY:
            return "rule"
        return "passkey" if rule.action is Action.PASSKEY and not self.passkey else ""


def _message(record: RoundTripRecord, decision: Decision) -> Payload:
    """Give what goes to the connector; with the first approval, where there is one."""
    half = record.half
    if half is not None and record.people_needed > 1 and half.answer == decision.answer:
        decision = msgspec.structs.replace(decision, first=half.first)
    params: Payload = msgspec.to_builtins(decision)
    return {"method": DECIDE, "params": {**params, "sessionId": record.session_id}}


def _notice(record: RoundTripRecord, decision: Decision, by: Origin, state: State) -> Change:
    is_half = state is State.OPEN
    return Change(
        "roundTrip",
        decision.id,
        session_id=record.session_id,
        agent=record.agent,
        state=state.value,
        by=by,
        answer=decision.answer,
        reason="needs_another" if is_half else None,
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


def _unknown(id_: str) -> NotFound:
    return NotFound(f"unknown round-trip {id_!r}")
