"""The ferret agent's ACP side."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

from agent_side.agents.asked import Refused, take
from agent_side.agents.ferret.engine import INSTALL
from agent_side.agents.ferret.session import Session
from agent_side.agents.ferret.wire import Wire

MODES = {
    "suggest": "Reads freely, asks before each edit and command",
    "auto": "Edits files without asking, asks before commands",
    "strict": "Asks before everything, reading included",
    "read-only": "Reads only; everything else is refused",
    "yolo": "Never asks",
}


class Agent:
    """Answers the client's requests."""

    def __init__(self, engine: Any, options: argparse.Namespace) -> None:
        """Start without sessions."""
        self._engine = engine
        self._options = options
        self._wire = Wire()
        self._sessions: dict[str, Session] = {}

    def run(self) -> None:
        """Serve until standard input ends, then end what still runs."""
        try:
            for line in sys.stdin.buffer:
                take(json.loads(line), self._wire, self._serve)
        finally:
            for session in self._sessions.values():
                session.commands.stop()

    def _serve(self, method: str, params: dict[str, Any], id_: Any) -> dict[str, Any] | None:
        if method == "initialize":
            return hello()
        if method == "session/new":
            return self._new(params)
        if method not in ("session/prompt", "session/cancel", "session/set_mode"):
            raise Refused(-32601, f"there is no method {method}")
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise Refused(-32002, f"there is no session {params.get('sessionId')}")
        if method == "session/prompt":
            session.prompt(id_, text_of(params.get("prompt") or []))
        elif method == "session/cancel":
            session.cancel()
        else:
            return self._set_mode(session, params.get("modeId"))
        return None

    def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd = Path(str(params.get("cwd", "")))
        if not (cwd.is_absolute() and cwd.is_dir()):
            raise Refused(-32602, f"cwd must be the full path of a folder: {cwd}")
        try:
            session = Session(self._wire, self._engine, cwd, self._options)
        except ValueError as error:  # no key
            raise Refused(-32000, " ".join(str(error).split())) from None
        except ImportError as error:
            raise Refused(-32603, f"{error}; install it with: {INSTALL}") from None
        self._sessions[session.id] = session
        offered = [{"id": i, "name": i, "description": about} for i, about in MODES.items()]
        modes = {"currentModeId": session.mode, "availableModes": offered}
        return {"sessionId": session.id, "modes": modes}

    def _set_mode(self, session: Session, mode: Any) -> dict[str, Any]:
        if mode not in MODES:
            raise Refused(-32602, f"there is no mode {mode!r}; there are: {', '.join(MODES)}")
        session.mode = mode
        session.update("current_mode_update", currentModeId=mode)
        return {}


def hello() -> dict[str, Any]:
    """Give the result of initialize."""
    return {
        "protocolVersion": 1,
        "agentInfo": {"name": "ferret", "title": "Ferret", "version": engine_version()},
        "agentCapabilities": {"loadSession": False, "promptCapabilities": {}},
        "authMethods": [],
    }


def engine_version() -> str:
    """Give the installed engine's version."""
    try:
        return importlib.metadata.version("chimera-run")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def text_of(blocks: list[dict[str, Any]]) -> str:
    """Give a prompt's blocks as the one text that the engine takes."""
    return "\n".join(
        block.get("text") or (block.get("resource") or {}).get("text") or block.get("uri") or ""
        for block in blocks
    )
