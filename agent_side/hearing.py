"""Hears the agent: each message finds its session, questions open, forgeries are dropped."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from agent_side.agent_text import clean, strip
from agent_side.log import Log
from agent_side.roster import Roster
from agent_side.round_trips import Asker, RoundTrips
from agent_side.sessions import Session
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.errors import BridgeError, InvalidParams, MethodNotFound
from bridge.protocol.jsonrpc import Payload

EARLY_LIMIT = 1000  # messages in a session whose session/new is not answered yet

OnNotification: TypeAlias = Callable[[str | None, str, Payload], None]

logger = logging.getLogger(__name__)


class Hearing:
    """Takes what the agent says, in the order it says it."""

    def __init__(
        self,
        agent: Asker,
        roster: Roster,
        *,
        questions: RoundTrips,
        log: Log,
        on_notification: OnNotification,
    ) -> None:
        """``on_notification`` gets what is no log entry: the doors on this machine."""
        self._agent = agent
        self._roster = roster
        self._questions = questions
        self._log = log
        self._on_notification = on_notification
        self._opening = 0
        self._early: dict[str, list[jsonrpc.Request | jsonrpc.Notification]] = {}

    # Around session/new: agents speak in a session before they have named it.

    def expect(self) -> None:
        """Keep what comes for a session that is not known yet."""
        self._opening += 1

    def expected(self, agent_id: str | None) -> None:
        """Take what came early for the session that is known now (None: there is none)."""
        early = self._early.pop(agent_id, []) if agent_id is not None else []
        self._opening -= 1
        if not self._opening:
            self._early.clear()
        for message in early:
            if isinstance(message, jsonrpc.Request):
                self.request(message)
            else:
                self.notification(message)

    # Messages.

    def notification(self, message: jsonrpc.Notification) -> None:
        """Take a notification; one without sense is dropped."""
        try:
            self._notification(message)
        except BridgeError as error:
            logger.debug("a %s of the agent is dropped: %s", message.method, error)

    def _notification(self, message: jsonrpc.Notification) -> None:
        if message.method == entry.UPDATE:
            self._update(message)
        elif message.method == acp.CANCEL_REQUEST:
            self._withdraw(message)
        elif message.method.startswith(acp.OURS):
            logger.debug("a forged %s of the agent is dropped", message.method)
        else:
            self._pass_on(message)

    def request(self, request: jsonrpc.Request) -> None:
        """Take a request: a question, or something nobody here answers."""
        try:
            if request.method not in entry.QUESTIONS:
                raise MethodNotFound(f"{request.method[:80]!r} is not known here")
            self._question(request)
        except BridgeError as error:
            self._agent.fail(request.id, error)

    def _update(self, message: jsonrpc.Notification) -> None:
        params = jsonrpc.fields(message.params)
        session = self._session_of(params, message)
        if session is not None:
            session.say(clean(params, len(message.params)))

    def _question(self, request: jsonrpc.Request) -> None:
        params = jsonrpc.fields(request.params)
        session = self._session_of(params, request)
        if session is not None:
            call = jsonrpc.payload(request.params).get("toolCall")
            call_id = call.get("toolCallId") if isinstance(call, dict) else None
            cleaned, card = clean(params, len(request.params)), session.cards.get(call_id)
            self._questions.ask(request, session, cleaned, card)
        elif not self._opening:
            raise InvalidParams("a question needs the id of an open session")

    def _withdraw(self, message: jsonrpc.Notification) -> None:
        request_id = jsonrpc.payload(message.params).get("requestId")
        if isinstance(request_id, int | str):
            self._questions.withdraw(request_id)

    def _pass_on(self, message: jsonrpc.Notification) -> None:
        params = jsonrpc.payload(message.params)
        session = self._roster.of_agent(params.get("sessionId"))
        if session is None and "sessionId" in params:
            return
        strip(params)
        public = session.id if session else None
        if session is not None:
            params["sessionId"] = session.id
        self._log.then(lambda: self._on_notification(public, message.method, params))

    def _session_of(
        self,
        params: dict[str, msgspec.Raw],
        message: jsonrpc.Request | jsonrpc.Notification,
    ) -> Session | None:
        raw = params.get("sessionId")
        agent_id = jsonrpc.value(raw) if raw is not None else None
        session = self._roster.of_agent(agent_id)
        if session is None and self._opening and isinstance(agent_id, str):
            early = self._early.setdefault(agent_id, [])
            if len(early) < EARLY_LIMIT:
                early.append(message)
        return session
