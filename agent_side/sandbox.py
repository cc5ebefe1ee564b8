"""What the agent's process may write and reach: fixed at its start, and said honestly.

On Linux the agent runs in bubblewrap where that is installed and works; then the kernel refuses,
whatever the agent asks or does not ask. Elsewhere only what the agent asks for can be refused, and
the state says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from shutil import which

from agent_side import risk
from bridge.protocol.jsonrpc import Payload

PROBE_SECONDS = 10.0
WRITING = frozenset({"edit", "delete", "move"})
# Ways out that no read-only folder closes: sockets of programs that run outside.
SOCKETS = ("/run/docker.sock", "/run/user", "/tmp/.X11-unix", "/run/dbus", "/run/containerd")  # noqa: S108


class Mode(StrEnum):
    """How much the agent's process may do."""

    READ_ONLY = "read-only"
    WORKSPACE_WRITE = "workspace-write"
    WORKSPACE_WRITE_NETWORK = "workspace-write-network"
    OFF = "off"


@dataclass(frozen=True)
class SandboxState:
    """What holds for a connector's whole life."""

    mode: Mode = Mode.OFF
    enforced: bool = False  # by the kernel; otherwise only what the agent asks for is refused
    by: str = ""  # bubblewrap, or nothing
    why: str = ""  # it is not enforced

    def as_json(self) -> Payload:
        """Give the wire shape."""
        return {"mode": self.mode, "enforced": self.enforced, "by": self.by, "why": self.why}

    def refuses(self, facts: Payload, roots: tuple[Path, ...]) -> str:
        """Say why what is asked cannot be, in words; '' when it can."""
        if self.mode is Mode.OFF or facts.get("kind") not in WRITING:
            return ""
        if self.mode is Mode.READ_ONLY:
            return "the sandbox is read-only: nothing may be changed"
        cwd = str(facts.get("cwd") or "/")
        for path in risk.paths_of(facts):
            if not any(risk.is_below(path, cwd, root) for root in roots):
                return f"the sandbox lets the agent write only in {', '.join(map(str, roots))}"
        return ""


@dataclass(frozen=True)
class Sandbox:
    """How the agent's command is run."""

    state: SandboxState = SandboxState()
    prefix: tuple[str, ...] = ()  # what is put before the command

    def wrapped(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Give the command as it is run."""
        return (*self.prefix, *argv)


def choose(
    mode: Mode,
    roots: Sequence[Path],
    *,
    kept: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    path: str | None = None,
) -> Sandbox:
    """Give the sandbox for a mode, enforced where this machine can.

    ``kept``: the agent's own folders, which it may always write; ``hidden``: those it never sees.
    """
    if mode is Mode.OFF:
        return Sandbox(SandboxState(why="no sandbox was asked for"))
    if sys.platform != "linux":
        return Sandbox(SandboxState(mode, why="there is no bubblewrap on this system"))
    program = which("bwrap", path=path)
    if program is None:
        return Sandbox(SandboxState(mode, why="bubblewrap is not installed (package bubblewrap)"))
    writable = [*(() if mode is Mode.READ_ONLY else roots), *kept]
    prefix = (program, *_arguments(mode, writable, hidden), "--")
    if why := _fails(prefix):
        return Sandbox(SandboxState(mode, why=f"bubblewrap does not work here: {why}"))
    return Sandbox(SandboxState(mode, enforced=True, by="bubblewrap"), prefix)


def _arguments(mode: Mode, writable: Sequence[Path], hidden: Sequence[Path]) -> tuple[str, ...]:
    arguments = ["--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
    if mode is not Mode.WORKSPACE_WRITE_NETWORK:
        arguments.append("--unshare-net")
    arguments += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    arguments += ["--bind", "/tmp", "/tmp"]  # noqa: S108 (programs need it; it is no secret place)
    for folder in writable:
        if folder.exists():
            arguments += ["--bind", str(folder), str(folder)]
    for place in map(Path, (*SOCKETS, f"/tmp/tmux-{os.getuid()}", *map(str, hidden))):  # noqa: S108
        if place.is_dir():
            arguments += ["--tmpfs", str(place)]
        elif place.exists():
            arguments += ["--ro-bind", "/dev/null", str(place)]
    return tuple(arguments)


def _fails(prefix: Sequence[str]) -> str:
    """Try it once; gives what it says when it does not work."""
    try:
        ran = subprocess.run(  # noqa: S603
            [*prefix, "true"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    last = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
    return last[0][:200] if ran.returncode else ""
