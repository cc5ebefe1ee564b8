"""The connector's own terminal: its state, who watches, and open questions, which it answers.

Plain lines. Without a terminal it says one line on standard error for each change of state.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from agent_side import receipt_list, receipt_text
from agent_side.agents.lines import LineSplitter
from agent_side.connector import Connector, local_origin
from agent_side.doors import question_text
from agent_side.doors.outcome import outcome
from agent_side.doors.typed import NotUnderstood, answer_of, is_allowing, split
from agent_side.doors.visible import one_line
from agent_side.round_trips import Question
from bridge.protocol import entry
from bridge.protocol.attachment import Reason, State
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import BridgeError
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved

SHOWN_LINES = 40  # of one question; the rest is counted, and shown when asked for
SHOWN_WIDTH = 2000  # characters of one line
LINE_LIMIT = 1 << 16  # bytes typed
TOLD = frozenset({entry.APPROVAL_CHANGED, entry.VIOLATION, entry.ESCALATED})
HELP = (
    "type NUMBER CHOICE to answer (such as: 1 2), NUMBER CHOICE always (or never) to have equal "
    "questions answered so from now on, NUMBER show to see all of it, approval PRESET to change "
    "what is asked, Enter for the state"
)


class Console:
    """A door of the connector for the person at its terminal."""

    name = "terminal"

    def __init__(self, connector: Connector, say: Callable[[str], None], *, asks: bool) -> None:
        """Print by ``say``; ``asks``: a person can type here."""
        self._connector = connector
        self._say = say
        self._origin = local_origin(self.name)
        self._asks = asks
        self._numbers: dict[str, int] = {}  # round-trip → number
        self._next = 1
        self._cut: set[str] = set()  # questions of which not everything was shown
        self._told = ""
        self._typed = LineSplitter(LINE_LIMIT)

    # The connector.

    def entry(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        """Say when somebody changes what is asked, and what a turn did; others show all of it."""
        del session_id
        if envelope.method in TOLD:
            self._say(told(envelope.method, text))
        if self._asks and envelope.method == entry.RECEIPT:
            for receipt in receipt_list.read([(envelope.cursor, text)]):
                self._say(f"turn over: {receipt_text.summary(receipt)}")
                if receipt["undo"]:
                    self._say("    to take it back: chimera-bridge undo --preview, then without it")

    def piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Show nothing."""

    def notification(self, session_id: str | None, method: str, params: Payload) -> None:
        """Show nothing."""

    def ask(self, question: Question) -> None:
        """Print a new question with exactly what will run."""
        if not self._asks or question.id in self._numbers:
            return
        self._numbers[question.id] = self._next
        self._next += 1
        self._print(question, SHOWN_LINES)

    def withdraw(self, question: Question, resolved: Resolved) -> None:
        """Say how a question ended."""
        self._cut.discard(question.id)
        number = self._numbers.pop(question.id, None)
        if number is not None:
            self._say(f"question {number}: {one_line(outcome(question.params, resolved))}")

    def status_changed(self) -> None:
        """Say the state, when it is another one than the last told."""
        line = state_line(self._connector.status(), watching=self._asks)
        if line != self._told:
            self._told = line
            self._say(line)

    # The person.

    def typed(self, chunk: bytes) -> None:
        """Take what was typed."""
        for line in self._typed.feed(chunk):
            self.take(line.decode("utf-8", "replace").strip())

    def take(self, line: str) -> None:
        """Take one line: an answer, a wish to see more, or nothing for the state."""
        if not line:
            self._say(state_line(self._connector.status(), watching=True, in_full=True))
            for question in self._connector.questions.values():
                self._say(f"{self._head(question)} {self._choices(question)}")
            return
        try:
            words = split(line)
            if words[0] == "approval":
                self._set_approval(words[1:])
                return
            question = self._question(words[0])
            if words[1:] == ["show"]:
                self._print(question, None)
            else:
                self._answer(question, words[1:])
        except NotUnderstood as error:
            self._say(f"{error}; {HELP}")
        except BridgeError as error:
            self._say(error.message)

    def _answer(self, question: Question, words: list[str]) -> None:
        number = self._numbers[question.id]
        answer = answer_of(question.round_trip, words)
        if question.id in self._cut and is_allowing(question.round_trip, answer):
            raise NotUnderstood(f"not all of question {number} was shown: type {number} show first")
        resolved = self._connector.answer(question.id, answer, self._origin)
        if resolved.by != self._origin:
            self._say(f"too late: {one_line(outcome(question.params, resolved))}")

    def _set_approval(self, words: list[str]) -> None:
        """Set the preset of every session that has not ended."""
        for session in self._connector.sessions.values():
            if not session.facts.ended:
                self._connector.set_approval(session.id, " ".join(words), self._origin)

    def _question(self, word: str) -> Question:
        for id_, number in self._numbers.items():
            if word == str(number) and id_ in self._connector.questions:
                return self._connector.questions[id_]
        raise NotUnderstood(f"there is no open question {word!r}")

    def _print(self, question: Question, limit: int | None) -> None:
        lines = question_text.what_runs(question.round_trip)
        shown = lines if limit is None else [line[:SHOWN_WIDTH] for line in lines[:limit]]
        self._say(self._head(question))
        for line in shown:
            self._say(line)
        self._cut.discard(question.id)
        if shown != lines:
            left = sum(map(len, lines)) - sum(map(len, shown))
            self._cut.add(question.id)
            number = self._numbers[question.id]
            self._say(f"    … {left:,} more characters: type {number} show")
        self._say(f"    {self._choices(question)}")
        if question.scope is not None:
            self._say(f"    always or never would mean: {one_line(question.scope.words)}")

    def _head(self, question: Question) -> str:
        session = self._connector.sessions.get(question.session_id)
        title = f" in “{one_line(session.title)}”" if session and session.title else ""
        return f"question {self._numbers.get(question.id)}{title}, {question.risk} risk:"

    def _choices(self, question: Question) -> str:
        number = self._numbers.get(question.id)
        offered = question_text.choices(question.round_trip)
        return "   ".join(
            f"[{number} {n}] {one_line(name)}" for n, (_, name, _) in enumerate(offered, 1)
        )


