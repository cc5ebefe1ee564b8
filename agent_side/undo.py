"""What people are told of an undo: what it would change, what it leaves, why it cannot be done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent_side.snapshots import undoing
from agent_side.snapshots.snapshot import shown
from bridge.protocol.errors import EditedLater, UndoImpossible
from bridge.protocol.jsonrpc import Payload

LISTED = 200  # paths of one preview; the rest is counted

LEFT = {
    undoing.NOT_KEPT: "it may have been there before the turn without being kept, so it stays",
    undoing.IN_THE_WAY: "a folder with other files stands in its place now",
    undoing.LOST: "its content is no longer kept",
    undoing.REPOSITORY: "a repository that the turn made keeps its history",
    undoing.CANNOT: "it cannot be read or is no file now",
}
WHY = {
    "turn_runs": "a turn runs in that folder: wait for its end, or stop it",
    "undone": "it is undone already",
    "off": "snapshots are switched off on this machine",
    "git_missing": "git is not installed on this machine",
    "failed": "the snapshots of this machine cannot be read",
}


def preview(planned: undoing.Plan) -> Payload:
    """Say what a plan would change."""
    steps = [(step, what) for step in planned.steps if (what := undoing.does(step))]
    changes = [
        {"path": shown(step.path), "does": what, "edited": step.path in planned.conflicts}
        for step, what in steps
    ]
    return {
        "changes": changes[:LISTED],
        "more": max(0, len(changes) - LISTED),
        "conflicts": paths(planned.conflicts),
        "left": left(planned.left),
        "summary": undoing.counts(planned.steps),
    }


def left(reasons: dict[str, str]) -> list[Payload]:
    """Say what an undo leaves as it is, and why."""
    return [
        {"path": shown(path), "reason": _word(why), "text": LEFT.get(why, why)}
        for path, why in sorted(reasons.items())[:LISTED]
    ]


def paths(names: Iterable[str]) -> list[str]:
    """Give some paths as text, in order."""
    return [shown(name) for name in sorted(names)[:LISTED]]


def impossible(why: str, **more: Any) -> UndoImpossible:
    """Give the error that says why something cannot be undone."""
    return UndoImpossible(WHY[why], why=why, **more)


def edited_later(conflicts: set[str]) -> EditedLater:
    """Give the error that names what was edited after a turn."""
    count = len(conflicts)
    one = count == 1
    return EditedLater(
        f"{count} file{'' if one else 's'} {'was' if one else 'were'} edited after the turn: "
        "look at the preview, and say so if the later edits shall be lost",
        conflicts=paths(conflicts),
    )


def _word(why: str) -> str:
    return why if why in LEFT else undoing.CANNOT
