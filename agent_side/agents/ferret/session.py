"""One conversation with ferret's engine."""

from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from agent_side.agents.asked import Refused
from agent_side.agents.ferret.engine import Commands
from agent_side.agents.ferret.turn import Turn
from agent_side.agents.ferret.wire import Wire

SYSTEM = "You are Ferret, a coding agent. You work in the current folder with the tools you have."


class Session:
    """One conversation with the engine: its context, mode, and what is always allowed."""

    def __init__(self, wire: Wire, engine: Any, cwd: Path, options: argparse.Namespace) -> None:
        """Build the engine's parts; raises ValueError when no provider is configured."""
        self.id = f"ferret-{uuid.uuid4().hex[:12]}"
        self.cwd = cwd
        self.mode: str = options.mode
        self.wire = wire
        self.engine = engine
        self.always: set[str] = set()
        self.turn: Turn | None = None
        self._titled = False
        self.commands = Commands(engine, cwd)
        self.env = engine.LocalEnvironment(workdir=str(cwd))
        self.env.setup()
        self.env.run_command = self.commands.run
        self.agent = engine.Agent(
            provider=engine.build_provider(options),
            tools=engine.tools,
            prompt=engine.Prompt.from_string(SYSTEM),
        )
        names = [tool.name for tool in self.agent.tools]
        self.context = engine.Context(system=self.agent.prompt.render(tools=names))

    def prompt(self, id_: Any, text: str) -> None:
        """Start a turn; raises Refused while one runs."""
        if self.turn and not self.turn.over:
            raise Refused(-32600, "a turn is running in this session; wait for it or cancel it")
        self.turn = Turn(self, id_, text, after=self.turn)
        self._title(text)
        self.turn.start()

    def update(self, what: str, /, **more: Any) -> None:
        """Send a session/update."""
        params = {"sessionId": self.id, "update": {"sessionUpdate": what, **more}}
        self.wire.send(method="session/update", params=params)

    def cancel(self) -> None:
        """End the running turn, whatever it waits for."""
        if self.turn and not self.turn.over:
            self.turn.cancel()

    def _title(self, text: str) -> None:
        if not self._titled:
            self._titled = True
            self.update("session_info_update", title=" ".join(text.split())[:60] or "Ferret")
