"""Writes files, links, modes and folders as they were; each as one step, none through a link."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from agent_side.snapshots.git import Git
from agent_side.snapshots.look import obstacle
from agent_side.snapshots.snapshot import FOLDER_MODE, Change, Entry

BATCH_BYTES = 32 << 20  # of contents read at once


class Writing:
    """The steps in one folder; ``failed`` names what could not be done, and why."""

    def __init__(self, git: Git, folder: Path) -> None:
        """Write in ``folder`` what ``git`` holds."""
        self.failed: dict[str, str] = {}
        self._git = git
        self._folder = folder

    def remove(self, steps: Iterable[Change]) -> None:
        """Remove files and links."""
        for step in steps:
            if step.before is not None and step.before.kind != "folder":
                self._try(step.path, partial(self._unlink, self._folder / step.path))

    def prune(self, folders: Iterable[str]) -> None:
        """Remove those of the folders in which nothing is left, the deepest first."""
        for name in sorted(folders, key=lambda name: -name.count("/")):
            if obstacle(self._folder, f"{name}/x") is None:
                with contextlib.suppress(OSError), self._writable(self._folder / name):
                    (self._folder / name).rmdir()

    def write(self, steps: list[Change], folder_modes: dict[str, int]) -> None:
        """Write files and links, with the folders on the way to them."""
        wanted = {step.after.blob for step in steps if step.after and not _only_mode(step)}
        sizes = sizes_of(self._git, wanted)
        waiting: list[Change] = []
        size = 0
        for step in steps:
            waiting.append(step)
            size += sizes.get(step.after.blob if step.after else "", 0)
            if size > BATCH_BYTES:
                self._write(waiting, folder_modes)
                waiting, size = [], 0
        self._write(waiting, folder_modes)

    def set_folders(self, modes: dict[str, int]) -> None:
        """Make folders that are missing, then give all their modes."""
        for name in sorted(modes):
            self._try(name, partial(self._make, name, modes))
        for name in sorted(modes, reverse=True):
            self._try(name, partial((self._folder / name).chmod, modes[name]))

    # Inside.

    def _unlink(self, there: Path) -> None:
        with self._writable(there):
            there.unlink()

    def _write(self, steps: list[Change], folder_modes: dict[str, int]) -> None:
        blobs = {step.after.blob for step in steps if step.after and not _only_mode(step)}
        contents = contents_of(self._git, blobs)
        for step in steps:
            self._try(step.path, partial(self._put, step, contents, folder_modes))

    def _put(self, step: Change, contents: dict[str, bytes], modes: dict[str, int]) -> None:
        entry, there = step.after, self._folder / step.path
        assert entry is not None
        if _only_mode(step):
            there.chmod(entry.mode)
            return
        self._make(step.path.rpartition("/")[0], modes)
        with contextlib.suppress(OSError):
            there.rmdir()  # an empty folder in its place
        with self._writable(there):
            _place(there, entry, contents[entry.blob])

    def _make(self, name: str, modes: dict[str, int]) -> None:
        parts = name.split("/") if name else []
        for n in range(1, len(parts) + 1):
            part = "/".join(parts[:n])
            there = self._folder / part
            if there.is_symlink() or (there.exists() and not there.is_dir()):
                raise NotADirectoryError(f"{part} is no folder now")
            if not there.exists():
                with self._writable(there):
                    there.mkdir()
                there.chmod(modes.get(part, FOLDER_MODE) | stat.S_IRWXU)

    @contextlib.contextmanager
    def _writable(self, there: Path) -> Iterator[None]:
        """Allow writing in the folder of a path while it is needed."""
        parent = there.parent
        mode = stat.S_IMODE(parent.lstat().st_mode)
        if mode & stat.S_IWUSR and mode & stat.S_IXUSR:
            yield
            return
        parent.chmod(mode | stat.S_IRWXU)
        try:
            yield
        finally:
            parent.chmod(mode)

    def _try(self, path: str, step: Callable[[], object]) -> None:
        part = obstacle(self._folder, path)
        try:
            if part is not None:
                raise NotADirectoryError(f"{part} is no folder now")
            step()
        except OSError as error:
            self.failed[path] = error.strerror or str(error)


def sizes_of(git: Git, blobs: set[str]) -> dict[str, int]:
    """Give the size of each blob that the store has."""
    if not blobs:
        return {}
    told = git.run("cat-file", "--batch-check", feed="\n".join(blobs).encode() + b"\n")
    fields = [line.split() for line in told.decode().splitlines()]
    return {one[0]: int(one[2]) for one in fields if len(one) == 3}  # noqa: PLR2004


def contents_of(git: Git, blobs: set[str]) -> dict[str, bytes]:
    """Give the bytes of blobs that the store has."""
    if not blobs:
        return {}
    told = git.run("cat-file", "--batch", feed="\n".join(blobs).encode() + b"\n")
    found, at = {}, 0
    while at < len(told):
        end = told.index(b"\n", at)
        id_, _, size = told[at:end].decode().split(" ")
        found[id_] = told[end + 1 : end + 1 + int(size)]
        at = end + 2 + int(size)
    return found


def _only_mode(step: Change) -> bool:
    before, after = step.before, step.after
    return bool(before and after and (before.kind, before.blob) == (after.kind, after.blob))


def _place(there: Path, entry: Entry, content: bytes) -> None:
    """Put a file or a link in its place as one step."""
    fresh = there.with_name(f".undo-{secrets.token_hex(8)}")
    try:
        if entry.kind == "link":
            fresh.symlink_to(os.fsdecode(content))
        else:
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(content)
            fresh.chmod(entry.mode)
        fresh.replace(there)
    finally:
        fresh.unlink(missing_ok=True)
