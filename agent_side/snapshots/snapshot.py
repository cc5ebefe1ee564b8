"""What a folder held at one moment, and how two moments differ; values without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
FILE_MODE, PROGRAM_MODE, FOLDER_MODE = 0o644, 0o755, 0o755  # others are kept one by one


class Entry(msgspec.Struct, frozen=True):
    """One name: a file's bytes and mode, a link's target, or a folder."""

    kind: Literal["file", "link", "folder"]
    mode: int = 0  # permission bits; 0: a link's
    blob: str = ""  # git's id of the bytes or of the target


class Change(msgspec.Struct, frozen=True):
    """One name that two moments show differently."""

    path: str
    before: Entry | None
    after: Entry | None
    added: int | None = None  # lines; null: not text, or not known
    removed: int | None = None

    @property
    def kind(self) -> str:
        """Whether it was created, removed or changed."""
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "changed"

    def reversed(self) -> Change:
        """Give the change that leads back."""
        return Change(self.path, self.after, self.before, self.removed, self.added)


class Snapshot(msgspec.Struct):
    """A folder at one moment. Paths are relative to it, with '/' between their parts."""

    trees: dict[str, str]  # per root of a repository in it ("": the folder): git's tree
    modes: dict[str, int]  # of files that are not 644 or 755, and of folders ("name/") not 755
    folders: list[str]
    ignored: list[str]  # what the ignore rules leave out; a folder ends with '/'
    left_out: dict[str, str]  # what else is not kept, and why: too_big, unreadable

    def leaves_out(self, path: str) -> bool:
        """Whether the path may have been there without being kept."""
        names = _and_folders(path)
        return not {*self.ignored, *self.left_out}.isdisjoint(names)

    def file_mode(self, path: str, *, is_program: bool) -> int:
        """Give a file's permission bits."""
        return self.modes.get(path, PROGRAM_MODE if is_program else FILE_MODE)

    def folder_mode(self, path: str) -> int:
        """Give a folder's permission bits."""
        return self.modes.get(f"{path}/", FOLDER_MODE)


def folders_of(paths: Iterable[str]) -> set[str]:
    """Give all folders on the way to some paths."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def as_json(value: Any) -> str:
    """Write a value; names that are no UTF-8 come back as they were."""
    return json.dumps(msgspec.to_builtins(value))


def shown(path: str) -> str:
    """Give a path as text that every reader takes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _and_folders(path: str) -> list[str]:
    parts = path.split("/")
    folders = ["/".join(parts[:n]) + "/" for n in range(1, len(parts))]
    return [path, f"{path}/", *folders]
