"""What ``_bridge/status`` answers: how an agent is attached, who watches, what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bridge.agents import attachment_json
from bridge.protocol import entry
from bridge.protocol.attachment import Reason, State
from bridge.protocol.errors import AgentUnavailable, StoreUnavailable
from bridge.protocol.jsonrpc import Payload

if TYPE_CHECKING:
    from bridge.relay import Relay


async def of(relay: Relay, tenant: str, session_id: str | None) -> Payload:
    """Give it for a session, or for the tenant's attached agent; raises NotFound.

    While the store is away the state is unknown, and that is said.
    """
    health = relay.health
    try:
        shown = await _known(relay, tenant, session_id)
    except StoreUnavailable:
        since = entry.timestamp(health.since) if health.trouble else None
        shown = {"state": State.UNKNOWN.value, "reason": Reason.STORE_DOWN.value, "since": since}
        shown |= {"lastSeen": None, "roundTripMs": None, "watching": [], "open": []}
    own = {"version": relay.version, "node": relay.node, "store": health.as_json()}
    return {**shown, "relay": own}


async def _known(relay: Relay, tenant: str, session_id: str | None) -> Payload:
    if session_id is None:
        agents = await relay.agents.list(tenant)
        attached = [a for a in agents if a.attachment.state is State.ATTACHED]
        if not agents:
            raise AgentUnavailable("no agent has ever been attached here")
        agent = (attached or agents)[0].id
        shown = attachment_json((attached or agents)[0].attachment)
        questions = await relay.round_trips.list(tenant)
        watching: list[Any] = []
    else:
        record = await relay.sessions.get(tenant, session_id)
        agent = record.agent
        shown = attachment_json(record.attachment)
        questions = await relay.round_trips.list(tenant, session_id=record.session_id)
        watching = (await relay.presence.of(tenant, [record.session_id]))[0]
    is_attached = shown["state"] == State.ATTACHED.value
    shown["roundTripMs"] = await relay.agents.round_trip_ms(tenant, agent) if is_attached else None
    return {**shown, "watching": watching, "open": [one.id for one in questions]}
