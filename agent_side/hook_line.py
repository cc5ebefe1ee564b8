"""``chimera-bridge hook``: the flag ``--bridge`` for an installed ``chimera ferret serve``."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from agent_side.command_line import Parser


def add_hook(commands: Any) -> None:
    """Add the command."""
    hook = commands.add_parser("hook", help="--bridge for an installed `chimera ferret serve`")
    actions = hook.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for action, what in (
        ("install", "add the flag"),
        ("remove", "take it out"),
        ("status", "say whether it is there"),
    ):
        parser = actions.add_parser(action, help=what)
        parser.set_defaults(run=run, action=action)
        parser.add_argument(
            "--python", metavar="FILE", help="the Python that has chimera-run (default: chimera's)"
        )


def run(chosen: argparse.Namespace) -> int:
    """Install it, remove it, or tell its state; 1 when it cannot be, or is not there."""
    from agent_side.hook import INSTALL, UNHOOKED, State, find

    hook = find(chosen.python)
    if hook is None:
        return _fail(f"{chosen.python or 'no Python'} cannot be run")
    if chosen.action == "install" and not hook.has_ferret:
        return _fail(f"{hook.python} has no chimera-run: name another with --python")
    try:
        if chosen.action == "install":
            hook.install()
        elif chosen.action == "remove":
            hook.remove()
    except OSError as error:
        return _fail(f"{hook.folder} cannot be changed: {error.strerror}")
    state = hook.state
    print(f"{state}: {hook.python}")  # noqa: T201
    if chosen.action == "remove":
        return 0
    if state is State.ABSENT:
        print(f"{UNHOOKED}; {INSTALL}")  # noqa: T201
    return 0 if state is State.INSTALLED else 1


def _fail(sentence: str) -> int:
    print(f"chimera-bridge: {sentence}", file=sys.stderr)  # noqa: T201
    return 1
