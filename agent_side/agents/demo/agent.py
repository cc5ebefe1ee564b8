"""The demo's ACP side: answers requests, runs each turn in a thread so that it hears of cancel."""

from __future__ import annotations

import json
import re
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

from agent_side.agents.asked import Refused, take
from agent_side.agents.demo.session import Cancelled, Session, Wire
from agent_side.agents.demo.turn import WORDS, Turn

MODES = {
    "ask": ("Ask", "Asks before each edit and each command"),
    "accept-edits": ("Accept edits", "Edits files without asking, asks before commands"),
}


class Agent:
    """The demo as a client sees it."""

    def __init__(self) -> None:
        """Start without sessions."""
        self._wire = Wire()
        self._sessions: dict[str, Session] = {}
        self._forms = False

    def run(self) -> None:
        """Serve until standard input ends."""
        try:
            for line in sys.stdin.buffer:
                self._take_line(line)
        finally:
            for session in self._sessions.values():
                session.kill()

    def _take_line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError as error:
            self._wire.send(id=None, error={"code": -32700, "message": f"not JSON: {error}"})
        else:
            self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        result = take(message, self._wire, self._serve)
        if result is not None and message["method"] in ("session/new", "session/load"):
            asked = message.get("params") or {}
            self._offer_commands(self._sessions[asked.get("sessionId") or result["sessionId"]])

    def _serve(self, method: str, params: dict[str, Any], id_: Any) -> Any:
        serve = {
            "initialize": self._initialize,
            "session/new": self._new,
            "session/load": self._load,
            "session/set_mode": self._set_mode,
            "session/cancel": self._cancel,
        }.get(method)
        if serve is not None:
            return serve(params)
        if method == "session/prompt":
            return self._prompt(params, id_)
        raise Refused(-32601, f"there is no method {method}")

    def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        elicitation = (params.get("clientCapabilities") or {}).get("elicitation") or {}
        self._forms = elicitation.get("form") is not None
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "demo", "title": "Demo agent", "version": "1"},
            "agentCapabilities": {"loadSession": True, "promptCapabilities": {}},
            "authMethods": [],
        }

    def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._session_in(f"demo-{uuid.uuid4().hex[:12]}", params)
        self._sessions[session.id] = session
        return {"sessionId": session.id, "modes": modes_of(session)}

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        session_id = str(params.get("sessionId"))
        if not re.fullmatch(r"demo-[0-9a-f]{12}", session_id):
            raise Refused(-32002, f"there is no session {session_id}")
        session = self._session_in(session_id, params)
        session.replay()
        self._sessions[session.id] = session
        return {"modes": modes_of(session)}

    def _session_in(self, session_id: str, params: dict[str, Any]) -> Session:
        cwd = Path(str(params.get("cwd", "")))
        if not (cwd.is_absolute() and cwd.is_dir()):
            raise Refused(-32602, f"cwd must be the full path of a folder: {cwd}")
        return Session(self._wire, session_id, cwd)

    def _offer_commands(self, session: Session) -> None:
        commands = [{"name": word, "description": about} for word, about in WORDS.items()]
        update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        session.show(update)

    def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        session, mode = self._session(params), params.get("modeId")
        if mode not in MODES:
            raise Refused(-32602, f"there is no mode {mode!r}; there are: {', '.join(MODES)}")
        session.mode = mode
        session.update("current_mode_update", currentModeId=mode)
        return {}

    def _cancel(self, params: dict[str, Any]) -> None:
        self._session(params).cancel()

    def _prompt(self, params: dict[str, Any], id_: Any) -> None:
        session = self._session(params)
        if session.busy:
            raise Refused(
                -32600, "a turn is running in this session; wait for its end or cancel it"
            )
        blocks = params.get("prompt") or []
        text = "\n".join(str(block.get("text", "")) for block in blocks)
        session.begin(text)
        threading.Thread(target=self._play, args=(session, text, id_), daemon=True).start()

    def _play(self, session: Session, text: str, id_: Any) -> None:
        outcome: dict[str, Any] = {"result": {"stopReason": "end_turn"}}
        try:
            Turn(session, forms=self._forms).play(text)
        except Cancelled:
            outcome = {"result": {"stopReason": "cancelled"}}
        except Refused as refused:
            outcome = {"error": refused.error}
        except Exception as error:  # noqa: BLE001  whatever it is, the turn must end
            outcome = {"error": {"code": -32603, "message": f"{type(error).__name__}: {error}"}}
        session.busy = False
        self._wire.send(id=id_, **outcome)

    def _session(self, params: dict[str, Any]) -> Session:
        session = self._sessions.get(str(params.get("sessionId")))
        if session is None:
            raise Refused(-32002, f"there is no session {params.get('sessionId')}")
        return session


def modes_of(session: Session) -> dict[str, Any]:
    """Give the modes as session/new and session/load tell them."""
    offered = [{"id": i, "name": name, "description": about} for i, (name, about) in MODES.items()]
    return {"currentModeId": session.mode, "availableModes": offered}
