"""Carries out what rules decide by themselves: allow, deny, end and call again.

Each process does so for the agents whose uplinks it holds, at once when a question opens, and
looks again every second, also for rules that changed; doing it twice changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from bridge.changes import Change
from bridge.outage import Outage
from bridge.protocol.errors import BridgeError, NotFound, StoreUnavailable
from bridge.protocol.round_trip import RuleNote, State
from bridge.redis import Store
from bridge.round_trips import RoundTripRecord, RoundTrips
from bridge.rule_match import TIMED, Action, Rule
from bridge.rules import Rules

logger = logging.getLogger(__name__)

TICK_SECONDS = 1.0
OPEN_AT_MOST = 100_000  # questions of a tenant


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
        self._opened: set[tuple[str, str]] = set()  # tenant, round-trip: to be looked at now
        self._wanted = asyncio.Event()

    def heed(self, tenant: str, change: Change) -> None:
        """Hear a notice of a tenant."""
        if change.kind == "roundTrip" and change.state == State.OPEN.value:
            self._opened.add((tenant, change.id))
            self._wanted.set()

    async def run(self) -> None:
        """Look whenever something may have to be done, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_at_new())
            tasks.create_task(self._tick())

    async def _look_at_new(self) -> None:
        """Look at each question as soon as it opens; what fails here is left to the tick."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            opened, self._opened = self._opened, set()
            held = self._holders.held()
            for tenant, id_ in opened:
                with suppress(NotFound, StoreUnavailable):
                    record = await self._round_trips.get(tenant, id_)
                    await self._look_at(tenant, record, held)

    async def _tick(self) -> None:
        outage = Outage("what rules decide")
        while True:
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self.look()
                outage.over()
            except StoreUnavailable as error:
                await outage.wait(error)

    async def look(self) -> None:
        """Do what is due for every agent held here; raises StoreUnavailable."""
        held = self._holders.held()
        for tenant in {tenant for tenant, _ in held}:
            if not (await self._rules.of(tenant)).rules:
                continue
            for record in await self._round_trips.list(tenant, limit=OPEN_AT_MOST):
                await self._look_at(tenant, record, held)

    async def _look_at(
        self, tenant: str, record: RoundTripRecord, held: set[tuple[str, str]]
    ) -> None:
        is_open = record.state is State.OPEN and (tenant, record.agent) in held
        if is_open and record.rule is not None:
            with suppress(NotFound):  # it is over
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
        except BridgeError as error:  # such as full mail; the next look tries again
            logger.info("a rule could not decide %s: %s", record.id, error)


def _option(record: RoundTripRecord, kind: str) -> str:
    """Give the one option of that kind; '' where there is none, or several."""
    fitting = [id_ for id_, its_kind in record.option_kinds.items() if its_kind == kind]
    return fitting[0] if len(fitting) == 1 else ""
