"""Leads a folder back to what it held before a turn, name by name, and never over a later edit.

First a plan, which touches nothing: what would be created, removed and restored, and what was
edited after the turn. Then the steps, each by itself: what fails is told and the rest goes on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent_side.snapshots.git import Git
from agent_side.snapshots.look import SPECIAL, UNREADABLE, look, obstacle
from agent_side.snapshots.snapshot import Change, Entry
from agent_side.snapshots.writing import Writing, sizes_of

NOT_KEPT = "not_kept"  # it may have been there before the turn, but its content was not kept
IN_THE_WAY = "in_the_way"  # a folder with later content stands where a file was
REPOSITORY = "repository"  # a repository that the turn made keeps its history
LOST = "lost"  # the content is no longer in the store
CANNOT = "failed"


@dataclass
class Plan:
    """What an undo would do."""

    steps: list[Change] = field(default_factory=list)  # from what is there to what was there
    conflicts: set[str] = field(default_factory=set)  # edited after the turn
    left: dict[str, str] = field(default_factory=dict)  # cannot be led back, and why

    def counts(self) -> dict[str, int]:
        """Count the files that it creates, removes and restores."""
        return counts(self.steps)


def does(step: Change) -> str:
    """Say what a step does to a file: create, remove, restore; empty for a folder."""
    entry = step.after or step.before
    if entry is None or entry.kind == "folder":
        return ""
    if step.after is None:
        return "remove"
    return "create" if step.before is None else "restore"


def counts(steps: Iterable[Change]) -> dict[str, int]:
    """Count the files that steps create, remove and restore."""
    found = {"create": 0, "remove": 0, "restore": 0}
    for step in steps:
        if kind := does(step):
            found[kind] += 1
    return found


def plan(git: Git, folder: Path, changes: list[Change], protected: Iterable[str]) -> Plan:
    """Compare what a turn changed with what is there now; ``protected`` names are not removed."""
    found, kept = Plan(), frozenset(protected)
    removed = {c.path for c in changes if c.before is None and c.path not in kept}
    for change in changes:
        if change.path in kept:
            found.left[change.path] = NOT_KEPT
        else:
            _consider(folder, change, removed, found)
    for step in list(found.steps):
        _clear_way(folder, step, removed, found)
    _drop_lost(git, found)
    return found


def _consider(folder: Path, change: Change, removed: set[str], found: Plan) -> None:
    path = change.path
    if _is_folder(change):
        found.steps.append(Change(path, change.after, change.before))
        if change.before is None and (folder / path / ".git").exists():
            found.left[f"{path}/.git"] = REPOSITORY
        return
    now = look(folder, path)
    if now == change.before:
        return
    if now is not None and now.kind == "folder":
        if not _empties(folder / path, folder, removed):
            found.left[path] = IN_THE_WAY
            return
        now = None
    if now is not None and now.blob in {SPECIAL, UNREADABLE}:
        found.left[path] = CANNOT
        return
    if now != change.after:
        found.conflicts.add(path)
    found.steps.append(Change(path, now, change.before))


def _clear_way(folder: Path, step: Change, removed: set[str], found: Plan) -> None:
    """Count what stands where a folder was as a later edit, unless the turn made it."""
    part = obstacle(folder, step.path) if step.after is not None else None
    if part is None or part in removed or part in found.conflicts:
        return
    if part not in {one.path for one in found.steps}:
        found.steps.append(Change(part, look(folder, part), None))
        found.conflicts.add(part)


def _drop_lost(git: Git, found: Plan) -> None:
    needed = {s.path: s.after.blob for s in found.steps if s.after and s.after.blob}
    held = sizes_of(git, set(needed.values()))
    lost = {path for path, blob in needed.items() if blob not in held}
    found.steps = [step for step in found.steps if step.path not in lost]
    found.left |= dict.fromkeys(lost, LOST)


def _is_folder(change: Change) -> bool:
    return "folder" in {entry.kind for entry in (change.before, change.after) if entry}


def _empties(there: Path, folder: Path, removed: set[str]) -> bool:
    """Whether nothing stays in a folder when the turn's own files are gone."""
    for at, _, names in os.walk(there):
        within = Path(at).relative_to(folder).as_posix()
        if any(f"{within}/{name}" not in removed for name in names):
            return False
    return True


def carry_out(git: Git, folder: Path, planned: Plan) -> tuple[list[Change], dict[str, str]]:
    """Do the steps; give those that were done, and those that were not with why."""
    writing = Writing(git, folder)
    _keep_edits(git, folder, planned)
    writing.remove([s for s in planned.steps if s.after is None])
    writing.prune(s.path for s in planned.steps if _is_folder(s) and s.after is None)
    files = [s for s in planned.steps if s.after is not None and not _is_folder(s)]
    modes = {s.path: s.after.mode for s in planned.steps if s.after and _is_folder(s)}
    writing.write(files, modes)
    writing.set_folders(modes)
    failed = writing.failed
    return [step for step in planned.steps if step.path not in failed], failed


def _keep_edits(git: Git, folder: Path, planned: Plan) -> None:
    """Take what was edited later into the store, so that the undo can be undone."""
    for step in planned.steps:
        if step.path in planned.conflicts and step.before is not None:
            git.run("hash-object", "-w", "--stdin", feed=_content(folder / step.path, step.before))


def _content(path: Path, entry: Entry) -> bytes:
    return os.fsencode(path.readlink()) if entry.kind == "link" else path.read_bytes()
