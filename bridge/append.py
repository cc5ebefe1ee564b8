"""One call of the append script: batches of several sessions of a tenant, and what became of each.

A call costs Redis about as much as three entries, so what is flushed together shares few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from bridge import keys
from bridge.agents import DEFAULT_AGE_SECONDS, Claim, agent_life_ms
from bridge.changes import Change, notice
from bridge.effects import NO_EFFECT, effect_of
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Envelope
from bridge.redis import Argument

CALL_ENTRIES = 256  # in one script call: Redis serves nobody else meanwhile
CALL_BYTES = 4 << 20
NAMED_SESSIONS = 4096  # whose names are at hand; building them costs more than sending them

State: TypeAlias = Literal["ok", "gap", "fenced", "foreign", "failed"]


@dataclass(frozen=True)
class LogLimits:
    """How much of each session is kept."""

    entries: int = 20_000
    bytes: int = 32 << 20
    age_seconds: int = DEFAULT_AGE_SECONDS


class Appended(NamedTuple):
    """What became of a batch.

    ``ok``: stored, or there already. ``gap``: an entry is missing, send again from the cursor.
    ``fenced``: the claim is another's. ``foreign``: the session is another agent's. ``failed``:
    Redis refuses it for good.
    """

    state: State
    cursor: Cursor  # the last entry that is stored


class Entry(NamedTuple):
    """An entry as the script takes it, and the round-trip that it is about."""

    epoch: int
    seq: int
    prev: str  # stream id, '' if none is named
    payload: bytes
    effect: bytes
    about: str

    @classmethod
    def of(
        cls, claim: Claim, session: str, cursor: Cursor, payload: bytes, envelope: Envelope | None
    ) -> Entry:
        """Find out what an entry does; raises InvalidParams when an id in it cannot be one."""
        epoch, seq = cursor
        if envelope is None:
            return cls(epoch, seq, "", payload, *NO_EFFECT)
        prev = envelope.meta.prev
        before = "" if prev is None else Cursor.parse(prev).stream_id
        effect = effect_of(claim, session, payload, envelope)
        return cls(epoch, seq, before, payload, *effect)


@dataclass(slots=True)
class Batch:
    """What one script call takes of one session."""

    claim: Claim
    session: str
    entries: list[Entry] = field(default_factory=list)
    size: int = 0  # bytes
    told: list[Callable[[Appended], None]] = field(default_factory=list)
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Name what it touches."""
        self.names = session_names(self.claim.tenant, self.session, self.claim.agent)

    @property
    def log(self) -> str:
        """The name of the session's log."""
        return self.names[0]


def calls_of(batches: Iterable[Batch]) -> list[list[Batch]]:
    """Put batches of a tenant together, as many as a call may take."""
    calls: list[list[Batch]] = []
    open_: dict[str, tuple[list[Batch], int, int]] = {}  # tenant → its last call, entries, bytes
    for batch in batches:
        tenant, count = batch.claim.tenant, max(1, len(batch.entries))
        call, entries, size = open_.get(tenant, ([], 0, 0))
        if entries + count > CALL_ENTRIES or size + batch.size > CALL_BYTES:
            call, entries, size = [], 0, 0
        if not call:
            calls.append(call)
        call.append(batch)
        open_[tenant] = call, entries + count, size + batch.size
    return calls


def arguments_of(call: list[Batch], limits: LogLimits) -> tuple[list[str], list[Argument]]:
    """Give the keys and the arguments of a call."""
    names = [*_tenant_names(call[0].claim.tenant)]
    arguments: list[Argument] = [
        limits.entries,
        limits.bytes,
        limits.age_seconds * 1000,
        agent_life_ms(limits.age_seconds),
    ]
    for batch in call:
        claim, session, entries = batch.claim, batch.session, batch.entries
        about = [keys.round_trip(claim.tenant, one.about) for one in entries if one.effect]
        names += batch.names
        names += about
        arguments += (session, claim.agent, claim.epoch, claim.writer)
        arguments += (_new_session(session, claim.agent), len(entries), len(about))
        for entry in entries:
            arguments += entry[:5]  # all but what it is about, which is named above
    return names, arguments


@lru_cache(maxsize=NAMED_SESSIONS)
def session_names(tenant: str, session: str, agent: str) -> tuple[str, ...]:
    """Give what an append of a session touches, but for its questions; raises InvalidParams."""
    log = keys.log(tenant, session)
    return (
        log,
        keys.meta(tenant, session),
        keys.chunks(tenant, session),
        keys.asked(tenant, session),
        keys.watch(log),
        keys.claim(tenant, agent),
        keys.sessions_of(tenant, agent),
    )


@lru_cache(maxsize=NAMED_SESSIONS)
def _tenant_names(tenant: str) -> tuple[str, ...]:
    changes = keys.changes(tenant)
    return (
        keys.open_round_trips(tenant),
        keys.closed_round_trips(tenant),
        keys.sessions(tenant),
        changes,
        keys.watch(changes),
        keys.audit(tenant),
    )


@lru_cache(maxsize=NAMED_SESSIONS)
def _new_session(session: str, agent: str) -> bytes:
    return notice(Change("session", session, agent=agent))
