"""What the demo can do: say, read, edit, run, and ask before the last two."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

from agent_side.agents.asked import Refused
from agent_side.agents.demo.session import Cancelled, Session

PACE_SECONDS = float(os.environ.get("CHIMERA_DEMO_PACE_MS", "15")) / 1000
OUTPUT_LIMIT = 64 << 10  # bytes of a command's output or of a file that are shown


class Work:
    """One turn's means: everything it does is shown, and nothing is done unasked."""

    def __init__(self, session: Session) -> None:
        """Start without open questions."""
        self.session = session
        self.wire = session.wire
        self._open: dict[int, str] = {}  # question: its card

    # Saying.

    def say(self, text: str) -> None:
        """Stream text word by word."""
        for word in re.findall(r"\S+\s*|\s+", text):
            self.piece("agent_message_chunk", word)

    def think(self, text: str) -> None:
        """Stream a thought word by word."""
        for word in re.findall(r"\S+\s*", text):
            self.piece("agent_thought_chunk", word)

    def piece(self, kind: str, text: str, pause: float | None = None) -> None:
        """Send one piece of text; raises Cancelled."""
        if self.session.cancelled:
            raise Cancelled
        self.session.letters += len(text)
        self.session.update(kind, content={"type": "text", "text": text})
        time.sleep(PACE_SECONDS if pause is None else pause)

    def plan(self, steps: list[str], done: int) -> None:
        """Show a plan of which so many steps are done."""
        status = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
        entries = [
            {"content": step, "priority": "medium", "status": state}
            for step, state in zip(steps, status, strict=False)
        ]
        self.session.update("plan", entries=entries)

    # Working.

    def look_around(self) -> None:
        """List the folder."""
        card = self.card("read", "List the folder", rawInput={"path": str(self.session.cwd)})
        names = sorted(p.name + "/" * p.is_dir() for p in self.session.cwd.iterdir())
        self.close(card, "completed", "\n".join(names[:100]) or "(empty)")

    def read(self, name: str) -> None:
        """Read a file."""
        path = self.path(name)
        place = [{"path": str(path)}]
        card = self.card("read", f"Read {name}", locations=place, rawInput={"path": str(path)})
        try:
            text = path.read_bytes()[:OUTPUT_LIMIT].decode("utf-8", "replace")
        except OSError as error:
            self.close(card, "failed", f"{name}: {error.strerror}")
        else:
            self.close(card, "completed", text)

    def edit(self, name: str) -> bool:
        """Add a line to a file, when allowed; give whether it was written."""
        path = self.path(name)
        old = path.read_text("utf-8", "replace") if path.is_file() else None
        lines = (old or "").splitlines()
        new = "\n".join([*lines, f"Line {len(lines) + 1}, written by the demo agent."]) + "\n"
        diff = {"type": "diff", "path": str(path), "oldText": old, "newText": new}
        card = self.card(
            "edit",
            f"Edit {name}",
            content=[diff],
            locations=[{"path": str(path)}],
            rawInput={"path": str(path), "content": new},
        )
        asked = self.session.mode != "accept-edits"
        if asked and not self.allowed(card, "edits to this file", str(path)):
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(new)
        self.session.update("tool_call_update", toolCallId=card["toolCallId"], status="completed")
        return True

    def run(self, command: str) -> bool:
        """Run a command, when allowed; give whether it ran."""
        card = self.command_card(command)
        if not self.allowed(card, "this command", command):
            return False
        self.execute(card)
        return True

    def command_card(self, command: str) -> dict[str, Any]:
        """Show the card of a command that is to run."""
        what = {"command": command, "cwd": str(self.session.cwd)}
        return self.card("execute", command, rawInput=what)

    def execute(self, card: dict[str, Any]) -> None:
        """Run a card's command and show its output as it comes; raises Cancelled."""
        id_ = card["toolCallId"]
        self.session.update("tool_call_update", toolCallId=id_, status="in_progress")
        process = subprocess.Popen(  # noqa: S602  a person has read and allowed it
            card["rawInput"]["command"],
            shell=True,
            cwd=self.session.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        self.session.running = process.pid
        output = self._collect(process, card)
        code = process.wait()
        self.session.running = None
        raw = {"exitCode": code, "output": output}
        self.close(card, "failed" if code else "completed", output, rawOutput=raw)

    def _collect(self, process: subprocess.Popen[bytes], card: dict[str, Any]) -> str:
        assert process.stdout is not None
        output = b""
        with process.stdout as stream:
            while chunk := self._next_output(process, stream.fileno(), card):
                output = (output + chunk)[:OUTPUT_LIMIT]
        return output.decode("utf-8", "replace")

    def _next_output(
        self, process: subprocess.Popen[bytes], fd: int, card: dict[str, Any]
    ) -> bytes:
        while not select.select([fd], [], [], 0.05)[0]:
            if self.session.cancelled:
                self.session.kill()
                process.wait()
                self.close(card, "failed", "cancelled")
                raise Cancelled
        return os.read(fd, OUTPUT_LIMIT)

    def path(self, name: str) -> Path:
        """Give a path inside the session's folder; raises Refused for others."""
        path = (self.session.cwd / name).resolve()
        if not path.is_relative_to(self.session.cwd.resolve()):
            raise Refused(-32602, f"{name} lies outside the session's folder")
        return path

    # Cards and questions.

    def card(self, kind: str, title: str, **more: Any) -> dict[str, Any]:
        """Show a tool call that is not done yet."""
        if self.session.cancelled:
            raise Cancelled
        id_ = f"call-{uuid.uuid4().hex[:12]}"
        card = {"toolCallId": id_, "title": title, "kind": kind, "status": "pending", **more}
        self.session.update("tool_call", **card)
        return card

    def close(self, card: dict[str, Any], status: str, text: str, **more: Any) -> None:
        """Show how a tool call ended."""
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        id_ = card["toolCallId"]
        self.session.update(
            "tool_call_update", toolCallId=id_, status=status, content=content, **more
        )

    def allowed(self, card: dict[str, Any], what: str, key: str) -> bool:
        """Ask, unless the same was always allowed before."""
        if key in self.session.always:
            return True
        id_ = self.ask_permission(card, what)
        return self.permitted(self.wait_for_one({id_}), card, key)

    def ask_permission(self, card: dict[str, Any], what: str) -> int:
        """Send the question about a card."""
        options = [
            {"optionId": "once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "always", "name": f"Always allow {what}", "kind": "allow_always"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        params = {"sessionId": self.session.id, "toolCall": card, "options": options}
        id_ = self.wire.ask("session/request_permission", params)
        self._open[id_] = card["toolCallId"]
        return id_

    def permitted(self, id_: int, card: dict[str, Any], key: str) -> bool:
        """Read the answer, remember "always", close the card of what was rejected."""
        chosen = self.answer_to(id_).get("outcome", {}).get("optionId")
        if chosen == "always":
            self.session.always.add(key)
        if chosen not in ("once", "always"):
            self.close(card, "failed", "rejected; nothing was done")
        return chosen in ("once", "always")

    def wait_for_one(self, ids: set[int]) -> int:
        """Give the first question that is answered; raises Cancelled."""
        with self.wire.changed:
            self.wire.changed.wait_for(
                lambda: self.session.cancelled or ids & set(self.wire.answers)
            )
            if self.session.cancelled:
                raise Cancelled
            return min(ids & set(self.wire.answers))

    def answer_to(self, id_: int) -> dict[str, Any]:
        """Give an answer that came; an error counts as none."""
        self._open.pop(id_)
        return self.wire.answers.pop(id_) or {}

    def withdraw(self) -> None:
        """Take back what is still asked."""
        for id_, call in self._open.items():
            self.wire.send(method="$/cancel_request", params={"requestId": id_})
            if call:
                self.close({"toolCallId": call}, "failed", "cancelled")
