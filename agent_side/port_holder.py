"""Which process of this machine listens on a port, as far as this user may know."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

PROC = Path("/proc")
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def holder_of(port: int) -> str | None:
    """Give the process that listens on a TCP port; None when that cannot be known."""
    sockets = _listening(port)
    if not sockets:
        return None
    for process in PROC.glob("[0-9]*"):
        if sockets & _sockets_of(process):
            return f"process {process.name} ({_command_of(process)})"
    return "a process of another user"


def _listening(port: int) -> set[str]:
    """Give the sockets that listen on a port, as /proc/PID/fd names them."""
    found = set()
    for table in ("net/tcp", "net/tcp6"):
        with contextlib.suppress(OSError):
            for line in (PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _sockets_of(process: Path) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for fd in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(fd))  # noqa: PTH115  Path.readlink would make a path of it
    return found


def _command_of(process: Path) -> str:
    with contextlib.suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        return b" ".join(words).decode("utf-8", "replace").strip()[:120]
    return "?"
