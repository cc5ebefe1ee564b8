"""Carries out what rules decide by themselves: allow, deny, end and call again.

Each process does so for the agents whose uplinks it holds, at once when a question opens or a rule
changes, and looks again every second; doing it twice changes nothing.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from bridge.changes import Change
from bridge.outage import Outage
from bridge.protocol.errors import BridgeError, StoreUnavailable
from bridge.protocol.round_trip import RuleNote, State
from bridge.redis import Store
from bridge.round_trips import RoundTripRecord, RoundTrips
from bridge.rule_match import TIMED, Action, Rule
from bridge.rules import Rules

TICK_SECONDS = 1.0


class Holders(Protocol):
    """The uplinks of this process."""

    def held(self) -> set[tuple[str, str]]:
        """Give the tenant and the id of each agent whose uplink is here."""


class Warden:
    """Looks after the open questions of the agents that are held here."""

    def __init__(
        self, store: Store, rules: Rules, round_trips: RoundTrips, holders: Holders
    ) -> None:
        """Act through ``round_trips``; by the store's clock."""
        self._store = store
        self._rules = rules
        self._round_trips = round_trips
        self._holders = holders
        self._wanted = asyncio.Event()

    def heed(self, tenant: str, change: Change) -> None:
        """Hear a notice of a tenant."""
        del tenant
        opens = change.kind == "roundTrip" and change.state == State.OPEN.value
        if opens or change.kind == "rules":
            self._wanted.set()

    async def run(self) -> None:
        """Look whenever something may have to be done, until cancelled."""
        outage = Outage("what rules decide")
        while True:
            try:
                await self.look()
                outage.over()
            except StoreUnavailable as error:
                await outage.wait(error)
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def look(self) -> None:
        """Do what is due for every agent held here; raises StoreUnavailable."""
        held = self._holders.held()
        for tenant in {tenant for tenant, _ in held}:
            if not (await self._rules.of(tenant)).rules:
                continue
            for record in await self._round_trips.list(tenant):
                if record.rule is not None and (tenant, record.agent) in held:
                    await self._act(tenant, record, record.rule)

    async def _act(self, tenant: str, record: RoundTripRecord, rule: Rule) -> None:
        note = RuleNote(rule.id, rule.words)
        if rule.action in TIMED:
            if await self._store.time_ms() < record.opened_at + rule.seconds * 1000:
                return
            if rule.action is Action.ESCALATE:
                if record.escalated_at is None:
                    await self._round_trips.escalate(tenant, record.id, rule.id)
                return
            await self._decide(tenant, record, {}, note, expired=True)
        elif rule.action is Action.DENY:
            option = _option(record, "reject_once")
            await self._decide(tenant, record, {"optionId": option} if option else {}, note)
        elif rule.action is Action.ALLOW and record.relay_rules:
            option = _option(record, "allow_once")
            if option:
                await self._decide(tenant, record, {"optionId": option}, note)

    async def _decide(
        self,
        tenant: str,
        record: RoundTripRecord,
        answer: dict[str, str],
        note: RuleNote,
        *,
        expired: bool = False,
    ) -> None:
        try:
            await self._round_trips.decide_by_rule(tenant, record.id, answer, note, expired=expired)
        except StoreUnavailable:
            raise
        except BridgeError:  # it is over, or its mail is full: the next look tells
            return


def _option(record: RoundTripRecord, kind: str) -> str:
    """Give the one option of that kind; '' where there is none, or several."""
    fitting = [id_ for id_, its_kind in record.option_kinds.items() if its_kind == kind]
    return fitting[0] if len(fitting) == 1 else ""
