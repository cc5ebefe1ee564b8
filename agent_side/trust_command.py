"""``chimera-bridge trust``: the folders in which agents may run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_trust(commands: Any) -> None:
    """Add the command."""
    trust = commands.add_parser("trust", help="let editors open sessions in a folder")
    trust.set_defaults(run=run)
    trust.add_argument("path", nargs="?", type=Path, metavar="PATH", help="none: list them")
    trust.add_argument("--remove", action="store_true", help="trust it no more")


def run(chosen: argparse.Namespace) -> int:
    """Trust a folder, or no more, or list what is trusted."""
    from agent_side.connect import connector_state
    from agent_side.trust import Trust

    trust, path = Trust(connector_state()), chosen.path
    if path is None:
        for folder in trust.folders:
            print(folder)  # noqa: T201
        return 0
    try:
        return _change(trust, path, remove=chosen.remove)
    except OSError as error:
        return _fail(f"it cannot be kept: {error}")


def _change(trust: Any, path: Path, *, remove: bool) -> int:
    if remove:
        return 0 if trust.remove(path) else _fail(f"{path} was not trusted")
    if not path.is_dir():
        return _fail(f"{path} is no folder")
    trust.add(path)
    return 0


def _fail(sentence: str) -> int:
    print(f"chimera-bridge: {sentence}", file=sys.stderr)  # noqa: T201
    return 1
