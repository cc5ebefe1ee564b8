"""The editor's door in ferret's dialect: the same sessions and questions in its methods and kinds.

An integer ``protocolVersion`` in ``initialize`` is ACP; none, or "0.2", is this. Answers are words,
``allow | deny | always | never``; each becomes the one option of the agent that means it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from agent_side.connector import Connector, local_origin
from agent_side.doors.decisions import answer_for
from agent_side.doors.exchange import Call
from agent_side.doors.ferret_kinds import FerretKinds
from agent_side.doors.outcome import outcome
from agent_side.doors.prompts import Prompts
from agent_side.doors.views import Views
from agent_side.round_trips import Question
from agent_side.turn import TurnEnd
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.cursor import START
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import InvalidParams, NotFound, RestartRequired
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Resolved

VERSION = "0.2"
CAPABILITIES = {
    "sandbox": True,
    "approval": True,
    "streaming": True,
    "cancellation": True,
    "bridge": True,
}

_Work: TypeAlias = Callable[[Payload], Awaitable[Payload]]

logger = logging.getLogger(__name__)


def speaks_ferret(params: Payload) -> bool:
    """Whether an initialize is of this dialect."""
    return bool(params.get("protocolVersion", VERSION) == VERSION)


class FerretEditor:
    """One client of the dialect: a door of the connector."""

    def __init__(
        self, connector: Connector, write: Callable[[bytes], None], name: str = "editor"
    ) -> None:
        """Speak by ``write``."""
        self.name = name
        self._connector = connector
        self._write = write
        self._origin = local_origin(name)
        self._prompts = Prompts(connector, self._origin)
        self._views = Views(connector, self._translate, self._prompts.own)
        self._views.aware = True
        self._kinds: dict[str, FerretKinds] = {}
        self._asked: set[str] = set()  # round-trips that the client was asked
        self.calls: Mapping[str, Call] = {
            acp.NEW: self._new,
            acp.LOAD: self._load,
            acp.LIST: self._list,
            "session/message": self._message,
            acp.CANCEL: self._cancel,
            "session/setMode": self._answering(self._set_mode),
            "session/setModel": self._answering(self._set_model),
            "session/setSandbox": self._sandbox,
            "session/setApproval": self._answering(self._set_approval),
            "permission/respond": self._respond,
            **dict.fromkeys(acp.STATUS_ALIASES, self._status),
        }

    async def leave(self, seconds: float) -> None:
        """Cancel the client's prompts and wait for their ends."""
        await self._prompts.leave(seconds)

    # The connector.

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        """Show a new entry."""
        self._views.take(session_id, text, envelope)

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Show a piece of text at once."""
        self._views.take_piece(session_id, text, is_first=is_first)

    def ask(self, question: Question) -> None:
        """Put a question before the person."""
        if self._views.is_live(question.session_id) and question.id not in self._asked:
            self._asked.add(question.id)
            for kind in self._kinds_of(question.session_id).asked(question):
                self._update(question.session_id, kind)

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Say that a question ended, unless this client answered it."""
        if question.id in self._asked:
            self._asked.discard(question.id)
            if resolved.by != self._origin:
                said = f"{question.id}: {outcome(question.params, resolved)}"
                notice = {"kind": "notice", "level": "info", "text": said, "id": question.id}
                self._update(question.session_id, notice)

    def notification(self, session_id: str | None, method: str, params: Payload) -> None:
        """Show nothing: the dialect has no place for it."""

    def status_changed(self) -> None:
        """Show nothing: session/bridgeStatus gives it."""

    # Requests.

    async def initialize(self, id_: Id, _params: Payload) -> None:
        """Greet the client."""
        await self._connector.ready()
        greeting = {"protocolVersion": VERSION, "capabilities": CAPABILITIES}
        self._write(jsonrpc.result(id_, greeting))

    async def _new(self, id_: Id, params: Payload) -> None:
        cwd = params.get("cwd") or str(self._connector.cwd)
        if not isinstance(cwd, str) or not Path(cwd).is_absolute():
            raise InvalidParams(f"cwd must be an absolute path, not {str(cwd)[:200]!r}")
        opened = await self._connector.new_session(Path(cwd), self._origin)
        session_id = opened.session.id
        self._write(jsonrpc.result(id_, {"sessionId": session_id, "cwd": cwd}))
        await self._follow(session_id)

    async def _load(self, id_: Id, params: Payload) -> None:
        session_id = _text(params, "sessionId")
        opened = await self._connector.load_session(session_id, self._origin)
        self._kinds.pop(session_id, None)
        await self._views.follow(session_id, START)
        loaded = {"sessionId": session_id, "cwd": str(opened.session.cwd)}
        self._write(jsonrpc.result(id_, loaded))
        self._ask_open(session_id)

    def _list(self, id_: Id, _params: Payload) -> None:
        listed = [
            {"sessionId": s.id, "cwd": str(s.cwd), "title": s.title, "state": s.state}
            for s in reversed(list(self._connector.sessions.values()))
        ]
        self._write(jsonrpc.result(id_, {"sessions": listed}))

    def _message(self, id_: Id, params: Payload) -> None:
        session_id, text = _text(params, "sessionId"), _text(params, "message", "text", "prompt")

        def ended(end: TurnEnd) -> None:
            if end.error is not None:
                self._write(jsonrpc.error(id_, end.error))
                return
            final = self._kinds_of(session_id).final
            said = {"sessionId": session_id, "stopReason": end.stop_reason, "output": final}
            self._write(jsonrpc.result(id_, said))

        self._prompts.submit(session_id, [{"type": "text", "text": text}], ended)

    def _cancel(self, id_: Id, params: Payload) -> None:
        self._connector.cancel(_text(params, "sessionId"), self._origin)
        self._write(jsonrpc.result(id_, {"ok": True}))

    async def _set_mode(self, params: Payload) -> Payload:
        mode = _text(params, "mode", "modeId")
        await self._connector.set_mode(_text(params, "sessionId"), mode, self._origin)
        return {"mode": mode}

    async def _set_model(self, params: Payload) -> Payload:
        model = _text(params, "model", "modelId")
        await self._connector.set_model(_text(params, "sessionId"), model, self._origin)
        return {"model": model}

    async def _set_approval(self, params: Payload) -> Payload:
        """Switch the preset: the connector's, whatever modes the agent has."""
        preset = _text(params, "approval", "preset", "mode")
        return self._connector.set_approval(_text(params, "sessionId"), preset, self._origin)

    def _sandbox(self, id_: Id, params: Payload) -> None:
        wished = {"sandbox", "mode"} & params.keys()
        if wished:
            raise RestartRequired(
                "restart required: the sandbox is fixed when the connector starts"
            )
        self._write(jsonrpc.result(id_, self._connector.sandbox.as_json()))

    def _status(self, id_: Id, params: Payload) -> None:
        self._write(jsonrpc.result(id_, self._connector.status(params.get("sessionId"))))

    def _respond(self, id_: Id, params: Payload) -> None:
        question = self._connector.questions.get(_text(params, "id"))
        if question is None or question.session_id != params.get("sessionId", question.session_id):
            raise NotFound(f"no open question {_text(params, 'id')[:80]!r}")
        answer = answer_for(question, _text(params, "decision"), params.get("content"))
        self._connector.answer(question.id, answer, self._origin)
        self._write(jsonrpc.result(id_, {"ok": True}))

    def _answering(self, work: _Work) -> Call:
        async def answer(id_: Id, params: Payload) -> None:
            self._write(jsonrpc.result(id_, await work(params)))

        return answer

    def notified(self, method: str, params: Payload) -> None:
        """Take a cancel that wants no answer."""
        if method == acp.CANCEL:
            self._connector.cancel(_text(params, "sessionId"), self._origin)

    def answered(self, response: jsonrpc.Response) -> None:
        """Take nothing: this client is never asked by a request."""

    # Inside.

    async def _follow(self, session_id: str) -> None:
        if await self._views.follow(session_id, START):
            self._ask_open(session_id)

    def _ask_open(self, session_id: str) -> None:
        for question in list(self._connector.questions.values()):
            if question.session_id == session_id:
                self._asked.discard(question.id)
                self.ask(question)

    def _translate(self, text: bytes) -> None:
        message = jsonrpc.parse(text)
        if isinstance(message, jsonrpc.Notification):
            params = jsonrpc.payload(message.params)
            session_id = str(params.get("sessionId"))
            for kind in self._kinds_of(session_id).take(message.method, params):
                self._update(session_id, kind)

    def _kinds_of(self, session_id: str) -> FerretKinds:
        return self._kinds.setdefault(session_id, FerretKinds())

    def _update(self, session_id: str, kind: Payload) -> None:
        self._write(jsonrpc.notification(entry.UPDATE, {"sessionId": session_id, **kind}))


def _text(params: Payload, *names: str) -> str:
    """Give the first of some parameters that is a text; raises InvalidParams."""
    found: Any = next((params[name] for name in names if params.get(name)), None)
    if not isinstance(found, str):
        raise InvalidParams(f"{names[0]} must be a string")
    return found
