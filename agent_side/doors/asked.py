"""The questions put before one client, each under an id of its own connection."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from agent_side.doors.outcome import outcome
from agent_side.round_trips import Question
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Resolved


class Asked:
    """What one client is asked; ``write`` takes each message for it."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """Begin with nothing asked and a client of which nothing is known."""
        self.forms: frozenset[str] = frozenset()  # modes of elicitation the client can show
        self.notices = False  # whether it shows session notices
        self._write = write
        self._numbers = count(1)
        self._open: dict[Id, Question] = {}

    def ask(self, question: Question) -> None:
        """Ask, unless the client cannot or was asked already."""
        if question.id in {asked.id for asked in self._open.values()}:
            return
        if question.method == entry.ELICITATION and _mode(question) not in self.forms:
            return
        id_ = f"ask-{next(self._numbers)}"
        self._open[id_] = question
        meta = {**_meta_of(question.params), META_KEY: {"roundTrip": question.round_trip}}
        params = {**question.params, "_meta": meta}
        self._write(jsonrpc.request(id_, question.method, params))

    def take(self, response: jsonrpc.Response) -> tuple[Question, Payload] | None:
        """Give the question a response answers, and the answer; None when it is no answer.

        An error, a dismissal and a response to nothing we asked are no answers: the question stays
        open for others, and what cancels a turn is session/cancel.
        """
        question = None if response.id is None else self._open.pop(response.id, None)
        if question is None or response.result is None:
            return None
        try:
            result = jsonrpc.payload(response.result)
        except InvalidParams:
            return None
        if question.method == entry.ELICITATION:
            return question, result
        chosen = result.get("outcome")
        if not isinstance(chosen, dict) or chosen.get("outcome") != "selected":
            return None
        return question, {"optionId": chosen.get("optionId")}

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Take the question back and say how it ended."""
        for id_ in [id_ for id_, asked in self._open.items() if asked.id == question.id]:
            del self._open[id_]
            self._write(jsonrpc.notification(acp.CANCEL_REQUEST, {"requestId": id_}))
        if tool_call := _tool_call(question):
            card = {"sessionUpdate": "tool_call_update", "toolCallId": tool_call}
            self._update(question.session_id, card, resolved)
        if self.notices:
            title = f"{_title(question)}: {outcome(question.params, resolved)}"
            notice = {"sessionUpdate": "notice", "severity": "info", "title": title}
            self._update(question.session_id, notice, resolved)

    def forget(self, session_id: str) -> None:
        """Drop the questions of a session the client left."""
        for id_ in [id_ for id_, asked in self._open.items() if asked.session_id == session_id]:
            del self._open[id_]
            self._write(jsonrpc.notification(acp.CANCEL_REQUEST, {"requestId": id_}))

    def _update(self, session_id: str, update: Payload, resolved: Resolved) -> None:
        meta = {META_KEY: {"resolved": resolved}}
        params = {"sessionId": session_id, "update": {**update, "_meta": meta}}
        self._write(jsonrpc.notification(entry.UPDATE, params))


def _mode(question: Question) -> str:
    return str(question.params.get("mode", "form"))


def _tool_call(question: Question) -> str | None:
    tool_call = question.params.get("toolCall")
    id_ = tool_call.get("toolCallId") if isinstance(tool_call, dict) else None
    id_ = id_ or question.params.get("toolCallId")
    return id_ if isinstance(id_, str) else None


def _title(question: Question) -> str:
    tool_call = question.params.get("toolCall")
    title = tool_call.get("title") if isinstance(tool_call, dict) else None
    return str(title or question.params.get("message") or "question")


def _meta_of(params: Payload) -> Payload:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}
