"""One tree that is kept as a whole: a session's folder, or a repository nested in one.

The index is ours and stays between snapshots; with the file system's stamps in it, only what
changed is read again.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_side.snapshots.git import Git, GitFailed, Interrupted, Place
from agent_side.snapshots.look import obstacle
from agent_side.snapshots.own_repository import forced, rules_of, top_of
from agent_side.snapshots.snapshot import (
    EMPTY_TREE,
    FILE_MODE,
    FOLDER_MODE,
    PROGRAM_MODE,
    folders_of,
)

FILE_BYTES = 64 << 20  # a larger file is not kept
NEW_BYTES = 1 << 30  # read for one snapshot; beyond, the folder is not kept
FILES = 100_000  # of one folder
FRESH_SECONDS = 2.0  # git does not see a second change of a mode within one second
RETRIES = 20  # for files that cannot be read after all

_UNPROCESSED = re.compile(r"Unable to process path (.*)")


class TooLarge(Exception):
    """The folder is larger than what is kept; the message says by what."""


@dataclass
class Taken:
    """What one tree holds."""

    tree: str
    nested: list[str]  # roots of repositories in it, relative to it
    folders: list[str]
    ignored: list[str]
    modes: dict[str, int]
    left_out: dict[str, str]


@dataclass
class _Found:
    """What the folder shows beside the index."""

    candidates: list[str]
    nested: list[str]
    ignored: list[str]
    folders: list[str]  # with nothing in them that the index knew
    left_out: dict[str, str] = field(default_factory=dict)


class Unit:
    """The index of one tree."""

    def __init__(self, git: Git, folder: Path, index: Path, without: Path) -> None:
        """Keep ``folder`` by an index of ours; ``without``: a folder that is not looked at."""
        top = top_of(git, folder, index)
        self._git = git
        self._place = Place(folder, top, index)
        self._rules = rules_of(top)
        self._prefix = folder.relative_to(top).as_posix()
        self._without = _inside(without, folder)
        self._forced = forced(folder)
        self._modes_file = index.with_suffix(".modes")
        self._modes: dict[str, int] = self._read_modes()
        self._files: list[str] | None = None
        self._fresh: list[str] | None = None  # changed just before the last look; None: any may be
        self._tree = ""

    def take(self, until: float) -> Taken:
        """Read what changed; raises TooLarge, GitFailed, and Interrupted past its time."""
        try:
            return self._take(until)
        except Interrupted:
            raise
        except GitFailed:  # an index that a crash or a full disk spoiled is made anew, once
            self._forget()
            return self._take(until)

    def _take(self, until: float) -> Taken:
        found = self._look(until)
        if found.candidates:
            self._add(found, until)
        if self._files is None:
            self._files = _names(self._git.run("ls-files", "-z", "-c", place=self._place))
            self._tree = self._write_tree(until) if self._files else EMPTY_TREE
            if len(self._files) > FILES:
                raise TooLarge(f"it has more than {FILES:,} files")
        self._look_at_modes(found)
        # Git does not list a folder that has just lost its last file.
        names = folders_of(self._files) | folders_of(found.candidates)
        folders = self._folder_modes(names.union(found.folders, found.nested))
        odd = {f"{name}/": mode for name, mode in folders.items() if mode != FOLDER_MODE}
        modes = {**self._modes, **odd}
        return Taken(self._tree, found.nested, [*folders], found.ignored, modes, found.left_out)

    # Looking.

    def _look(self, until: float) -> _Found:
        others = ("ls-files", "-z", "-o", "--exclude-standard", *self._rules)
        dirty, other, ignored, folders = self._git.run_all(
            (
                ("diff-files", "-z", "--name-only", "--relative"),
                others,
                (*others, "-i", "--directory"),
                (*others, "--directory"),
            ),
            place=self._place,
            until=until,
        )
        names = [*_names(dirty), *_names(other)]
        first = set(self._forced) if self._files is None else set()
        nested = [name.rstrip("/") for name in names if name.endswith("/")]
        candidates = {name for name in names if not name.endswith("/")} | first
        found = _Found(
            sorted(name for name in candidates if self._is_looked_at(name)),
            [name for name in nested if self._is_looked_at(name)],
            [name for name in _by_rule(_names(ignored)) if name not in self._forced],
            [],
        )
        listed = [*_names(folders), *found.candidates]
        found.folders = list(self._walk(listed, found))
        return found

    def _walk(self, listed: Iterable[str], found: _Found) -> Iterator[str]:
        """Give the folders at and below some that the index does not know."""
        skipped = {*found.nested, *(name.rstrip("/") for name in found.ignored)}
        waiting = [
            name.rstrip("/") for name in listed if name.endswith("/") or self._is_folder(name)
        ]
        while waiting:
            name = waiting.pop()
            if name == ".":
                waiting += _folders_in(self._place.folder)
                continue
            if name in skipped or not self._is_looked_at(name):
                continue
            yield name
            waiting += [f"{name}/{one}" for one in _folders_in(self._place.folder / name)]

    def _is_folder(self, name: str) -> bool:
        there = self._place.folder / name
        return there.is_dir() and not there.is_symlink()

    def _is_looked_at(self, name: str) -> bool:
        return self._without is None or not f"{name}/".startswith(f"{self._without}/")

    # Taking in.

    def _add(self, found: _Found, until: float) -> None:
        self._files = None
        taken: list[str] = []
        dropped: list[str] = []
        size = 0
        for name in found.candidates:
            kept, length = self._examine(name, found)
            (taken if kept else dropped).append(name)
            size += length
            if size > NEW_BYTES or len(taken) > FILES:
                what = f"{NEW_BYTES >> 20:,} MiB" if size > NEW_BYTES else f"{FILES:,} files"
                raise TooLarge(f"it has more than {what} that were not kept yet")
        self._keep_modes()
        self._update(("--force-remove",), dropped, until)
        for left in reversed(range(RETRIES)):
            try:
                self._update(("--add", "--remove", "--replace"), taken, until)
                break
            except GitFailed as error:
                if not left:
                    raise
                taken.remove(self._unreadable(error, taken))
        found.left_out |= dict.fromkeys(set(found.candidates) - {*taken, *dropped}, "unreadable")

    def _examine(self, name: str, found: _Found) -> tuple[bool, int]:
        """Say whether a name is kept, and how much is read for it; note its mode."""
        path = self._place.folder / name
        seen = self._note_mode(name)
        if seen is None:
            return False, 0
        if stat.S_ISREG(seen.st_mode):
            why = _why_not(path, seen.st_size)
            if why:
                found.left_out[name] = why
            return not why, 0 if why else seen.st_size
        return stat.S_ISLNK(seen.st_mode) or stat.S_ISDIR(seen.st_mode), 0

    def _update(self, how: tuple[str, ...], names: list[str], until: float) -> None:
        if names:
            feed = b"\0".join(map(os.fsencode, names)) + b"\0"
            command = ("update-index", *how, "-z", "--stdin")
            self._git.run(*command, place=self._place, feed=feed, until=until)

    def _unreadable(self, error: GitFailed, taken: list[str]) -> str:
        named = _UNPROCESSED.search(str(error))
        if isinstance(error, Interrupted) or named is None:
            raise error
        name = os.path.relpath(self._place.top / named[1], self._place.folder)
        if name not in taken:
            raise error
        return name

    def _write_tree(self, until: float) -> str:
        part = () if self._prefix == "." else (f"--prefix={self._prefix}/",)
        return self._git.run("write-tree", *part, place=self._place, until=until).decode().strip()

    # Modes.

    def _look_at_modes(self, found: _Found) -> None:
        """Read the modes of files that changed so lately that git may not see a second change."""
        assert self._files is not None
        known = dict(self._modes)
        now = time.time()
        names = self._files if self._fresh is None else {*self._fresh, *found.candidates}
        seen = ((name, self._note_mode(name)) for name in names)
        self._fresh = [n for n, one in seen if one and one.st_ctime > now - FRESH_SECONDS]
        if known != self._modes:
            self._keep_modes()

    def _note_mode(self, name: str) -> os.stat_result | None:
        """Keep a file's mode where it is not the usual one; None where there is nothing."""
        self._modes.pop(name, None)
        try:
            seen = (self._place.folder / name).lstat()
        except OSError:
            return None
        if obstacle(self._place.folder, name) is not None:  # a link stands where a folder was
            return None
        if stat.S_ISREG(seen.st_mode):
            bits = stat.S_IMODE(seen.st_mode)
            if bits != (PROGRAM_MODE if bits & stat.S_IXUSR else FILE_MODE):
                self._modes[name] = bits
        return seen

    def _folder_modes(self, names: Iterable[str]) -> dict[str, int]:
        found = {}
        for name in sorted(names):
            try:
                mode = (self._place.folder / name).lstat().st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                found[name] = stat.S_IMODE(mode)
        return found

    def _read_modes(self) -> dict[str, int]:
        try:
            found = json.loads(self._modes_file.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _keep_modes(self) -> None:
        self._modes_file.write_text(json.dumps(self._modes))

    def _forget(self) -> None:
        for file in (self._place.index, self._modes_file, Path(f"{self._place.index}.lock")):
            file.unlink(missing_ok=True)
        self._modes, self._files, self._fresh, self._tree = {}, None, None, ""


def _why_not(path: Path, size: int) -> str:
    if size > FILE_BYTES:
        return "too_big"
    return "" if os.access(path, os.R_OK) else "unreadable"


def _names(listed: bytes) -> list[str]:
    return [os.fsdecode(name) for name in listed.split(b"\0") if name]


def _by_rule(ignored: list[str]) -> list[str]:
    """Drop the folders that are listed only because everything in them is ignored."""
    found: list[str] = []
    for name in sorted(ignored):
        if found and found[-1].endswith("/") and name.startswith(found[-1]):
            found.pop()
        found.append(name)
    return found


def _folders_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _inside(folder: Path, other: Path) -> str | None:
    return folder.relative_to(other).as_posix() if folder.is_relative_to(other) else None
