"""The command lines of ``chimera-bridge undo`` and ``chimera-bridge receipts``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from agent_side.command_line import no_command

if TYPE_CHECKING:
    from agent_side.undo_command import UndoWish


def add(commands: Any) -> None:
    """Add both to the commands."""
    undo = commands.add_parser(
        "undo",
        help="lead a folder back to what it held before a turn",
        description="Beside a connector that runs. Without TURN: the last turn.",
    )
    undo.set_defaults(run=_undo)
    _add_turn(undo)
    undo.add_argument("--preview", action="store_true", help="only show what would change")
    undo.add_argument("--force", action="store_true", help="also where it loses later edits")
    receipts = commands.add_parser(
        "receipts",
        help="what the newest turns changed, what was granted, what nobody could see",
        description="Beside a connector that runs. Without TURN: the newest ten.",
    )
    receipts.set_defaults(run=_receipts, preview=False, force=False)
    _add_turn(receipts)


def _add_turn(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("turn", nargs="?", default="", metavar="TURN", help="as receipts name it")
    parser.add_argument("--name", help="of the connector, where several run")
    parser.add_argument("--session", default="", metavar="ID", help="of this session alone")
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def _undo(chosen: argparse.Namespace) -> int:
    from agent_side.undo_command import undo

    return _run(undo, chosen)


def _receipts(chosen: argparse.Namespace) -> int:
    from agent_side.undo_command import receipts

    return _run(receipts, chosen)


def _run(command: Any, chosen: argparse.Namespace) -> int:
    import asyncio

    from agent_side.connect import connector_state

    ending = asyncio.run(command(connector_state(), _wish(chosen), _say))
    if ending.code:
        sys.stderr.write(f"chimera-bridge: {ending.sentence}\n")
    return int(ending.code)


def _wish(chosen: argparse.Namespace) -> UndoWish:
    from agent_side.undo_command import UndoWish

    no_command(chosen)
    named = (chosen.name, chosen.session, chosen.turn)
    return UndoWish(*named, preview=chosen.preview, force=chosen.force, as_json=chosen.json)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
