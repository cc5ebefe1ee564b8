"""The editor's door: ACP v1, as an agent, for one editor.

The editor sees the same sessions as everybody else, under their public ids. A session is shown from
the journal up to its end and live from there; nothing is shown twice. Its own prompts are not
echoed. Questions are asked in the sessions it has open; whoever answers first wins.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from agent_side import receipt_list
from agent_side.connector import Connector, local_origin
from agent_side.doors import blocks
from agent_side.doors.asked import Asked
from agent_side.doors.exchange import Call
from agent_side.doors.files import EditorFiles
from agent_side.doors.prompts import Prompts
from agent_side.doors.views import Views
from agent_side.round_trips import Question
from agent_side.turn import CANCELLED, TurnEnd
from bridge.protocol import acp, jsonrpc
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import META_KEY, Envelope
from bridge.protocol.errors import AuthRequired, BridgeError, InvalidParams, RequestCancelled
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Resolved

logger = logging.getLogger(__name__)


class Editor:
    """One editor: a door of the connector, and an agent to the editor."""

    def __init__(
        self, connector: Connector, write: Callable[[bytes], None], name: str = "editor"
    ) -> None:
        """Speak by ``write``."""
        self.name = name
        self._connector = connector
        self._write = write
        self._origin = local_origin(name)
        self._asked = Asked(write)
        self._files = EditorFiles(write)
        self._prompts = Prompts(connector, self._origin)
        self._views = Views(connector, write, self._prompts.own)
        self._by_request: dict[Id, str] = {}  # its prompts' requests → mail ids
        self._answers: set[str] = set()  # round-trips this editor answered
        self._greeted = False
        self.calls: Mapping[str, Call] = {
            acp.AUTHENTICATE: self._authenticate,
            acp.LIST: self._list,
            acp.PROMPT: self._prompt,
            acp.CLOSE: self._close,
            acp.NEW: self._new,
            acp.LOAD: self._load,
            acp.RESUME: self._resume,
            acp.SET_MODE: self._set_mode,
            acp.SET_MODEL: self._set_model,
            acp.SET_CONFIG_OPTION: self._set_option,
            acp.UNDO: self._undo,
            acp.UNDO_PREVIEW: self._undo_preview,
            acp.RECEIPTS: self._receipts,
            **dict.fromkeys(acp.STATUS_ALIASES, self._status),
        }

    async def leave(self, seconds: float) -> None:
        """Cancel the editor's prompts and wait for their ends."""
        self._files.leave()
        await self._prompts.leave(seconds)

    # The connector.

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        """Show a new entry."""
        self._views.take(session_id, text, envelope)

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Show a piece of text at once."""
        self._views.take_piece(session_id, text, is_first=is_first)

    def ask(self, question: Question) -> None:
        """Put a question before the person at the editor."""
        if self._views.is_live(question.session_id):
            self._asked.ask(question)

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Take a question back, unless this editor answered it."""
        if question.id in self._answers:
            self._answers.discard(question.id)
        elif question.session_id in self._views:
            self._asked.withdraw(question, resolved)

    def notification(self, session_id: str | None, method: str, params: Payload) -> None:
        """Pass on what the agent says outside the log."""
        if self._greeted and (session_id is None or session_id in self._views):
            self._write(jsonrpc.notification(method, params))

    def status_changed(self) -> None:
        """Do nothing: ACP has no place for it; session/bridgeStatus gives it."""

    # Requests.

    async def initialize(self, id_: Id, params: Payload) -> None:
        """Greet the editor."""
        if type(params.get("protocolVersion")) is not int:
            raise InvalidParams("protocolVersion must be a whole number")
        await self._connector.ready()  # what the agent can do is known then
        self._learn(_object(params.get("clientCapabilities")))
        self._write(jsonrpc.result(id_, self._hello()))

    def _learn(self, capabilities: Payload) -> None:
        elicitation = _object(capabilities.get("elicitation"))
        self._asked.forms = frozenset(k for k, v in elicitation.items() if v is not None)
        self._asked.notices = _object(capabilities.get("session")).get("notices") is not None
        self._views.aware = META_KEY in _object(capabilities.get("_meta"))
        self._files.offered = _object(capabilities.get("fs")).get("readTextFile") is True
        self._greeted = True

    @property
    def _can(self) -> Payload:
        """What the agent takes in a prompt."""
        return _object(self._connector.agent.capabilities.get("promptCapabilities"))

    def _hello(self) -> Payload:
        agent = self._connector.agent
        login = {"id": "login", "name": "Log in", "description": self._login()}
        return {
            "protocolVersion": acp.PROTOCOL_VERSION,
            "agentInfo": {
                "name": agent.name,
                "title": agent.title or agent.name,
                "version": agent.version or "unknown",
            },
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {**self._can, "embeddedContext": True, "audio": False},
                "mcpCapabilities": _object(agent.capabilities.get("mcpCapabilities")),
                "sessionCapabilities": {"list": {}, "resume": {}},
            },
            "authMethods": [login] if agent.login else [],
        }

    def _login(self) -> str:
        login = self._connector.agent.login
        return f"run `{login}` in a terminal, then try again" if login else "no login is needed"

    def _authenticate(self, _id: Id, _params: Payload) -> None:
        raise AuthRequired(self._login())

    def _list(self, id_: Id, params: Payload) -> None:
        cwd = params.get("cwd")
        sessions = self._connector.sessions.values()
        shown = [_info(session) for session in sessions if cwd in (None, str(session.cwd))]
        self._write(jsonrpc.result(id_, {"sessions": shown}))

    def _status(self, id_: Id, params: Payload) -> None:
        self._write(jsonrpc.result(id_, self._connector.status(params.get("sessionId"))))

    async def _new(self, id_: Id, params: Payload) -> None:
        servers = params.get("mcpServers") or []
        opened = await self._connector.new_session(_cwd(params), self._origin, mcp_servers=servers)
        self._write(jsonrpc.result(id_, opened.result))
        await self._follow(opened.session.id, START)

    async def _load(self, id_: Id, params: Payload) -> None:
        session_id = _session_id(params)
        opened = await self._connector.load_session(session_id, self._origin)
        self._leave_session(session_id)
        await self._views.follow(session_id, START)
        self._write(jsonrpc.result(id_, _without_id(opened.result)))
        self._ask_open(session_id)

    async def _resume(self, id_: Id, params: Payload) -> None:
        session_id = _session_id(params)
        opened = await self._connector.load_session(session_id, self._origin)
        cursor = _object(_object(params.get("_meta")).get(META_KEY)).get("cursor")
        after = Cursor.parse(cursor) if isinstance(cursor, str) else self._end_of(session_id)
        self._leave_session(session_id)
        self._write(jsonrpc.result(id_, _without_id(opened.result)))
        await self._follow(session_id, after)

    async def _follow(self, session_id: str, after: Cursor) -> None:
        if await self._views.follow(session_id, after):
            self._ask_open(session_id)

    def _ask_open(self, session_id: str) -> None:
        for question in list(self._connector.questions.values()):
            if question.session_id == session_id:
                self._asked.ask(question)

    def _end_of(self, session_id: str) -> Cursor:
        newest = deque(self._connector.entries(session_id), maxlen=1)
        return newest[0][0] if newest else START

    def _prompt(self, id_: Id, params: Payload) -> Awaitable[None] | None:
        session_id = self._connector.session(_session_id(params)).id
        prompt = blocks.checked(params.get("prompt"), self._can)
        paths = blocks.links(prompt) if self._files.offered else []
        if paths and session_id in self._views:
            return self._prompt_with(id_, session_id, prompt, paths)
        self._submit(id_, session_id, prompt, {})
        return None

    async def _prompt_with(
        self, id_: Id, session_id: str, prompt: list[Payload], paths: list[str]
    ) -> None:
        """Read linked files first as the editor has them, unsaved changes included."""
        texts = await self._files.read(session_id, paths)
        if texts is None:
            self._write(jsonrpc.result(id_, {"stopReason": CANCELLED}))
        else:
            self._submit(id_, session_id, prompt, texts)

    def _submit(
        self, id_: Id, session_id: str, prompt: list[Payload], texts: Mapping[str, str]
    ) -> None:
        fitted = blocks.fitted(prompt, texts, self._can)
        self._by_request[id_] = self._prompts.submit(
            session_id, fitted, lambda end: self._ended(id_, end)
        )

    def _ended(self, id_: Id, end: TurnEnd) -> None:
        if self._by_request.pop(id_, None) is None:
            return  # the editor took the request back
        if end.error is not None:
            self._write(jsonrpc.error(id_, end.error))
        else:
            self._write(jsonrpc.result(id_, end.result or {"stopReason": end.stop_reason}))

    async def _set_mode(self, id_: Id, params: Payload) -> None:
        session_id, mode = _session_id(params), params.get("modeId")
        if not isinstance(mode, str):
            raise InvalidParams("modeId must be a string")
        result = await self._connector.set_mode(session_id, mode, self._origin)
        self._write(jsonrpc.result(id_, result))

    async def _set_option(self, id_: Id, params: Payload) -> None:
        session_id = _session_id(params)
        result = await self._connector.set_config_option(session_id, params, self._origin)
        self._write(jsonrpc.result(id_, result))

    async def _undo(self, id_: Id, params: Payload) -> None:
        force = params.get("force") is True
        back = self._connector.way_back
        named = (_session_id(params), _turn(params))
        self._write(jsonrpc.result(id_, await back.undo(*named, self._origin, force=force)))

    async def _undo_preview(self, id_: Id, params: Payload) -> None:
        found = await self._connector.way_back.preview(_session_id(params), _turn(params))
        self._write(jsonrpc.result(id_, found))

    def _receipts(self, id_: Id, params: Payload) -> None:
        entries = self._connector.entries(_session_id(params))
        self._write(jsonrpc.result(id_, {"receipts": receipt_list.read(entries)}))

    async def _set_model(self, id_: Id, params: Payload) -> None:
        session_id, model = _session_id(params), params.get("modelId")
        if not isinstance(model, str):
            raise InvalidParams("modelId must be a string")
        result = await self._connector.set_model(session_id, model, self._origin)
        self._write(jsonrpc.result(id_, result))

    def _close(self, id_: Id, params: Payload) -> None:
        self._leave_session(_session_id(params))
        self._write(jsonrpc.result(id_, {}))

    def _leave_session(self, session_id: str) -> None:
        if self._views.leave(session_id):
            self._asked.forget(session_id)

    # Notifications and answers.

    def notified(self, method: str, params: Payload) -> None:
        """Take a cancel, of a turn or of one request."""
        if method == acp.CANCEL:
            session_id = _session_id(params)
            self._files.leave(session_id)
            self._connector.cancel(session_id, self._origin)
        elif method == acp.CANCEL_REQUEST:
            self._take_back(params.get("requestId"))

    def _take_back(self, id_: Any) -> None:
        mail_id = self._by_request.pop(id_, None) if isinstance(id_, int | str) else None
        if mail_id is not None:
            self._write(jsonrpc.error(id_, RequestCancelled("cancelled by the editor")))
            self._prompts.withdraw(mail_id)

    def answered(self, response: jsonrpc.Response) -> None:
        """Take an answer to a question, or a file that was asked for."""
        if self._files.take(response):
            return
        taken = self._asked.take(response)
        if taken is None:
            return
        question, answer = taken
        if question.id not in self._connector.questions:
            return  # it was answered elsewhere, and the editor told so
        try:
            self._answers.add(question.id)
            self._connector.answer(question.id, answer, self._origin)
        except BridgeError as error:
            self._answers.discard(question.id)
            logger.warning("the editor's answer counts for nothing: %s", error.message)


def _info(session: Any) -> Payload:
    info: Payload = {"sessionId": session.id, "cwd": str(session.cwd)}
    if session.title:
        info["title"] = session.title
    return {**info, "_meta": {META_KEY: {"state": session.state}}}


def _cwd(params: Payload) -> Path:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not Path(cwd).is_absolute():
        raise InvalidParams(f"cwd must be an absolute path, not {str(cwd)[:200]!r}")
    return Path(cwd)


def _turn(params: Payload) -> str:
    turn = params.get("turn")
    if not isinstance(turn, str):
        raise InvalidParams("turn must be a string")
    return turn


def _session_id(params: Payload) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str):
        raise InvalidParams("sessionId must be a string")
    return session_id


def _without_id(result: Payload) -> Payload:
    return {k: v for k, v in result.items() if k != "sessionId"}


def _object(value: Any) -> Payload:
    return value if isinstance(value, dict) else {}
