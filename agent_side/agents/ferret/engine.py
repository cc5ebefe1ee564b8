"""The parts of ferret's engine that are used, and its commands made so that they can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

INSTALL = "pip install 'chimera-bridge[ferret]'"
TIMEOUT_SECONDS = 300  # as the engine's own
TIMED_OUT = 124  # the engine's exit code for it


def load_engine() -> Any:
    """Import ferret's engine and give the parts used here; raises ImportError."""
    from chimera import types
    from chimera.core import agent, cancellation, context, loop, loop_config, prompt, tool_group
    from chimera.env import local
    from chimera.events import base as events
    from chimera.ferret import providers
    from chimera.permissions import base as permissions
    from chimera.permissions import modes

    return SimpleNamespace(
        Agent=agent.Agent,
        CancellationToken=cancellation.CancellationToken,
        CommandResult=types.CommandResult,
        Context=context.Context,
        EventBus=events.EventBus,
        LocalEnvironment=local.LocalEnvironment,
        LoopConfig=loop_config.LoopConfig,
        Message=types.Message,
        PermissionAction=permissions.PermissionAction,
        Prompt=prompt.Prompt,
        ReAct=loop.ReAct,
        build_provider=providers.build_provider,
        policy_for_mode=modes.policy_for_mode,
        tools=list(tool_group.AGENT_TOOLS),
    )


class Commands:
    """Runs the engine's shell commands so that they can be ended."""

    def __init__(self, engine: Any, cwd: Path) -> None:
        """Run them in this folder."""
        self._engine = engine
        self._cwd = cwd
        self._running: subprocess.Popen[str] | None = None
        self._stopped = False

    def run(self, cmd: str, timeout: int | None = None, shell_name: str = "main") -> Any:  # noqa: ARG002
        """Run a command to its end, as LocalEnvironment.run_command does; timeout in seconds."""
        process = self._running = subprocess.Popen(  # noqa: S602  a person or the mode allowed it
            cmd,
            shell=True,
            cwd=self._cwd,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        if self._stopped:  # meanwhile
            self._kill()
        try:
            out, err = process.communicate(timeout=timeout or TIMEOUT_SECONDS)
            code = process.returncode
        except subprocess.TimeoutExpired:
            self._kill()
            process.communicate()
            out, err, code = "", "Command timed out", TIMED_OUT
        finally:
            self._running = None
        return self._engine.CommandResult(stdout=out, stderr=err, exit_code=code)

    def start(self) -> None:
        """Let commands run: a turn begins."""
        self._stopped = False

    def stop(self) -> None:
        """End the command that runs, with all it started, and let none run until ``start``."""
        self._stopped = True
        self._kill()

    def _kill(self) -> None:
        if process := self._running:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
