"""What people are notified of while no page of theirs is in front: a question, a turn's end.

Every process that hears of a question waits a moment, since what a rule or the editor answers at
once need not buzz, and then takes each browser in the store: one process notifies it. Once the
question has its answer, those that were notified are told who gave it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from bridge.agents import Agents
from bridge.changes import Change
from bridge.identity import Identity
from bridge.protocol.acp import Role
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import NotFound, StoreUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import State
from bridge.round_trips import RoundTripRecord, RoundTrips
from bridge.sessions import Sessions
from bridge.subscriptions import Kind, Subscription, Subscriptions
from bridge.tasks import Tasks
from bridge.web_push import PAYLOAD_LIMIT, Attempt, WebPush

GRACE_SECONDS = 1.5
LONG_TURN_SECONDS = 60.0
QUESTION_SECONDS = 3600  # how long a push service keeps it for a phone that is off
TURN_SECONDS = 3600
AT_ONCE = 16  # messages on their way
TRIES = 3  # of reading the store, while it is away
AGAIN_SECONDS = 2.0
TURNS = 10_000  # whose begin is remembered

_logger = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class _Way(NamedTuple):
    """How a push service is to treat a message."""

    seconds: int
    topic: str
    urgent: bool = False


class Notifier:
    """Notifies browsers."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        push: WebPush,
        *,
        agents: Agents,
        sessions: Sessions,
        round_trips: RoundTrips,
        tasks: Tasks,
    ) -> None:
        """Read what happened from these."""
        self._subscriptions = subscriptions
        self._push = push
        self._agents = agents
        self._sessions = sessions
        self._round_trips = round_trips
        self._tasks = tasks
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._began: dict[str, float] = {}  # turn → loop time

    def heed(self, tenant: str, change: Change) -> None:
        """Hear a notice of a tenant, as every process does that serves it."""
        if change.kind == "roundTrip" and change.state == State.OPEN.value and not change.reason:
            self._later(GRACE_SECONDS, partial(self._ask, tenant, change.id))
        elif change.kind == "roundTrip" and change.state != State.OPEN.value:
            self._later(0, partial(self._tell_answered, tenant, change.id))
        elif change.kind == "turn":
            self._heed_turn(tenant, change)

    async def test(self, identity: Identity) -> list[tuple[Subscription, Attempt]]:
        """Notify all of a person's browsers; gives each attempt's result."""
        own = await self._subscriptions.of(identity)
        message = {"kind": "test", "by": identity.device or identity.subject}
        attempts = await asyncio.gather(
            *(self._send(identity.tenant, one, message, _Way(60, "test")) for one in own)
        )
        return list(zip(own, attempts, strict=True))

    # What happened.

    async def _ask(self, tenant: str, id_: str) -> None:
        try:
            record = await self._round_trips.get(tenant, id_)
        except NotFound:
            return
        if record.state is not State.OPEN:
            return
        wanted = await self._wanting(tenant, "question", Role.APPROVER)
        if not wanted:
            return
        open_ = len(await self._round_trips.list(tenant))
        messages = _questions(record, await self._facts(tenant, record.agent), open_)
        way = _Way(QUESTION_SECONDS, _topic(id_), urgent=True)
        chosen = await self._first(tenant, id_, wanted)
        await asyncio.gather(
            *(self._send(tenant, one, messages[one.wish.shows], way) for one in chosen)
        )

    async def _tell_answered(self, tenant: str, id_: str) -> None:
        told = await self._subscriptions.told(tenant, id_)
        if not told:
            return
        record = await self._round_trips.get(tenant, id_)
        by = record.by or (record.decision.by if record.decision else None)
        is_void = record.decision is not None and record.result == "void"
        what = f"{id_[:50]}.{'void' if is_void else 'answered'}"
        known = [one for one in await self._subscriptions.all(tenant) if one.id in told]
        message = {
            "kind": "answered",
            "id": id_,
            "state": record.state.value,
            "result": record.result,
            "reason": record.reason,
            "by": by.subject if by else None,
            "device": by.device if by else None,
            "answer": record.answer or (record.decision.answer if record.decision else None),
        }
        for one in await self._first(tenant, what, known):
            await self._send(tenant, one, message, _Way(QUESTION_SECONDS, _topic(id_)))

    def _heed_turn(self, tenant: str, change: Change) -> None:
        now = asyncio.get_running_loop().time()
        if change.state == "started":
            if len(self._began) >= TURNS:
                self._began.pop(next(iter(self._began)))
            self._began[change.id] = now
            return
        began = self._began.pop(change.id, None)
        took = None if began is None else now - began
        failed = change.reason == "error" or change.state == "unknown"
        if failed or (took is not None and took >= LONG_TURN_SECONDS):
            self._later(0, partial(self._tell_turn, tenant, change, took, failed=failed))

    async def _tell_turn(
        self, tenant: str, change: Change, took: float | None, *, failed: bool
    ) -> None:
        kind: Kind = "failure" if failed else "turn"
        wanted = await self._wanting(tenant, kind, Role.VIEWER)
        if not wanted or change.session_id is None:
            return
        session = await self._sessions.get(tenant, change.session_id)
        message = {
            "kind": kind,
            "sessionId": change.session_id,
            "title": session.title[:200],
            "reason": change.reason,
            "took": None if took is None else round(took),
            **await self._facts(tenant, session.agent),
        }
        little = {name: value for name, value in message.items() if name != "title"}
        for one in await self._first(tenant, change.id, wanted):
            said = message if one.wish.shows == "all" else little
            await self._send(tenant, one, said, _Way(TURN_SECONDS, _topic(change.id)))

    # To whom.

    async def _wanting(self, tenant: str, kind: Kind, role: Role) -> list[Subscription]:
        now = await self._subscriptions.now_ms()
        return [
            one
            for one, identity in await self._subscriptions.living(tenant)
            if identity.role >= role and one.wish.wants(kind, now)
        ]

    async def _first(
        self, tenant: str, what: str, wanted: Iterable[Subscription]
    ) -> list[Subscription]:
        by_id = {one.id: one for one in wanted}
        return [by_id[id_] for id_ in await self._subscriptions.first(tenant, what, by_id)]

    async def _facts(self, tenant: str, agent: str) -> Payload:
        try:
            record = await self._agents.get(tenant, agent)
        except NotFound:
            return {"agent": "", "host": ""}
        return {"agent": record.card.title or record.card.name, "host": record.connector.host}

    async def _send(self, tenant: str, one: Subscription, message: Payload, way: _Way) -> Attempt:
        text = msgspec.json.encode(message)
        async with self._turn:
            attempt = await self._push.send(one.receiver, text, **way._asdict())
        if not attempt.is_taken:
            _logger.info("a notification was not taken: %s %s", attempt.status, attempt.reason)
        await self._subscriptions.note(tenant, one, attempt)
        return attempt

    # When.

    def _later(self, seconds: float, work: Work) -> None:
        self._tasks.start("a notification", self._do(seconds, work))

    async def _do(self, seconds: float, work: Work) -> None:
        await asyncio.sleep(seconds)
        for _ in range(TRIES):
            try:
                await work()
            except StoreUnavailable:
                await asyncio.sleep(AGAIN_SECONDS)
            except Exception:
                _logger.exception("a notification failed")
                return
            else:
                return


def _questions(record: RoundTripRecord, facts: Payload, open_: int) -> dict[str, Payload]:
    """Say a question in little, and in all that a browser needs to show and to sign it."""
    little: Payload = {
        "kind": "question",
        "id": record.id,
        "sessionId": record.session_id,
        "risk": record.risk,
        "askedAt": timestamp(record.asked_at),
        "expiresAt": timestamp(record.expires_at) if record.expires_at else None,
        "open": open_,
        **facts,
    }
    whole: Payload = {
        **little,
        "agentId": record.agent,
        "epoch": record.cursor.epoch,
        "hash": record.hash,
        "subject": record.subject,
    }
    if len(msgspec.json.encode(whole)) > PAYLOAD_LIMIT:
        whole = {**little, "title": _title(record)}
    return {"little": little, "all": whole}


def _title(record: RoundTripRecord) -> str:
    try:
        title = msgspec.json.decode(record.subject)["title"]
    except (msgspec.DecodeError, RecursionError, TypeError, KeyError):
        return ""
    return str(title)[:200]


def _topic(what: str) -> str:
    """Name what a later message replaces; services take 32 characters of base64url."""
    return "".join(c for c in what if c.isalnum() or c in "-_")[-32:]