def told(method: str, text: bytes) -> str:
    """Say what an entry tells the person at the machine."""
    params = json.loads(text)["params"]
    if method == entry.APPROVAL_CHANGED:
        origin = params["_meta"][entry.META_KEY].get("origin") or {}
        by = one_line(f"{origin.get('subject', 'somebody')} ({origin.get('device') or ''})")
        return f"*** the preset is now {params['new']}, was {params['old']}; set by {by} ***"
    if method == entry.ESCALATED:
        return f"*** a question is open for {params['after']:.0f} s ***"
    what = params.get("command") or params.get("path") or params.get("tool")
    return one_line(f"*** refused by {params['mode']}: {what} ***")


def state_line(status: Payload, *, watching: bool, in_full: bool = False) -> str:
    """Say how a connector is attached and who watches; in full also since when and what is open."""
    parts = [_attachment(status)]
    if in_full and status.get("relay") and status.get("since"):
        parts[0] += f", for {_age(status['since'])}"
    if watching and status.get("relay") and status["state"] == State.ATTACHED:
        names = [_watcher(watcher) for watcher in status.get("watching") or ()]
        parts.append(f"watching: {', '.join(names)}" if names else "nobody watches")
    if in_full and (open_ := len(status.get("open") or ())):
        parts.append(f"{open_} open question{'s' if open_ > 1 else ''}")
    return one_line(" · ".join(parts))


def watch_terminal(console: Console) -> None:
    """Give the console what is typed on standard input from now on."""
    loop = asyncio.get_running_loop()
    fd = sys.stdin.fileno()

    def read() -> None:
        chunk = os.read(fd, LINE_LIMIT)
        if chunk:
            console.typed(chunk)
        else:
            loop.remove_reader(fd)

    loop.add_reader(fd, read)


def _attachment(status: Payload) -> str:
    if not status.get("relay"):
        return "no relay: for this machine alone"
    if status["reason"] == Reason.NEVER_CONNECTED:
        return f"connecting to {status['relay']}"
    if status["state"] == State.ATTACHED:
        return f"attached to {status['relay']}"
    return f"{status['state']}: {status.get('detail') or status['reason']}"


def _watcher(watcher: Payload) -> str:
    device = f" ({watcher['device']})" if watcher.get("device") else ""
    return f"{watcher.get('subject')}{device}"


def _age(since: str) -> str:
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds())
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"
