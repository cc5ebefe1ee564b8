"""The editor's door: ACP v1, as an agent, for one editor on standard input and output.

The editor sees the same sessions as everybody else, under their public ids. A session is shown from
the journal up to its end and live from there; nothing is shown twice. Its own prompts are not
echoed. Questions are asked in the sessions it has open; whoever answers first wins.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from agent_side.agents.process import AgentError
from agent_side.connector import Connector, local_origin
from agent_side.doors.asked import Asked
from agent_side.doors.lines import ClientLines
from agent_side.doors.views import Views
from agent_side.round_trips import Question
from agent_side.turn import TurnEnd
from bridge.protocol import acp, jsonrpc
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import META_KEY, Envelope
from bridge.protocol.errors import (
    AuthRequired,
    BridgeError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ParseError,
)
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Resolved

LEAVE_SECONDS = 3.0  # for prompts to end and requests to be answered when the editor leaves

logger = logging.getLogger(__name__)


class Editor:
    """One editor: a door of the connector, and an agent to the editor."""

    name = "editor"

    def __init__(self, connector: Connector, write: Callable[[bytes], None]) -> None:
        """Speak by ``write``."""
        self._connector = connector
        self._write = write
        self._origin = local_origin(self.name)
        self._asked = Asked(write)
        self._views = Views(connector, write)
        self._prompts: dict[str, str] = {}  # mail id → session, of prompts that run or wait
        self._answers: set[str] = set()  # round-trips this editor answered
        self._quiet = asyncio.Event()  # set while it waits for no prompt
        self._quiet.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._greeted = False
        self._early: list[bytes] | None = None  # lines that came while initialize was answered

    # The editor.

    def received(self, line: bytes) -> None:
        """Take one line of the editor's; while initialize is not answered, the next ones wait."""
        if self._early is not None:
            self._early.append(line)
            return
        try:
            if rb"\u" in line and jsonrpc.mend_surrogates(line) != line:
                raise ParseError("not JSON: a lone surrogate in a string")
            message = jsonrpc.parse_strict(line)
        except BridgeError as error:
            self._write(jsonrpc.error(error.data.pop("id", None), error))
            return
        if isinstance(message, jsonrpc.Request):
            self._requested(message)
        elif isinstance(message, jsonrpc.Notification):
            self._notified(message)
        else:
            self._answered(message)

    def skipped(self) -> None:
        """Answer a line that was too long to take."""
        self._write(jsonrpc.error(None, ParseError("the line is longer than 64 MiB")))

    async def leave(self) -> None:
        """Cancel the editor's prompts, and answer what can be answered in a moment."""
        for session_id in set(self._prompts.values()):
            self._connector.cancel(session_id, self._origin)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_SECONDS):
                while self._tasks:
                    await asyncio.wait(self._tasks)
                await self._quiet.wait()
        for task in self._tasks:
            task.cancel()

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

    def _requested(self, request: jsonrpc.Request) -> None:
        try:
            if not self._greeted and request.method != acp.INITIALIZE:
                raise InvalidRequest("the first request must be initialize")
            params = jsonrpc.payload(request.params)
            if request.method in self._at_once:
                self._at_once[request.method](self, request.id, params)
                return
            if request.method not in self._awaited:
                raise MethodNotFound(f"unknown method {request.method[:80]!r}")
            if request.method == acp.INITIALIZE:
                self._early = []
        except BridgeError as error:
            self._write(jsonrpc.error(request.id, error))
            return
        task = asyncio.create_task(self._finish(request, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: jsonrpc.Request, params: Payload) -> None:
        try:
            await self._awaited[request.method](self, request.id, params)
        except (BridgeError, AgentError) as error:
            self._write(jsonrpc.error(request.id, error.as_object()))
        except Exception:
            logger.exception("%s of the editor failed", request.method)
            broken = InternalError("something broke in the connector; its log says what")
            self._write(jsonrpc.error(request.id, broken))

    async def _initialize(self, id_: Id, params: Payload) -> None:
        try:
            if type(params.get("protocolVersion")) is not int:
                raise InvalidParams("protocolVersion must be a whole number")
            await self._connector.ready()  # what the agent can do is known then
            self._learn(_object(params.get("clientCapabilities")))
            self._write(jsonrpc.result(id_, self._hello()))
        finally:
            asyncio.get_running_loop().call_soon(self._take_early)

    def _learn(self, capabilities: Payload) -> None:
        elicitation = _object(capabilities.get("elicitation"))
        self._asked.forms = frozenset(k for k, v in elicitation.items() if v is not None)
        self._asked.notices = _object(capabilities.get("session")).get("notices") is not None
        self._views.aware = META_KEY in _object(capabilities.get("_meta"))
        self._greeted = True

    def _take_early(self) -> None:
        early, self._early = self._early, None
        for line in early or ():
            self.received(line)

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
                "promptCapabilities": _object(agent.capabilities.get("promptCapabilities")),
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

    def _prompt(self, id_: Id, params: Payload) -> None:
        session_id, prompt = _session_id(params), params.get("prompt")
        if not isinstance(prompt, list) or not all(isinstance(block, dict) for block in prompt):
            raise InvalidParams("prompt must be a list of content blocks")
        mail_id = f"editor-{secrets.token_hex(12)}"

        def ended(end: TurnEnd) -> None:
            self._ended(id_, mail_id, end)

        self._views.own.add(mail_id)
        self._prompts[mail_id] = session_id
        self._quiet.clear()
        try:
            self._connector.prompt(session_id, prompt, self._origin, mail_id, ended)
        except BridgeError:
            self._forget_prompt(mail_id)
            raise

    def _ended(self, id_: Id, mail_id: str, end: TurnEnd) -> None:
        self._forget_prompt(mail_id)
        if end.error is not None:
            self._write(jsonrpc.error(id_, end.error))
        else:
            self._write(jsonrpc.result(id_, end.result or {"stopReason": end.stop_reason}))

    def _forget_prompt(self, mail_id: str) -> None:
        self._prompts.pop(mail_id, None)
        if not self._prompts:
            self._quiet.set()

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

    def _close(self, id_: Id, params: Payload) -> None:
        self._leave_session(_session_id(params))
        self._write(jsonrpc.result(id_, {}))

    def _leave_session(self, session_id: str) -> None:
        if self._views.leave(session_id):
            self._asked.forget(session_id)

    _at_once: ClassVar = {
        acp.AUTHENTICATE: _authenticate,
        acp.LIST: _list,
        acp.PROMPT: _prompt,
        acp.CLOSE: _close,
        **dict.fromkeys(acp.STATUS_ALIASES, _status),
    }
    _awaited: ClassVar = {
        acp.INITIALIZE: _initialize,
        acp.NEW: _new,
        acp.LOAD: _load,
        acp.RESUME: _resume,
        acp.SET_MODE: _set_mode,
        acp.SET_CONFIG_OPTION: _set_option,
    }

    # Notifications and answers.

    def _notified(self, message: jsonrpc.Notification) -> None:
        if not self._greeted:
            return
        try:
            if message.method == acp.CANCEL:
                params = jsonrpc.payload(message.params)
                self._connector.cancel(_session_id(params), self._origin)
        except BridgeError as error:
            logger.warning("%s of the editor: %s", message.method, error.message)

    def _answered(self, response: jsonrpc.Response) -> None:
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


async def serve_stdio(connector: Connector, lines: ClientLines) -> None:
    """Serve the editor until it leaves."""
    editor = Editor(connector, lines.write)
    connector.open_door(editor)
    try:
        await lines.open(editor.received, editor.skipped)
        await lines.gone.wait()
        await editor.leave()
    finally:
        connector.close_door(editor)
        await lines.close()


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


def _session_id(params: Payload) -> str:
    session_id = params.get("sessionId")
    if not isinstance(session_id, str):
        raise InvalidParams("sessionId must be a string")
    return session_id


def _without_id(result: Payload) -> Payload:
    return {k: v for k, v in result.items() if k != "sessionId"}


def _object(value: Any) -> Payload:
    return value if isinstance(value, dict) else {}
