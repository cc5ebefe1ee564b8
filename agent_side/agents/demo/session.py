"""The demo's wire and its sessions: what is said, asked, remembered."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_side.agents.asked import Refused

KEPT_SESSIONS = 50  # on disk; the oldest go


class Cancelled(Exception):
    """The turn was cancelled."""


class Wire:
    """Standard input and output: whole messages, and the questions that wait for an answer."""

    def __init__(self) -> None:
        """Number questions from 0, as most agents do."""
        self.changed = threading.Condition()
        self.answers: dict[int, dict[str, Any] | None] = {}
        self._lock = threading.Lock()
        self._next_id = 0

    def send(self, **message: Any) -> None:
        """Write one message."""
        data = memoryview(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        with self._lock:
            while data:
                data = data[os.write(1, data) :]

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a question and give its id."""
        with self.changed:
            id_ = self._next_id
            self._next_id += 1
        self.send(id=id_, method=method, params=params)
        return id_

    def take_answer(self, message: dict[str, Any]) -> None:
        """Keep an answer for who waits; an error is no answer."""
        with self.changed:
            self.answers[message["id"]] = message.get("result")
            self.changed.notify_all()


class Session:
    """One conversation: its folder, its mode, what is always allowed, its history on disk."""

    def __init__(self, wire: Wire, session_id: str, cwd: Path) -> None:
        """Start with nothing allowed."""
        self.wire = wire
        self.id = session_id
        self.cwd = cwd
        self.mode = "ask"
        self.title = ""
        self.always: set[str] = set()
        self.cancelled = False
        self.busy = False
        self.letters = 0
        self.running: int | None = None  # the process group of a command
        self._history = history_of(session_id)

    def update(self, what: str, /, **more: Any) -> None:
        """Send a session/update and keep it for session/load."""
        update = {"sessionUpdate": what, **more}
        with self._history.open("a") as file:
            file.write(json.dumps(update) + "\n")
        self.show(update)

    def show(self, update: dict[str, Any]) -> None:
        """Send a session/update only."""
        self.wire.send(method="session/update", params={"sessionId": self.id, "update": update})

    def replay(self) -> None:
        """Send everything again; raises Refused when the session is not known."""
        if not self._history.exists():
            raise Refused(-32002, f"there is no session {self.id}")
        for line in self._history.read_text().splitlines():
            update = json.loads(line)
            self.title = update.get("title") or self.title
            self.show(update)

    def begin(self, text: str) -> None:
        """Make the first prompt the title."""
        self.busy, self.cancelled = True, False
        self.letters += len(text)
        if not self.title:
            self.title = " ".join(text.split())[:60] or "Demo"
            self.update("session_info_update", title=self.title)

    def cancel(self) -> None:
        """End the running turn, also one that waits for an answer."""
        with self.wire.changed:
            self.cancelled = self.busy
            self.wire.changed.notify_all()

    def kill(self) -> None:
        """End the command that runs, with all it started."""
        if self.running is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.running, signal.SIGKILL)
            self.running = None


def history_of(session_id: str) -> Path:
    """Give the file of a session's history; only the newest sessions keep theirs."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    folder = Path(home) / "chimera-bridge" / "demo"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    oldest = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in oldest[:-KEPT_SESSIONS]:
        path.unlink(missing_ok=True)
    return folder / f"{session_id}.jsonl"
