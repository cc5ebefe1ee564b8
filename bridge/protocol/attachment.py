"""Whether an agent is reachable: one reducer over what is known of it, computed when read.

``attached → unresponsive → disconnected (grace) → detached → ended``; ``unknown`` when the
store does not answer. Every state has a reason of a closed list and since when it holds.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

GRACE_MS = 60_000  # a phone line or a laptop lid may be away this long before mail is refused
SILENCE_MS = 19_000  # ping after 10 s without a byte, dead 10 s later: said within those 20 s


class State(StrEnum):
    """What a person needs to know of an agent's reachability."""

    ATTACHED = "attached"
    UNRESPONSIVE = "unresponsive"
    DISCONNECTED = "disconnected"
    DETACHED = "detached"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Reason(StrEnum):
    """Why; a closed list."""

    OK = "ok"
    STARTING = "starting"
    NEVER_CONNECTED = "never_connected"
    PONG_MISSED = "pong_missed"
    SOCKET_CLOSED = "socket_closed"
    RELAY_UNREACHABLE = "relay_unreachable"
    RELAY_RESTARTING = "relay_restarting"
    REFUSED = "refused"
    REPLACED = "replaced"
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 (a reason, no secret)
    TOKEN_EXPIRED = "token_expired"  # noqa: S105 (a reason, no secret)
    AGENT_EXITED = "agent_exited"
    AGENT_CRASHED = "agent_crashed"
    SAID_GOODBYE = "said_goodbye"
    HOST_ASLEEP = "host_asleep"
    STORE_DOWN = "store_down"


class Seen(msgspec.Struct, frozen=True):
    """What the store knows of an agent's connection; times are Unix milliseconds, 0 is never."""

    connected_at: int = 0
    last_seen: int = 0
    lease_until: int = 0
    closed_at: int = 0  # 0 while the socket is open
    close_reason: Reason = Reason.OK
    agent_alive: bool = True  # the connector is there, its agent process may not be


class Attachment(msgspec.Struct, frozen=True):
    """A state, why, since when, and when the agent was last heard."""

    state: State
    reason: Reason
    since: int
    last_seen: int


ENDING = frozenset({Reason.SAID_GOODBYE, Reason.AGENT_EXITED, Reason.AGENT_CRASHED})


def reduce(seen: Seen, now: int) -> Attachment:
    """Compute the attachment at a time (Unix milliseconds)."""
    if not seen.connected_at:
        return Attachment(State.DETACHED, Reason.NEVER_CONNECTED, 0, 0)
    if seen.closed_at:
        return _closed(seen, now)
    if now >= seen.lease_until:  # the relay process that held the socket died with it
        return _gone(seen, Reason.RELAY_UNREACHABLE, seen.lease_until, now)
    if now - seen.last_seen > SILENCE_MS:
        since = seen.last_seen + SILENCE_MS
        return Attachment(State.UNRESPONSIVE, Reason.PONG_MISSED, since, seen.last_seen)
    return Attachment(State.ATTACHED, Reason.OK, seen.connected_at, seen.last_seen)


def _closed(seen: Seen, now: int) -> Attachment:
    if seen.close_reason in ENDING:
        return Attachment(State.ENDED, seen.close_reason, seen.closed_at, seen.last_seen)
    return _gone(seen, seen.close_reason, seen.closed_at, now)


def _gone(seen: Seen, reason: Reason, since: int, now: int) -> Attachment:
    state = State.DISCONNECTED if now - since < GRACE_MS else State.DETACHED
    return Attachment(state, reason, since, seen.last_seen)
