"""What a client may ask of the relay: ACP's methods and ours, each one small function.

A call gives its result, or None when its answer comes later. Who may call what is
``acp.NEEDED_ROLE``; ``session/prompt`` and the like go down as mail, and only the fields named here
go with them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bridge import params as read
from bridge import status
from bridge.agents import AgentRecord
from bridge.history import PAGE_LIMIT
from bridge.identity import renewed
from bridge.mail import Letter, message_for
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.attachment import State
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import (
    AgentUnavailable,
    InvalidParams,
    MethodNotFound,
)
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Decision
from bridge.sessions import SessionRecord
from bridge.viewer import Reading

if TYPE_CHECKING:
    from bridge.dashboard import Dashboard

NEW_SECONDS = 60.0  # for an agent to open a session
MAIL_LIFE_MS = 600_000  # a prompt to an agent that is away is refused after this
HISTORY_ENTRIES = 200  # of a page, unless the client says how many
_CAPABILITIES = ("image", "audio", "embeddedContext")

Call: TypeAlias = Callable[["Dashboard", Id, Payload], Awaitable[Payload | None]]


async def serve(dashboard: Dashboard, request: jsonrpc.Request) -> Payload | None:
    """Check the role and do what is asked; raises BridgeError."""
    call = _CALLS.get(request.method)
    if call is None:
        raise MethodNotFound(f"unknown method {request.method!r:.80}")
    dashboard.identity.require(acp.NEEDED_ROLE[request.method])
    return await call(dashboard, request.id, jsonrpc.payload(request.params))


# The connection.


async def _initialize(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    capabilities = read.as_object(params.get("clientCapabilities"))
    dashboard.decides = read.meta(capabilities).get("decide") is True
    dashboard.takes_forms = isinstance(
        read.as_object(capabilities.get("elicitation")).get("form"), dict
    )
    await dashboard.listen()
    relay, who = dashboard.relay, dashboard.identity
    device = read.meta(capabilities).get("device")
    if isinstance(device, str):
        await relay.devices.seen(who, device)
    agents = await relay.agents.list(who.tenant)
    offered = [read.as_object(a.card.capabilities.get("promptCapabilities")) for a in agents]
    return {
        "protocolVersion": acp.PROTOCOL_VERSION,
        "agentInfo": {
            "name": "chimera-bridge",
            "title": "Chimera Bridge",
            "version": relay.version,
        },
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {
                name: any(one.get(name) is True for one in offered) for name in _CAPABILITIES
            },
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "authMethods": [],
        "_meta": {
            META_KEY: {
                "version": relay.version,
                "node": relay.node,
                "subject": who.subject,
                "role": str(who.role),
                "tenant": who.tenant,
                "signed": _signed(agents),
            }
        },
    }


async def _token(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    who = dashboard.identity
    fresh = await renewed(dashboard.relay, who, str(params.get("token", "")))
    dashboard.renew(fresh)
    return {"expiresAt": fresh.expires_at and entry.timestamp(fresh.expires_at)}


async def _visible(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    dashboard.visible = params.get("visible") is not False
    for session_id in dashboard.subscribers:
        dashboard.relay.dashboards.presence_changed(dashboard.identity.tenant, session_id)
    return {}


# Lists.


async def _list(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    cwd = params.get("cwd")
    found = await dashboard.relay.sessions.list(dashboard.identity.tenant)
    return {"sessions": [_session_info(one) for one in found if cwd in {None, one.cwd}]}


async def _agents(dashboard: Dashboard, _request: Id, _params: Payload) -> Payload:
    found = await dashboard.relay.agents.list(dashboard.identity.tenant)
    return {"agents": [one.as_json() for one in found]}


async def _sessions(dashboard: Dashboard, _request: Id, _params: Payload) -> Payload:
    found = await dashboard.relay.sessions.list(dashboard.identity.tenant)
    return {"sessions": [one.as_json() for one in found]}


async def _round_trips(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    found = await dashboard.relay.round_trips.list(
        dashboard.identity.tenant, open_only=params.get("state") != "all"
    )
    return {"roundTrips": [one.as_json() for one in found]}


async def _watch(dashboard: Dashboard, request: Id, params: Payload) -> Payload:
    dashboard.watches = True  # first: a change between the lists and their answer is told after it
    return {
        **await _agents(dashboard, request, params),
        **await _sessions(dashboard, request, params),
        **await _round_trips(dashboard, request, {"state": "all"}),
        "store": dashboard.relay.health.as_json(),
        "time": entry.timestamp(await dashboard.relay.store.time_ms()),
    }


async def _status(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    asked = None if params.get("sessionId") is None else read.text(params, "sessionId")
    return await status.of(dashboard.relay, dashboard.identity.tenant, asked)


# Sessions.


async def _load(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    record = await _session(dashboard, params)
    await dashboard.attach(record.session_id, START, reading=read.reading(read.meta(params)))
    dashboard.later(partial(dashboard.ask_open, record.session_id))  # behind the result
    return _opened(dashboard, record)


async def _resume(dashboard: Dashboard, request: Id, params: Payload) -> Payload | None:
    record = await _session(dashboard, params)
    text = read.meta(params).get("cursor")
    after = Cursor.parse(text) if isinstance(text, str) else record.cursor
    dashboard.answer(request, _opened(dashboard, record))
    await dashboard.attach(record.session_id, after, reading=read.reading(read.meta(params)))
    await dashboard.ask_open(record.session_id)
    return None


async def _history(dashboard: Dashboard, request: Id, params: Payload) -> None:
    record = await _session(dashboard, params)
    before = params.get("before")
    cursor = Cursor.parse(before) if isinstance(before, str) else None
    limit = read.number(params, "limit", HISTORY_ENTRIES, range(1, PAGE_LIMIT + 1))
    reading = Reading(limit, params.get("compact") is True)
    page = dashboard.relay.history.before(dashboard.identity.tenant, record, cursor, reading)
    dashboard.aside(request, page)


async def _entry(dashboard: Dashboard, request: Id, params: Payload) -> None:
    record, at = await _session(dashboard, params), Cursor.parse(read.text(params, "at"))
    offset = read.number(params, "offset", 0, range(1 << 62))
    limit = read.number(params, "limit", 0, range(1 << 62)) or None
    piece = dashboard.relay.history.piece(dashboard.identity.tenant, record, at, offset, limit)
    dashboard.aside(request, piece)


async def _close(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    dashboard.leave(read.text(params, "sessionId"))
    return {}


async def _new(dashboard: Dashboard, request: Id, params: Payload) -> None:
    named = read.meta(params)
    agent = await _agent_for(dashboard, named.get("agent"))
    mail_id, signature = read.mail_id(named), read.signature(named)
    message = {"method": acp.NEW, "params": {"cwd": read.text(params, "cwd"), "mcpServers": []}}

    def opened(result: Any) -> Payload:
        made = read.as_object(result)
        if isinstance(session_id := made.get("sessionId"), str):
            dashboard.later(partial(_show_new, dashboard, session_id))
        return made

    dashboard.waiting.expect(mail_id, request, "", opened)
    life_ms = int(NEW_SECONDS * 1000)
    letter = Letter(agent, mail_id, message, signature)
    await _send(dashboard, request, letter, life_ms=life_ms)
    silent = AgentUnavailable(f"the agent did not open a session within {NEW_SECONDS:.0f} s")
    later = asyncio.get_running_loop().call_later
    later(NEW_SECONDS, dashboard.waiting.give_up, mail_id, silent)


async def _show_new(dashboard: Dashboard, session_id: str) -> None:
    await dashboard.attach(session_id, START)
    await dashboard.ask_open(session_id)


# Down to the agent.


async def _prompt(dashboard: Dashboard, request: Id, params: Payload) -> None:
    record = await _session(dashboard, params)
    named = read.meta(params)
    mail_id = read.mail_id(named)
    message = message_for(acp.PROMPT, record.session_id, params)
    if record.session_id not in dashboard.subscribers:
        await dashboard.attach(record.session_id, START, history=False)
        await dashboard.ask_open(record.session_id)
    echo = named.get("echo") is True
    dashboard.waiting.expect_turn(mail_id, request, record.session_id, echo=echo)
    letter = Letter(record.agent, mail_id, message, read.signature(named))
    await _send(dashboard, request, letter)


async def _cancel(dashboard: Dashboard, request: Id, params: Payload) -> Payload:
    record = await _session(dashboard, params)
    message = message_for(acp.CANCEL, record.session_id, params)
    named = read.meta(params)
    letter = Letter(record.agent, read.mail_id(named), message, read.signature(named))
    await _send(dashboard, request, letter)
    return {}


async def _set(method: str, dashboard: Dashboard, request: Id, params: Payload) -> None:
    record = await _session(dashboard, params)
    message = message_for(method, record.session_id, params)
    named = read.meta(params)
    mail_id = read.mail_id(named)
    dashboard.waiting.expect(mail_id, request, record.session_id, read.as_object)
    letter = Letter(record.agent, mail_id, message, read.signature(named))
    await _send(dashboard, request, letter)


async def _decide(dashboard: Dashboard, _request: Id, params: Payload) -> Payload:
    who, relay = dashboard.identity, dashboard.relay
    await relay.buckets.take("decisions", who)
    jws = params.get("jws")
    if isinstance(jws, str):
        decision = await relay.signatures.decision(who.tenant, jws)
        decided = await relay.round_trips.decide(who.tenant, decision, who.origin, jws)
        return decided.as_json()
    answer = params.get("answer")
    if not isinstance(answer, dict):
        raise InvalidParams("a decision needs an answer: {optionId} or {action, content}")
    names = ("id", "hash", "decisionId")
    id_, hash_, decision_id = (read.text(params, name) for name in names)
    decision = Decision(id_, hash_, answer, decision_id)
    decided = await relay.round_trips.decide(who.tenant, decision, who.origin)
    return decided.as_json()


async def _send(
    dashboard: Dashboard,
    request: Id,
    letter: Letter,
    *,
    life_ms: int = MAIL_LIFE_MS,
) -> None:
    relay, who = dashboard.relay, dashboard.identity
    agent, mail_id, message, signature = letter
    try:
        done = await relay.mailbox.outcome(who.tenant, mail_id)
        if done is not None:  # sent before, perhaps over another connection
            dashboard.waiting.settle(mail_id, done)
            return
        await relay.buckets.take("mail", who)
        await relay.signatures.mail(who.tenant, agent, mail_id, message, signature)
        not_after = await relay.store.time_ms() + life_ms
        await relay.mailbox.send(
            who.tenant, agent, mail_id, who.origin, message, not_after, signature
        )
    except BaseException:
        dashboard.waiting.forget(mail_id, request)
        raise


async def _agent_for(dashboard: Dashboard, named: Any) -> str:
    """Find the agent that a new session is for: the one named, or the only one attached."""
    agents = await dashboard.relay.agents.list(dashboard.identity.tenant)
    if named is not None:
        agent = str(named)
        if not any(one.id == agent for one in agents):
            raise AgentUnavailable(f"unknown agent {agent!r:.80}")
        return agent
    attached = [one for one in agents if one.attachment.state is State.ATTACHED]
    if len(attached) == 1:
        return attached[0].id
    listed = [{"id": one.id, "name": one.card.name} for one in attached]
    if not attached:
        raise AgentUnavailable("no agent is attached; start its connector", agents=listed)
    names = ", ".join(one.card.name for one in attached)
    say = f'name one of {names} in _meta["{META_KEY}"].agent'
    raise AgentUnavailable(f"{len(attached)} agents are attached: {say}", agents=listed)


# Small.


async def _session(dashboard: Dashboard, params: Payload) -> SessionRecord:
    session_id = read.text(params, "sessionId")
    return await dashboard.relay.sessions.get(dashboard.identity.tenant, session_id)


def _opened(dashboard: Dashboard, record: SessionRecord) -> Payload:
    subscriber = dashboard.subscribers.get(record.session_id)
    cursor = subscriber.last if subscriber is not None else record.cursor
    optional = {
        "modes": record.modes,
        "models": record.models,
        "configOptions": record.config_options,
    }
    return {
        **{name: value for name, value in optional.items() if value is not None},
        "_meta": {META_KEY: {"cursor": str(cursor), "session": record.as_json()}},
    }


def _session_info(record: SessionRecord) -> Payload:
    shown = record.as_json()
    return {
        "sessionId": record.session_id,
        "cwd": record.cwd,
        "title": record.title or None,
        "updatedAt": shown["updatedAt"],
        "_meta": {META_KEY: shown},
    }


def _signed(agents: Iterable[AgentRecord]) -> str:
    """Say whether some machine takes answers from paired devices alone."""
    return "required" if any(one.card.signed == "required" for one in agents) else "off"


_CALLS: dict[str, Call] = {
    acp.INITIALIZE: _initialize,
    acp.LIST: _list,
    acp.LOAD: _load,
    acp.RESUME: _resume,
    acp.CLOSE: _close,
    acp.HISTORY: _history,
    acp.ENTRY: _entry,
    acp.NEW: _new,
    acp.PROMPT: _prompt,
    acp.CANCEL: _cancel,
    acp.SET_MODE: partial(_set, acp.SET_MODE),
    acp.SET_CONFIG_OPTION: partial(_set, acp.SET_CONFIG_OPTION),
    acp.SET_APPROVAL: partial(_set, acp.SET_APPROVAL),
    acp.UNDO: partial(_set, acp.UNDO),
    acp.UNDO_PREVIEW: partial(_set, acp.UNDO_PREVIEW),
    acp.DECIDE: _decide,
    "_bridge/agents": _agents,
    "_bridge/sessions": _sessions,
    "_bridge/round_trips": _round_trips,
    "_bridge/watch": _watch,
    "_bridge/visible": _visible,
    "_bridge/token": _token,
    **dict.fromkeys(acp.STATUS_ALIASES, _status),
}
