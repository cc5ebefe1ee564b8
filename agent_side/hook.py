"""The flag ``--bridge`` of an installed chimera-run: put there, taken out, looked at."""

from __future__ import annotations

import enum
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

MODULE = "chimera_bridge_flag"
ASK_SECONDS = 30.0
FERRET_PYTHON = "CHIMERA_BRIDGE_FERRET_PYTHON"  # as of the catalogue
INSTALL = "chimera-bridge hook install"
UNHOOKED = "chimera's `ferret serve --bridge URL` takes the URL for --bridge-token, without a word"
_PLACE = """
import importlib.util, sysconfig
print(sysconfig.get_path("purelib"))
print("chimera" if importlib.util.find_spec("chimera") else "")
"""
_TRY = """
import argparse
from chimera.ferret import cli
parser = argparse.ArgumentParser()
cli.add_arguments(parser)
print("--bridge" in parser._option_string_actions)
"""


class State(enum.StrEnum):
    """How a Python has the flag."""

    NO_FERRET = "chimera-run is not installed"
    ABSENT = "not installed"
    OTHER = "installed by another version or place of chimera-bridge"
    UNFIT = "installed, but this chimera-run is not as known: the flag is not there"
    INSTALLED = "installed"


@dataclass(frozen=True)
class Hook:
    """The flag in one Python."""

    python: str
    folder: Path  # its packages
    has_ferret: bool = True

    @property
    def files(self) -> dict[Path, str]:
        """What is written, and where."""
        from agent_side.print_config import executable

        line = f"import {MODULE}; {MODULE}.watch({executable()!r})\n"
        source = Path(__file__).with_name("ferret_flag.py").read_text(encoding="utf-8")
        return {
            self.folder / f"{MODULE}.py": source,
            self.folder / f"{MODULE}.pth": line,
        }

    @property
    def state(self) -> State:
        """Look at it; the engine is started to see whether the flag is there."""
        if not self.has_ferret:
            return State.NO_FERRET
        held = [_read(file) for file in self.files]
        if not any(held):
            return State.ABSENT
        if held != list(self.files.values()):
            return State.OTHER
        fits = ask(self.python, _TRY)[-1:] == ["True"]
        return State.INSTALLED if fits else State.UNFIT

    def install(self) -> None:
        """Put it there, the module before the line that imports it; raises OSError."""
        for file, text in self.files.items():
            new = file.with_suffix(".new")
            new.write_text(text, encoding="utf-8")
            new.replace(file)

    def remove(self) -> None:
        """Take it out, the line first; raises OSError."""
        for file in reversed(self.files):
            file.unlink(missing_ok=True)


def find(python: str | None = None) -> Hook | None:
    """Give the flag of a Python, else of the one that has ferret; None when that does not run."""
    chosen = python or os.environ.get(FERRET_PYTHON) or _python_of_chimera() or sys.executable
    said = ask(chosen, _PLACE)
    if not said or not said[0]:
        return None
    return Hook(chosen, Path(said[0]), has_ferret=said[1:] == ["chimera"])


def ask(python: str, program: str) -> list[str]:
    """Run a few lines in another Python, away from any folder's modules; give what it prints."""
    try:
        done = subprocess.run(  # noqa: S603  a Python that the owner has
            [python, "-P", "-c", program],
            capture_output=True,
            text=True,
            check=False,
            timeout=ASK_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [] if done.returncode else done.stdout.splitlines()


def _python_of_chimera() -> str | None:
    """Give the Python that the command ``chimera`` is run by, beside this one or on PATH."""
    beside = Path(sys.executable).with_name("chimera")
    found = str(beside) if beside.is_file() else shutil.which("chimera")
    if found is None:
        return None
    with Path(found).open("rb") as script:
        first = script.readline(4096).decode("utf-8", "replace").strip()
    named = first.removeprefix("#!").strip()
    return named if first.startswith("#!") and Path(named).is_file() else None


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
