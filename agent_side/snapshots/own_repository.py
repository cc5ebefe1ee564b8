"""The person's own repository around a folder: read for its ignore rules, never written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from agent_side.snapshots.git import Git, GitFailed, Place, program

# Nothing that this repository's configuration names is run.
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_SECONDS = 10.0


def top_of(git: Git, folder: Path, index: Path) -> Path:
    """Give the folder from which ignore rules count: the repository's top, or the folder itself."""
    for top in (folder, *folder.parents):
        if (top / ".git").exists():
            return top if top == folder or not _is_ignored(git, folder, top, index) else folder
    return folder


def rules_of(top: Path) -> tuple[str, ...]:
    """Give git's options for the rules that stand in the repository itself."""
    own = _git_folder(top) / "info" / "exclude"
    return (f"--exclude-from={own}",) if own.is_file() else ()


def forced(folder: Path) -> list[str]:
    """Give the files that the person's repository keeps although a rule ignores them."""
    try:
        found = subprocess.run(  # noqa: S603
            [program(), *_QUIET, "ls-files", "-z", "-c", "-i", "--exclude-standard"],
            cwd=folder,
            env={**_without_git(os.environ), "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if found.returncode:  # no repository, or one of somebody else
        return []
    return [os.fsdecode(name) for name in found.stdout.split(b"\0") if name]


def _is_ignored(git: Git, folder: Path, top: Path, index: Path) -> bool:
    name = f"{folder.relative_to(top).as_posix()}/"
    try:
        git.run("check-ignore", "-q", "--no-index", name, place=Place(top, top, index))
    except GitFailed:
        return False
    return True


def _without_git(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith("GIT_")}


def _git_folder(top: Path) -> Path:
    """Give the folder that a repository's rules stand in, also behind a ``.git`` file."""
    named = top / ".git"
    try:
        text = named.read_text() if named.is_file() else ""
    except (OSError, UnicodeDecodeError):
        return named
    if not text.startswith("gitdir:"):
        return named
    folder = top / text.removeprefix("gitdir:").strip()
    try:
        return folder / (folder / "commondir").read_text().strip()
    except OSError:
        return folder
