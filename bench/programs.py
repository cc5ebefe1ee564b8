"""The C programs of the measurements, compiled when they are first needed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ["-O2", "-Wall", "-Wextra"]


class CannotCompile(Exception):
    """There is no C compiler, or it refuses the source."""


def compiled(name: str) -> Path:
    """Give the program made from ``name.c``; raises CannotCompile."""
    source = HERE / f"{name}.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = _cache() / f"{name}-{digest}"
    if program.is_file():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise CannotCompile("the measurements need a C compiler; on Debian: apt-get install gcc")
    program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [compiler, *FLAGS, "-o", fresh, source], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CannotCompile(f"{source.name} does not compile: {done.stderr[:500]}")
    fresh.rename(program)
    return program


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "chimera-bridge" / "bench"
