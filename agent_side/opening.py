"""Opens sessions in the agent, takes up earlier ones again, and sets the mode in which it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from agent_side.agent import Agent
from agent_side.agent_text import strip
from agent_side.agents.process import AgentError, AgentStartError, Outcome
from agent_side.hearing import Hearing
from agent_side.journal import SessionFacts
from agent_side.log import Log
from agent_side.roster import Roster
from agent_side.sessions import Session, new_session_id
from agent_side.status import now_ms
from bridge.protocol import acp, jsonrpc
from bridge.protocol.errors import AgentUnavailable, BridgeError, InternalError
from bridge.protocol.jsonrpc import Payload

OPEN_SECONDS = 120.0  # for the agent to open or load a session; some fetch models meanwhile
UNKNOWN_SESSION = frozenset({-32002, -32602})  # the agent has lost the session for good

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Opened:
    """A session that was opened or loaded, and the agent's answer with our public id in it."""

    session: Session
    result: Payload


class Opening:
    """The ways by which the agent comes to know a session."""

    def __init__(
        self,
        agent: Agent,
        roster: Roster,
        hearing: Hearing,
        *,
        log: Log,
        add: Callable[[SessionFacts], Session],
    ) -> None:
        """``add`` makes a session of a connector from what is known of it."""
        self._agent = agent
        self._roster = roster
        self._hearing = hearing
        self._log = log
        self._add = add
        self._reviving: dict[str, asyncio.Task[None]] = {}

    async def new(self, cwd: Path, mcp_servers: Sequence[Payload] = ()) -> Opened:
        """Open a session; its entries are delivered after this has returned.

        Raises AgentUnavailable, AuthRequired or AgentError.
        """
        await self._ensure_agent()
        opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        params: Payload = {"cwd": str(cwd), "mcpServers": list(mcp_servers)}
        self._hearing.expect()
        self._agent.start_call(acp.NEW, params, lambda o: self._new_answered(o, cwd, opened))
        found = await _in_time(opened)
        session = found.session
        try:
            await self._make_it_ask(session, self._agent.command.ask_mode)
        finally:
            self._log.release(session.id)
        return Opened(session, {**found.result, **session.opened_result()})

    async def load(self, session: Session) -> Opened:
        """Have the agent know a session; raises as ``revive``."""
        await self.revive(session)
        return Opened(session, session.opened_result())

    async def revive(self, session: Session) -> None:
        """Have the agent know a session; raises AgentUnavailable, AuthRequired or AgentError."""
        if self._agent.knows(session.run):
            return
        session.refuse_ended()
        task = self._reviving.get(session.id)
        if task is None:
            task = asyncio.ensure_future(self._load(session))
            self._reviving[session.id] = task
            task.add_done_callback(lambda _: self._reviving.pop(session.id, None))
        await asyncio.shield(task)

    async def _ensure_agent(self) -> None:
        try:
            await self._agent.ensure()
        except AgentStartError as error:
            raise AgentUnavailable(str(error)) from None

    # A new session. The answer is taken in line order, so that no update after it is lost.

    def _new_answered(self, outcome: Outcome, cwd: Path, opened: asyncio.Future[Opened]) -> None:
        try:
            found = self._begin(outcome, cwd)
        except (BridgeError, AgentError) as error:
            self._hearing.expected(None)
            if not opened.done():
                opened.set_exception(error)
            return
        if opened.done():  # whoever asked has gone
            self._log.release(found.session.id)
        else:
            opened.set_result(found)
        self._hearing.expected(found.session.agent_id)

    def _begin(self, outcome: Outcome, cwd: Path) -> Opened:
        if isinstance(outcome, Exception):
            raise self._agent.explained(outcome)
        result = jsonrpc.payload(outcome)
        agent_id = result.get("sessionId")
        if not isinstance(agent_id, str):
            raise InternalError("the agent opened a session without an id")
        self._agent.needs_login("")
        session = self._add(SessionFacts(new_session_id(), agent_id, str(cwd), created_at=now_ms()))
        self._log.hold(session.id)
        session.run = self._agent.run
        self._roster.bind(session)
        strip(result)
        session.take_settings(result)
        return Opened(session, {**result, "sessionId": session.id})

    # An earlier session.

    async def _load(self, session: Session) -> None:
        await self._ensure_agent()
        method = self._agent.load_method
        if method is None:
            session.end()
            session.refuse_ended()
        assert method is not None
        wanted = session.mode or self._agent.command.ask_mode
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._roster.bind(session)
        session.loading = True
        params = {"sessionId": session.agent_id, "cwd": str(session.cwd), "mcpServers": []}
        self._agent.start_call(method, params, lambda o: self._load_answered(o, session, loaded))
        await _in_time(loaded)
        await self._make_it_ask(session, wanted)

    def _load_answered(
        self, outcome: Outcome, session: Session, loaded: asyncio.Future[None]
    ) -> None:
        session.loading = False
        if isinstance(outcome, Exception):
            self._roster.unbind(session)
            if isinstance(outcome, AgentError) and outcome.code in UNKNOWN_SESSION:
                session.end()
            if not loaded.done():
                loaded.set_exception(self._agent.explained(outcome))
            return
        session.run = self._agent.run
        self._agent.needs_login("")
        result = jsonrpc.value(outcome)
        if isinstance(result, dict):
            strip(result)
            session.take_settings(result)
        if not loaded.done():
            loaded.set_result(None)

    # The mode in which it asks.

    async def _make_it_ask(self, session: Session, mode: str | None) -> None:
        """Set a mode when the agent offers it; a session that refuses it is not used."""
        change = session.change_to(mode) if mode is not None else None
        if mode is None or change is None:
            return
        method, params = change
        try:
            answer = await _in_time(
                self._agent.begin(method, {"sessionId": session.agent_id, **params})
            )
        except (BridgeError, AgentError) as error:
            session.end()
            self._roster.unbind(session)
            raise AgentUnavailable(
                f"{self._agent.title} does not go into {mode!r}, the mode in which it asks: {error}"
            ) from None
        if method == acp.SET_MODE:
            session.set_mode(mode)
        else:
            session.take_settings(_object(jsonrpc.value(answer)))


async def _in_time(answer: asyncio.Future[Answer]) -> Answer:
    try:
        async with asyncio.timeout(OPEN_SECONDS):
            return await answer
    except TimeoutError:
        raise AgentUnavailable(f"the agent did not answer within {OPEN_SECONDS:.0f} s") from None


def _object(value: object) -> Payload:
    return value if isinstance(value, dict) else {}
