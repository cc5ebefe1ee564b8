"""What is written after a turn: what was granted and by whom, what changed, what was not seen."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from agent_side.doings import Doings
from agent_side.snapshots.snapshot import Change, shown
from agent_side.snapshots.store import Kept
from bridge.protocol.jsonrpc import Payload

LISTED = 200  # files of one receipt; the rest is counted
IGNORED_SHOWN = 5

NOT_KEPT = {
    "git_missing": "git is not installed on this machine: the turn cannot be undone",
    "too_large": "the folder is too large to be kept: the turn cannot be undone",
    "too_slow": "the folder could not be kept in time: the turn cannot be undone",
    "failed": "the folder could not be kept: the turn cannot be undone",
}


@dataclass(frozen=True)
class Evidence:
    """What a receipt is made of."""

    folder: Path
    doings: Doings | None  # None: an earlier process saw it
    kept: Kept | None
    why: str = ""  # nothing is kept: a word of NOT_KEPT
    detail: str = ""
    ignored: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    usage: Payload | None = None
    has_repository: bool = False


def compose(seen: Evidence) -> Payload:
    """Give the fields of a receipt."""
    doings = seen.doings
    return {
        "snapshot": _snapshot(seen),
        "undo": seen.kept is not None and bool(seen.kept.changes),
        "files": None if seen.kept is None else _files(seen),
        "granted": None if doings is None else doings.granted,
        "refused": None if doings is None else doings.refused,
        "commands": None if doings is None else doings.commands(),
        "cost": None if doings is None else _cost(doings.used, seen.usage),
        "usage": seen.usage,
        "unseen": [{"code": code, "text": text} for code, text in _unseen(seen)],
    }


def files_of(changes: Iterable[Change]) -> list[Change]:
    """Give the changes of files and links, without those of folders."""
    return [c for c in changes if (c.after or c.before).kind != "folder"]  # type: ignore[union-attr]


def _snapshot(seen: Evidence) -> Payload:
    if seen.kept is not None:
        return {"state": "kept", "text": "a copy was kept before the turn: it can be undone"}
    text = NOT_KEPT[seen.why] + (f" ({seen.detail})" if seen.detail else "")
    return {"state": "none", "reason": seen.why, "text": text}


def _files(seen: Evidence) -> Payload:
    changes = files_of(seen.kept.changes if seen.kept else ())
    kinds = [change.kind for change in changes]
    return {
        **{kind: kinds.count(kind) for kind in ("created", "removed", "changed")},
        "lines": {
            "added": sum(change.added or 0 for change in changes),
            "removed": sum(change.removed or 0 for change in changes),
        },
        "list": [_file(change, seen) for change in changes[:LISTED]],
        "more": max(0, len(changes) - LISTED),
    }


def _file(change: Change, seen: Evidence) -> Payload:
    return {
        "path": shown(change.path),
        "change": change.kind,
        "added": change.added,
        "removed": change.removed,
        "asked": _is_asked(change.path, seen),
    }


def _is_asked(path: str, seen: Evidence) -> bool:
    named = seen.doings.paths if seen.doings else set()
    return not named.isdisjoint({shown(path), shown(os.path.join(seen.folder, path))})  # noqa: PTH118


def _cost(before: Payload | None, after: Payload | None) -> Payload | None:
    """Give what the turn cost, where the agent tells what the session cost before and after."""
    spent = [(side or {}).get("cost") for side in (before, after)]
    amounts = [one.get("amount") if isinstance(one, dict) else None for one in spent]
    if before is None and isinstance(amounts[1], int | float):
        return spent[1]
    if not all(isinstance(one, int | float) for one in amounts):
        return None
    return {**spent[1], "amount": round(amounts[1] - amounts[0], 6)}  # type: ignore[dict-item, operator]


def _unseen(seen: Evidence) -> Iterable[tuple[str, str]]:
    if seen.kept is None:
        yield "no_snapshot", "which files changed is not known: " + _snapshot(seen)["text"]
    if seen.doings is None:
        yield (
            "restarted",
            (
                "the connector was started again during the turn: all that changed until then "
                "counts as the turn's, and what was granted stands only in the log"
            ),
        )
    unasked = [
        c for c in files_of(seen.kept.changes if seen.kept else ()) if not _is_asked(c.path, seen)
    ]
    if unasked and seen.doings is not None:
        one = len(unasked) == 1
        yield (
            "unasked_changes",
            (
                f"{len(unasked)} file{'' if one else 's'} changed without a question that named "
                f"{'it' if one else 'them'}: the agent may write without asking, and a command "
                "that was allowed may write anything"
            ),
        )
    if seen.kept is not None and seen.kept.shared:
        yield (
            "shared_folder",
            ("another turn ran in this folder at the same time: its changes count here too"),
        )
    yield from _never_seen(seen)


def _never_seen(seen: Evidence) -> Iterable[tuple[str, str]]:
    if seen.ignored:
        yield (
            "ignored_files",
            (
                "what the ignore rules leave out is not watched and not undone: "
                f"{_some(seen.ignored)}"
            ),
        )
    if seen.left_out:
        yield "left_out", f"too large or not readable, so not kept: {_some(seen.left_out)}"
    if seen.has_repository:
        yield "git_folder", "what the turn did to the repository itself (commits, branches) stays"
    yield "outside", f"changes outside {shown(str(seen.folder))} and on the network are not seen"


def _some(names: tuple[str, ...]) -> str:
    listed = ", ".join(shown(name) for name in names[:IGNORED_SHOWN])
    more = len(names) - IGNORED_SHOWN
    return f"{listed} and {more:,} more" if more > 0 else listed
