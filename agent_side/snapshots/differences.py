"""What differs between two snapshots of a folder, name by name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from agent_side.snapshots.git import Git
from agent_side.snapshots.look import look
from agent_side.snapshots.snapshot import EMPTY_TREE, Change, Entry, Snapshot

_Sides: TypeAlias = tuple[dict[str, Entry], dict[str, Entry]]
_LINK, _PROGRAM = "120000", "100755"


def between(git: Git, before: Snapshot, after: Snapshot, folder: Path) -> list[Change]:
    """Give what differs, by path; ``folder`` is still as ``after`` says. Raises GitFailed."""
    sides: _Sides = ({}, {})
    lines: dict[str, tuple[int | None, int | None]] = {}
    for root in sorted({*before.trees, *after.trees}):
        trees = [side.trees.get(root, EMPTY_TREE) for side in (before, after)]
        if trees[0] != trees[1]:
            told = _differ(git, trees)
            _take(told, f"{root}/" if root else "", (before, after), sides, lines)
    _compare_modes(git, before, after, sides)
    for path in after.left_out:  # it was kept before: it has grown over the limit since
        if path in sides[0] and (now := look(folder, path)) is not None:
            sides[1][path] = now
    found = [
        Change(path, sides[0].get(path), sides[1].get(path), *lines.get(path, (None, None)))
        for path in sorted({*sides[0], *sides[1]})
        if sides[0].get(path) != sides[1].get(path)
    ]
    return [*found, *_folders(before, after)]


def _differ(git: Git, trees: list[str]) -> list[bytes]:
    how = ("diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    return git.run_all(((*how, "--raw", "--no-abbrev", *trees), (*how, "--numstat", *trees)))


def _take(
    told: list[bytes],
    prefix: str,
    snapshots: tuple[Snapshot, Snapshot],
    sides: _Sides,
    lines: dict[str, tuple[int | None, int | None]],
) -> None:
    raw, counted = told
    fields = raw.split(b"\0")
    for facts, name in zip(fields[:-1:2], fields[1::2], strict=True):
        path = prefix + os.fsdecode(name)
        modes_and_blobs = facts.decode().lstrip(":").split(" ")
        for n in (0, 1):
            mode, blob = modes_and_blobs[n], modes_and_blobs[2 + n]
            if mode != "000000":
                sides[n][path] = _entry(snapshots[n], path, mode, blob)
    for line in filter(None, counted.split(b"\0")):
        added, removed, name = line.split(b"\t", 2)
        if added != b"-":
            lines[prefix + os.fsdecode(name)] = (int(added), int(removed))


def _entry(snapshot: Snapshot, path: str, mode: str, blob: str) -> Entry:
    if mode == _LINK:
        return Entry("link", 0, blob)
    return Entry("file", snapshot.file_mode(path, is_program=mode == _PROGRAM), blob)


def _compare_modes(
    git: Git,
    before: Snapshot,
    after: Snapshot,
    sides: _Sides,
) -> None:
    """Add the files of which only the mode is another."""
    names = {*before.modes, *after.modes} - {*sides[0], *sides[1]}
    for name in names:
        if name.endswith("/") or before.modes.get(name) == after.modes.get(name):
            continue
        for side, snapshot in zip(sides, (before, after), strict=True):
            found = _lookup(git, snapshot, name)
            if found is not None:
                side[name] = found


def _lookup(git: Git, snapshot: Snapshot, path: str) -> Entry | None:
    roots = [root for root in snapshot.trees if not root or path.startswith(f"{root}/")]
    for root in sorted(roots, key=len, reverse=True):
        name = path.removeprefix(f"{root}/") if root else path
        found = git.run("ls-tree", "-z", snapshot.trees[root], "--", name)
        if found:
            mode, _, blob = found.split(b"\t")[0].decode().split(" ")
            return _entry(snapshot, path, mode, blob)
    return None


def _folders(before: Snapshot, after: Snapshot) -> Iterable[Change]:
    """Give the folders that came, went, or have another mode."""
    names = (set(before.folders), set(after.folders))
    for name in sorted(names[0] | names[1]):
        entries = [
            Entry("folder", side.folder_mode(name)) if name in had else None
            for side, had in zip((before, after), names, strict=True)
        ]
        if entries[0] != entries[1]:
            yield Change(name, entries[0], entries[1])
