"""The agent and the sessions it hosts: what doors and mail do, they do here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_side.agent import Agent
from agent_side.agent_text import strip
from agent_side.agents.process import AgentCommand
from agent_side.approvals import Preset
from agent_side.hearing import Hearing, OnNotification
from agent_side.journal import Journal, SessionFacts
from agent_side.log import Draft, Log
from agent_side.mailbox import Mailbox
from agent_side.opening import Opened, Opening
from agent_side.recovery import Leftovers
from agent_side.roster import Roster
from agent_side.round_trips import Question, RoundTrips, resolved_draft
from agent_side.sessions import Session
from agent_side.tasks import Spawn
from agent_side.terms import Terms
from agent_side.turn import CANCELLED, OnEnded, Turn, new_turn_id, turn_draft
from agent_side.turns import Stage, Turns
from agent_side.way_back import WayBack
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Origin
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Reason, Resolved, Result

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ears:
    """Who hears what happens, in the order of the log."""

    asked: Callable[[Question], None]
    closed: Callable[[Question, Resolved], None]
    session_changed: Callable[[Session], None]
    agent_changed: Callable[[], None]
    notification: OnNotification  # of the agent, no log entry


class Host:
    """All sessions of one agent."""

    def __init__(
        self,
        command: AgentCommand,
        *,
        journal: Journal,
        log: Log,
        mailbox: Mailbox,
        terms: Terms,
        ears: Ears,
        way_back: WayBack,
        spawn: Spawn,
    ) -> None:
        """Host no session yet; nothing runs before ``agent.ensure``."""
        self.way_back = way_back
        self.roster = Roster()
        self.agent = Agent(
            command,
            on_request=self._hear_request,
            on_notification=self._hear_notification,
            on_exit=self._agent_exited,
            on_changed=ears.agent_changed,
        )
        self.approvals = terms.approvals
        self.questions = RoundTrips(log, self.agent, ears.asked, ears.closed, terms)
        self._journal = journal
        self._log = log
        self._ears = ears
        self._hearing = Hearing(
            self.agent,
            self.roster,
            questions=self.questions,
            log=log,
            on_notification=ears.notification,
        )
        self._opening = Opening(self.agent, self.roster, self._hearing, log=log, add=self._add)
        self._stage = Stage(
            agent=self.agent,
            questions=self.questions,
            mailbox=mailbox,
            log=log,
            way_back=way_back,
            revive=self._opening.revive,
            spawn=spawn,
        )
        self._turns: dict[str, Turns] = {}

    def last(self, session_id: str) -> Cursor:
        """Give the cursor of a session's newest entry."""
        return self._journal.sessions[session_id].last

    # Life.

    def restore(self, facts: SessionFacts, left: Leftovers, waiting: set[str]) -> None:
        """Take in a session of an earlier process and close what that left open.

        ``waiting``: ids of mail whose prompts the agent never got; they run in their turn.
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
                self._log.append(session.id, draft)
            elif turn.mail_id not in waiting:
                more = {"stopReason": CANCELLED}
                draft = turn_draft(turn.id, "ended", turn.origin, turn.mail_id, **more)
                self._log.append(session.id, draft)

    async def start(self) -> None:
        """Start the agent; raises AgentStartError."""
        await self.agent.ensure()
        self._end_what_cannot_be_loaded()

    async def stop(self) -> None:
        """End the agent, and with it every question and turn."""
        await self.agent.stop()
        self.questions.close_all(Reason.AGENT_EXITED)

    # Sessions.

    async def new_session(self, cwd: Path, mcp_servers: Sequence[Payload] = ()) -> Opened:
        """Open a session; its entries are delivered after this has returned.

        Raises AgentUnavailable, AuthRequired or AgentError.
        """
        opened = await self._opening.new(cwd, mcp_servers)
        self.way_back.warm(opened.session)
        return opened

    async def load_session(self, session_id: str) -> Opened:
        """Have the agent know a session; raises NotFound, AgentUnavailable, AgentError."""
        return await self._opening.load(self.roster.get(session_id))

    def is_live(self, session: Session) -> bool:
        """Whether the agent's process knows the session."""
        return self.agent.knows(session.run)

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
        """Run a prompt when its turn comes; raises NotFound, InvalidParams, AgentUnavailable.

        ``turn_id``: of a prompt that the log has as queued already.
        """
        session = self.roster.get(session_id)
        if not prompt or not all(isinstance(b, dict) and "type" in b for b in prompt):
            raise InvalidParams("a prompt is a list of content blocks, each with a type")
        session.refuse_ended()
        strip(prompt)
        turn = Turn(turn_id or new_turn_id(), prompt, origin, mail_id, on_ended)
        self._turns[session.id].submit(turn, announced=turn_id is not None)

    def cancel(self, session_id: str, origin: Origin) -> None:
        """Stop the running prompt and the caller's waiting ones; raises NotFound."""
        self._turns[self.roster.get(session_id).id].cancel(origin)

    def withdraw_prompt(self, session_id: str, mail_id: str, by: Origin) -> None:
        """Stop one prompt, running or waiting, and no other work; raises NotFound."""
        self._turns[self.roster.get(session_id).id].withdraw(mail_id, by)

    def set_mode(self, session_id: str, mode_id: str) -> Awaitable[Payload]:
        """Set a session's mode, sent at once when the agent knows the session."""
        session = self.roster.get(session_id)
        params: Payload = {"modeId": mode_id}
        return self._change(session, acp.SET_MODE, params, lambda _: session.set_mode(mode_id))

    def set_model(self, session_id: str, model_id: str) -> Awaitable[Payload]:
        """Set a session's model, by a config option where the agent has one for it."""
        session = self.roster.get(session_id)
        option = session.model_option()
        if option is not None:
            return self.set_config_option(session_id, {"configId": option, "value": model_id})
        params: Payload = {"modelId": model_id}
        return self._change(session, acp.SET_MODEL, params, lambda _: session.set_model(model_id))

    def set_config_option(self, session_id: str, params: Payload) -> Awaitable[Payload]:
        """Set a config option, sent at once when the agent knows the session."""
        session = self.roster.get(session_id)
        kept: Payload = {k: params[k] for k in ("configId", "value", "type") if k in params}
        return self._change(session, acp.SET_CONFIG_OPTION, kept, session.take_settings)

    def set_approval(self, session_id: str, preset: Preset, origin: Origin) -> Payload:
        """Change what is decided without a person, and say so in the log; raises NotFound."""
        session = self.roster.get(session_id)
        old = self.approvals.set(session.id, preset)
        told = {"old": str(old), "new": str(preset)}
        if old is not preset:
            draft = Draft(method=entry.APPROVAL_CHANGED, fields={**told}, origin=origin)
            self._log.append(session.id, draft)
            session.approval = str(preset)
            session.changed()
            self.questions.judge_open(session.id)
        return told

    # Inside.

    def _add(self, facts: SessionFacts) -> Session:
        if facts.session_id not in self._journal.sessions:
            self._journal.begin(facts.session_id)
        session = Session(facts, self._log, self._ears.session_changed)
        session.approval = str(self.approvals.of(session.id))
        self.roster.add(session)
        self._turns[session.id] = Turns(session, self._stage)
        return session

    def _change(
        self,
        session: Session,
        method: str,
        params: Payload,
        apply: Callable[[Payload], None],
    ) -> Awaitable[Payload]:
        call = {"sessionId": session.agent_id, **params}
        sent = self.agent.begin(method, call) if self.is_live(session) else None

        async def finish() -> Payload:
            if sent is None:
                await self._opening.revive(session)
            result = jsonrpc.value(await (sent or self.agent.begin(method, call)))
            result = result if isinstance(result, dict) else {}
            strip(result)
            apply(result)
            return result

        return asyncio.ensure_future(finish())

    def _hear_request(self, request: jsonrpc.Request) -> None:
        self._hearing.request(request)

    def _hear_notification(self, message: jsonrpc.Notification) -> None:
        self._hearing.notification(message)

    def _agent_exited(self, why: str) -> None:
        logger.debug("the agent is gone: %s", why)
        self.questions.close_all(Reason.AGENT_EXITED)
        self.roster.forget_agent()
        for session in self.roster.sessions.values():
            session.loading = False
            session.close_cards()
        self._end_what_cannot_be_loaded()

    def _end_what_cannot_be_loaded(self) -> None:
        """End the sessions that no process of the agent will know again."""
        if self.agent.load_method is not None:
            return
        for session in self.roster.sessions.values():
            if not self.is_live(session) and not session.facts.ended:
                session.end()
