"""What the doors of a machine see and do: sessions, their entries, and what is asked of them."""

from __future__ import annotations

import getpass
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_side.approvals import Preset, read_preset
from agent_side.envoy import Envoy
from agent_side.host import Host
from agent_side.journal import Journal
from agent_side.log import Log
from agent_side.opening import Opened
from agent_side.round_trips import Question
from agent_side.sessions import Session
from agent_side.settings import ConnectorSettings
from agent_side.status import Status
from agent_side.trust import Trust
from agent_side.turn import OnEnded
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Origin
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved
from bridge.protocol.uplink import AgentCard

logger = logging.getLogger(__name__)


def local_origin(door: str) -> Origin:
    """Give the origin of whoever uses a door of this machine."""
    try:
        subject = getpass.getuser()
    except (KeyError, OSError):
        subject = "local"
    return Origin(subject=subject, device=socket.gethostname(), door=door)


class Desk:
    """What a connector offers to its own machine; everything on it is called in its loop."""

    _settings: ConnectorSettings
    _host: Host
    _journal: Journal
    _log: Log
    _status: Status
    _trust: Trust
    _envoy: Envoy

    # What is there.

    @property
    def cwd(self) -> Path:
        """Where sessions open when nobody says otherwise."""
        return self._settings.cwd

    @property
    def agent(self) -> AgentCard:
        """The agent as people see it."""
        return self._envoy.agent_card()

    @property
    def initialized(self) -> Payload:
        """The agent's own answer to initialize."""
        return self._host.agent.initialized

    @property
    def sessions(self) -> Mapping[str, Session]:
        """All sessions by their public id, the oldest first."""
        return self._host.roster.sessions

    def session(self, session_id: str) -> Session:
        """Give one of them; raises NotFound."""
        return self._host.roster.get(session_id)

    @property
    def questions(self) -> Mapping[str, Question]:
        """The open questions by their id, in the order they were asked."""
        return self._host.questions.open

    def entries(self, session_id: str, after: Cursor = START) -> Iterator[tuple[Cursor, bytes]]:
        """Give a session's entries after a cursor, in full, up to what doors were told.

        Read to its end in one go, what doors are told next follows without gap or repeat.
        """
        self._host.roster.get(session_id)
        self._log.settle(session_id)
        last = self._log.delivered.get(session_id)
        for cursor, text in self._journal.sessions[session_id].read_after(after, full=True):
            if cursor.epoch == self._log.epoch and (last is None or cursor > last):
                return
            yield cursor, text

    def extent(self, session_id: str) -> tuple[int, Cursor]:
        """Give how many entries a session has and the last one's cursor; raises NotFound."""
        self._host.roster.get(session_id)
        journal = self._journal.sessions[session_id]
        return len(journal), journal.last

    def status(self, session_id: str | None = None) -> Payload:
        """Answer ``_bridge/status``; raises NotFound for an unknown session."""
        if session_id is not None:
            self._host.roster.get(session_id)
        open_ids = [
            question.id
            for question in self.questions.values()
            if session_id in (None, question.session_id)
        ]
        return self._status.as_json(open_ids, session_id)

    # What doors do.

    async def new_session(
        self, cwd: Path, origin: Origin, *, mcp_servers: Sequence[Payload] = ()
    ) -> Opened:
        """Open a session; raises UntrustedWorkspace, AgentUnavailable, AuthRequired or AgentError.

        No entry of it reaches a door before the caller had a chance to answer: what the caller
        does right after this returns, without awaiting, comes first.
        """
        logger.debug("%s opens a session in %s", origin.subject, cwd)
        self._trust.check(cwd, adds=self._settings.trust_opened)
        return await self._host.new_session(cwd, mcp_servers)

    async def load_session(self, session_id: str, origin: Origin) -> Opened:
        """Have the agent know a session; raises NotFound, AgentUnavailable or AgentError."""
        logger.debug("%s loads session %s", origin.subject, session_id)
        return await self._host.load_session(session_id)

    def prompt(
        self,
        session_id: str,
        prompt: list[Payload],
        origin: Origin,
        mail_id: str | None,
        on_ended: OnEnded,
    ) -> None:
        """Run a prompt when its turn comes; ``on_ended`` comes after the turn's last entry.

        Raises NotFound, InvalidParams or AgentUnavailable.
        """
        self._host.prompt(session_id, prompt, origin, mail_id=mail_id, on_ended=on_ended)

    def cancel(self, session_id: str, origin: Origin) -> None:
        """Stop the running prompt and the caller's waiting ones; raises NotFound."""
        self._host.cancel(session_id, origin)

    def withdraw_prompt(self, session_id: str, mail_id: str, origin: Origin) -> None:
        """Stop one prompt, running or waiting, and no other work; raises NotFound."""
        self._host.withdraw_prompt(session_id, mail_id, origin)

    async def set_mode(self, session_id: str, mode_id: str, origin: Origin) -> Payload:
        """Set a session's mode, any that the agent takes: this is its own machine."""
        logger.debug("%s sets mode %s", origin.subject, mode_id)
        return await self._host.set_mode(session_id, mode_id)

    async def set_model(self, session_id: str, model_id: str, origin: Origin) -> Payload:
        """Set a session's model, any that the agent takes."""
        logger.debug("%s sets model %s", origin.subject, model_id)
        return await self._host.set_model(session_id, model_id)

    async def set_config_option(self, session_id: str, params: Payload, origin: Origin) -> Payload:
        """Set a config option, any that the agent takes."""
        logger.debug("%s sets option %s", origin.subject, params.get("configId"))
        return await self._host.set_config_option(session_id, params)

    def answer(self, round_trip_id: str, answer: Payload | None, origin: Origin) -> Resolved:
        """Answer a question here (None: cancelled); a late answer gets the one that won.

        Raises InvalidParams for what was not offered, NotFound for an unknown id.
        """
        return self._host.questions.answer(round_trip_id, answer, origin)

    def approval(self, session_id: str) -> Preset:
        """Give a session's preset; raises NotFound."""
        return self._host.approvals.of(self._host.roster.get(session_id).id)

    def set_approval(self, session_id: str, preset: str, origin: Origin) -> Payload:
        """Change a session's preset, to any: this is its own machine.

        Gives ``{old, new}``; raises NotFound or InvalidParams.
        """
        return self._host.set_approval(session_id, read_preset(preset), origin)
