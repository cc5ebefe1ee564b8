"""The agent and the sessions it hosts: opens them, wakes them again, routes what the agent says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from agent_side.agent import Agent
from agent_side.agent_text import Cleaned, clean, strip
from agent_side.agents.process import AgentCommand, AgentError, AgentStartError, Outcome
from agent_side.journal import Journal, SessionFacts
from agent_side.log import Log
from agent_side.mailbox import Mailbox
from agent_side.recovery import Leftovers
from agent_side.round_trips import Question, RoundTrips, resolved_draft
from agent_side.sessions import Session, new_session_id
from agent_side.status import now_ms
from agent_side.turns import CANCELLED, OnEnded, Turn, Turns, new_turn_id, turn_draft
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.entry import Origin
from bridge.protocol.errors import (
    AgentUnavailable,
    BridgeError,
    InternalError,
    InvalidParams,
    MethodNotFound,
    NotFound,
)
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Reason, Resolved, Result

OPEN_SECONDS = 120.0  # for the agent to open or load a session; some fetch models meanwhile
EARLY_LIMIT = 1000  # messages of a session whose session/new is not answered yet
UNKNOWN_SESSION = frozenset({-32002, -32602})  # the agent has lost the session for good

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None]], None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Opened:
    """A session that was opened or loaded, and the agent's answer with our public id in it."""

    session: Session
    result: Payload


@dataclass(frozen=True)
class Ears:
    """Who hears what happens."""

    asked: Callable[[Question], None]
    closed: Callable[[Question, Resolved], None]
    session_changed: Callable[[Session], None]
    agent_changed: Callable[[], None]
    notification: Callable[[str | None, str, Payload], None]  # of the agent, no log entry


class Host:
    """All sessions of one agent."""

    def __init__(
        self,
        command: AgentCommand,
        *,
        journal: Journal,
        log: Log,
        mailbox: Mailbox,
        ears: Ears,
        spawn: Spawn,
    ) -> None:
        """Host no session yet; nothing runs before ``agent.ensure``."""
        self.sessions: dict[str, Session] = {}
        self.agent = Agent(
            command,
            on_request=self._take_request,
            on_notification=self._take_notification,
            on_exit=self._agent_exited,
            on_changed=ears.agent_changed,
        )
        self.questions = RoundTrips(log, self.agent, self._asked, self._closed)
        self._journal = journal
        self._log = log
        self._mailbox = mailbox
        self._ears = ears
        self._spawn = spawn
        self._turns: dict[str, Turns] = {}
        self._by_agent_id: dict[str, Session] = {}
        self._early: dict[str, list[jsonrpc.Request | jsonrpc.Notification]] = {}
        self._opening = 0
        self._reviving: dict[str, asyncio.Task[None]] = {}

    def session(self, session_id: str) -> Session:
        """Give a session; raises NotFound."""
        try:
            return self.sessions[session_id]
        except (KeyError, TypeError):
            raise NotFound(f"no session {str(session_id)[:80]!r}") from None

    def live(self, session: Session) -> bool:
        """Whether the agent's process knows the session."""
        return self.agent.alive and session.run == self.agent.run

    # Opening sessions.

    async def new_session(self, cwd: Path, mcp_servers: Sequence[Payload] = ()) -> Opened:
        """Open a session; its entries are delivered after this has returned.

        Raises AgentUnavailable, AuthRequired or AgentError.
        """
        await self._ensure_agent()
        opened: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
        params: Payload = {"cwd": str(cwd), "mcpServers": list(mcp_servers)}
        self._opening += 1
        self.agent.start_call(acp.NEW, params, lambda o: self._new_answered(o, cwd, opened))
        async with asyncio.timeout(OPEN_SECONDS):
            found = await opened
        try:
            await self._make_it_ask(found.session, self.agent.command.ask_mode)
        finally:
            self._log.release(found.session.id)
        return Opened(found.session, {**found.result, **found.session.opened_result()})

    async def load_session(self, session_id: str) -> Opened:
        """Have the agent know a session; raises NotFound, AgentUnavailable, AgentError."""
        session = self.session(session_id)
        await self._revive(session)
        return Opened(session, session.opened_result())

    def restore(self, facts: SessionFacts, left: Leftovers, waiting: set[str]) -> None:
        """Take in a session of an earlier process and close what that left open.

        ``waiting``: ids of mail whose prompts wait and will run in their turn.
        """
        session = self._add(facts)
        for id_ in left.questions:
            resolved = Resolved(id_, Result.VOID, Reason.RESTARTED)
            self._log.append(session.id, resolved_draft(resolved))
        session.cards = left.cards
        if any(turn.state == "started" for turn in left.turns.values()):
            session.close_cards()
        for turn in left.turns.values():
            if turn.state == "started":
                draft = turn_draft(turn.id, "unknown", turn.origin, turn.mail_id)
            elif turn.mail_id in waiting:
                continue
            else:
                draft = turn_draft(
                    turn.id, "ended", turn.origin, turn.mail_id, stopReason=CANCELLED
                )
            self._log.append(session.id, draft)

    def end_what_cannot_be_loaded(self) -> None:
        """End the sessions of earlier processes when the agent cannot take them up."""
        if self.agent.load_method is None:
            for session in self.sessions.values():
                if not self.live(session) and not session.facts.ended:
                    session.end()

    # Working in sessions.

    def prompt(
        self,
        session_id: str,
        prompt: list[Payload],
        origin: Origin,
        *,
        mail_id: str | None,
        on_ended: OnEnded,
        turn_id: str | None = None,
    ) -> None:
        """Run a prompt when its turn comes; raises NotFound, InvalidParams, AgentUnavailable."""
        session = self.session(session_id)
        if not prompt or not all(isinstance(b, dict) and "type" in b for b in prompt):
            raise InvalidParams("a prompt is a list of content blocks, each with a type")
        if session.facts.ended:
            raise AgentUnavailable("the session has ended: its agent does not know it any more")
        strip(prompt)
        turn = Turn(turn_id or new_turn_id(), prompt, origin, mail_id, on_ended)
        self._turns[session_id].submit(turn, announced=turn_id is not None)

    def cancel(self, session_id: str, origin: Origin) -> None:
        """Stop the running prompt and the caller's waiting ones; raises NotFound."""
        self.session(session_id)
        self._turns[session_id].cancel(origin)

    def set_mode(self, session_id: str, mode_id: str) -> Awaitable[Payload]:
        """Set a session's mode, sent at once when the agent knows the session."""
        session = self.session(session_id)
        params = {"modeId": mode_id}
        return self._change(session, acp.SET_MODE, params, lambda _: session.set_mode(mode_id))

    def set_config_option(self, session_id: str, params: Payload) -> Awaitable[Payload]:
        """Set a config option, sent at once when the agent knows the session."""
        session = self.session(session_id)
        kept: Payload = {k: params[k] for k in ("configId", "value", "type") if k in params}
        return self._change(session, acp.SET_CONFIG_OPTION, kept, session.take_settings)

    async def stop(self) -> None:
        """End the agent, and with it every question and turn."""
        await self.agent.stop()
        self.questions.close_all(Reason.AGENT_EXITED)

    # Opening, inside.

    def _add(self, facts: SessionFacts) -> Session:
        session = Session(facts, self._log, self._ears.session_changed)
        self.sessions[session.id] = session
        stage = _Stage(self, session)
        self._turns[session.id] = Turns(session.id, self._log, stage)
        return session

    async def _ensure_agent(self) -> None:
        try:
            await self.agent.ensure()
        except AgentStartError as error:
            raise AgentUnavailable(str(error)) from None

    def _new_answered(self, outcome: Outcome, cwd: Path, opened: asyncio.Future[Opened]) -> None:
        """Take the answer to session/new in line order, so that no update after it is lost."""
        self._opening -= 1
        early = self._early
        if self._opening == 0:
            self._early = {}
        try:
            session, result = self._begin(outcome, cwd)
        except (BridgeError, AgentError) as error:
            if not opened.done():
                opened.set_exception(error)
            return
        if opened.done():  # whoever asked has gone
            self._log.release(session.id)
        else:
            opened.set_result(Opened(session, result))
        for message in early.pop(session.facts.agent_session_id, []):
            self._replay(message)

    def _begin(self, outcome: Outcome, cwd: Path) -> tuple[Session, Payload]:
        if isinstance(outcome, Exception):
            raise self.agent.explained(outcome)
        result = jsonrpc.payload(outcome)
        agent_id = result.get("sessionId")
        if not isinstance(agent_id, str):
            raise InternalError("the agent opened a session without an id")
        self.agent.needs_login("")
        facts = SessionFacts(new_session_id(), agent_id, str(cwd), created_at=now_ms())
        self._journal.begin(facts.session_id)
        session = self._add(facts)
        self._log.hold(session.id)
        session.run = self.agent.run
        self._by_agent_id[agent_id] = session
        strip(result)
        session.take_settings(result)
        return session, {**result, "sessionId": session.id}

    def _replay(self, message: jsonrpc.Request | jsonrpc.Notification) -> None:
        if isinstance(message, jsonrpc.Request):
            self._take_request(message)
        else:
            self._take_notification(message)

    async def _make_it_ask(self, session: Session, mode: str | None) -> None:
        """Put a session into the mode in which the agent asks, when it offers that mode."""
        modes = session.facts.modes or {}
        offered = [m.get("id") for m in modes.get("availableModes", []) if isinstance(m, dict)]
        if mode in offered and mode is not None and modes.get("currentModeId") != mode:
            await self.set_mode(session.id, mode)
            return
        for option in session.facts.config_options or []:
            if not isinstance(option, dict) or option.get("category") != "mode" or offered:
                continue
            values = [v.get("value") for v in option.get("options", []) if isinstance(v, dict)]
            if mode in values and option.get("currentValue") != mode:
                await self.set_config_option(
                    session.id, {"configId": option.get("id"), "value": mode}
                )

    # Waking a session of an earlier process.

    async def _revive(self, session: Session) -> None:
        if self.live(session):
            return
        if session.facts.ended:
            raise AgentUnavailable("the session has ended: its agent does not know it any more")
        task = self._reviving.get(session.id)
        if task is None:
            task = asyncio.ensure_future(self._load(session))
            self._reviving[session.id] = task
            task.add_done_callback(lambda _: self._reviving.pop(session.id, None))
        await asyncio.shield(task)

    async def _load(self, session: Session) -> None:
        await self._ensure_agent()
        method = self.agent.load_method
        if method is None:
            session.end()
            raise AgentUnavailable(f"{self.agent.title} cannot take up earlier sessions")
        facts = session.facts
        params: Payload = {"sessionId": facts.agent_session_id, "cwd": facts.cwd, "mcpServers": []}
        mode = (facts.modes or {}).get("currentModeId") or self.agent.command.ask_mode
        loaded: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._by_agent_id[facts.agent_session_id] = session
        session.loading = True
        self.agent.start_call(method, params, lambda o: self._load_answered(o, session, loaded))
        async with asyncio.timeout(OPEN_SECONDS):
            await loaded
        await self._make_it_ask(session, mode)

    def _load_answered(
        self, outcome: Outcome, session: Session, loaded: asyncio.Future[None]
    ) -> None:
        session.loading = False
        if isinstance(outcome, Exception):
            self._by_agent_id.pop(session.facts.agent_session_id, None)
            if isinstance(outcome, AgentError) and outcome.code in UNKNOWN_SESSION:
                session.end()
            if not loaded.done():
                loaded.set_exception(self.agent.explained(outcome))
            return
        session.run = self.agent.run
        self.agent.needs_login("")
        result = jsonrpc.value(outcome)
        if isinstance(result, dict):
            strip(result)
            session.take_settings(result)
        if not loaded.done():
            loaded.set_result(None)

    async def wake(self, session: Session) -> None:
        """Have the agent know a session, then run what waits in it, or end that with the error."""
        turns = self._turns[session.id]
        try:
            await self._revive(session)
        except (BridgeError, AgentError) as error:
            turns.fail_waiting(error.as_object())
        except TimeoutError:
            turns.fail_waiting(InternalError("the agent did not load the session").as_object())
        else:
            turns.proceed()

    def _change(
        self,
        session: Session,
        method: str,
        params: Payload,
        apply: Callable[[Payload], None],
    ) -> Awaitable[Payload]:
        call = {"sessionId": session.facts.agent_session_id, **params}
        sent = self.agent.begin(method, call) if self.live(session) else None

        async def finish() -> Payload:
            if sent is None:
                await self._revive(session)
            answer = await (sent or self.agent.begin(method, call))
            result = jsonrpc.value(answer)
            result = result if isinstance(result, dict) else {}
            strip(result)
            apply(result)
            return result

        return asyncio.ensure_future(finish())

    # What the agent says.

    def _take_notification(self, message: jsonrpc.Notification) -> None:
        if message.method.startswith(acp.OURS):
            logger.debug("a forged %s of the agent is dropped", message.method)
        elif message.method == acp.CANCEL_REQUEST:
            self._withdraw(message)
        elif message.method == entry.UPDATE:
            self._take_update(message)
        else:
            self._pass_on(message)

    def _take_update(self, message: jsonrpc.Notification) -> None:
        params = jsonrpc.fields(message.params)
        session = self._session_of(params, message)
        if session is not None:
            session.say(clean(params, len(message.params)))

    def _withdraw(self, message: jsonrpc.Notification) -> None:
        request_id = jsonrpc.payload(message.params).get("requestId")
        if isinstance(request_id, int | str):
            self.questions.withdraw(request_id)

    def _pass_on(self, message: jsonrpc.Notification) -> None:
        params = jsonrpc.payload(message.params)
        strip(params)
        session = self._by_agent_id.get(str(params.get("sessionId")))
        if session is not None:
            params["sessionId"] = session.id
        elif "sessionId" in params:
            return
        public = session.id if session else None
        self._log.then(lambda: self._ears.notification(public, message.method, params))

    def _take_request(self, request: jsonrpc.Request) -> None:
        if request.method not in entry.QUESTIONS:
            unknown = MethodNotFound(f"{request.method[:80]!r} is not known here")
            self.agent.fail(request.id, unknown)
            return
        try:
            params = jsonrpc.fields(request.params)
            session = self._session_of(params, request)
            if session is not None:
                self._ask(request, session, clean(params, len(request.params)))
            elif not self._opening:
                raise InvalidParams("a question needs the id of an open session")
        except BridgeError as error:
            self.agent.fail(request.id, error)

    def _ask(self, request: jsonrpc.Request, session: Session, cleaned: Cleaned) -> None:
        call = jsonrpc.payload(request.params).get("toolCall")
        call_id = call.get("toolCallId") if isinstance(call, dict) else None
        card = session.cards.get(call_id)
        self.questions.ask(request, session.id, cleaned, card, session.facts.cwd)
        session.questions += 1
        session.changed()

    def _session_of(
        self,
        params: dict[str, msgspec.Raw],
        message: jsonrpc.Request | jsonrpc.Notification,
    ) -> Session | None:
        """Find the session; keep what comes before session/new is answered."""
        raw = params.get("sessionId")
        agent_id = jsonrpc.value(raw) if raw is not None else None
        if not isinstance(agent_id, str):
            return None
        session = self._by_agent_id.get(agent_id)
        if session is None and self._opening:
            early = self._early.setdefault(agent_id, [])
            if len(early) < EARLY_LIMIT:
                early.append(message)
        return session

    def _asked(self, question: Question) -> None:
        self._ears.asked(question)

    def _closed(self, question: Question, resolved: Resolved) -> None:
        session = self.sessions[question.session_id]
        session.questions = sum(
            1 for other in self.questions.open.values() if other.session_id == session.id
        )
        session.changed()
        self._ears.closed(question, resolved)

    def _agent_exited(self, why: str) -> None:
        logger.debug("the agent is gone: %s", why)
        self.questions.close_all(Reason.AGENT_EXITED)
        self._by_agent_id.clear()
        self._early.clear()
        for session in self.sessions.values():
            session.loading = False
            session.close_cards()

    # What a turn needs of its session.

    def hand_prompt(self, session: Session, turn: Turn, on_done: Callable[[Outcome], None]) -> None:
        """Give a prompt to the agent once it is on disk that it was given."""
        session.name_after(turn.prompt)
        if turn.mail_id is not None:
            self._mailbox.hand(turn.mail_id)
        self._log.write()
        params: Payload = {"sessionId": session.facts.agent_session_id, "prompt": turn.prompt}
        self.agent.start_call(acp.PROMPT, params, lambda o: on_done(self._explained(o)))

    def hand_cancel(self, session: Session, by: Origin) -> None:
        """Tell the agent to stop, then answer its questions: some wait for exactly that."""
        if self.live(session):
            self.agent.notify(acp.CANCEL, {"sessionId": session.facts.agent_session_id})
        self.questions.close_session(session.id, Reason.CANCELLED, by)

    def close_turn(self, session: Session, outcome: Outcome) -> None:
        """End the questions and tool calls that the turn left open."""
        gone = isinstance(outcome, AgentUnavailable)
        self.questions.close_session(session.id, Reason.AGENT_EXITED if gone else Reason.TURN_ENDED)
        session.close_cards()

    def turn_changed(self, session: Session) -> None:
        """Show whether a prompt runs."""
        session.prompting = self._turns[session.id].running is not None
        session.changed()

    def spawn_wake(self, session: Session) -> None:
        """Wake a session in the background."""
        self._spawn(self.wake(session))

    def _explained(self, outcome: Outcome) -> Any:
        return self.agent.explained(outcome) if isinstance(outcome, Exception) else outcome


class _Stage:
    """Binds a session's turns to the host."""

    def __init__(self, host: Host, session: Session) -> None:
        self._host = host
        self._session = session

    @property
    def live(self) -> bool:
        return self._host.live(self._session)

    def revive(self) -> None:
        self._host.spawn_wake(self._session)

    def send_prompt(self, turn: Turn, on_done: Callable[[Outcome], None]) -> None:
        self._host.hand_prompt(self._session, turn, on_done)

    def send_cancel(self, by: Origin) -> None:
        self._host.hand_cancel(self._session, by)

    def close_turn(self, outcome: Outcome) -> None:
        self._host.close_turn(self._session, outcome)

    def turn_changed(self) -> None:
        self._host.turn_changed(self._session)
