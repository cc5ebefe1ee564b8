"""Random folders, and random turns that change them as agents do, the same for the same seed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TypeAlias

State: TypeAlias = dict[str, tuple[str, int, str]]  # a path's kind, mode, and content

ODD = (
    "with space",
    "ünïcode",
    "new\nline",
    "-dash",
    "'quote\"",
    "back\\slash",
    "git~1",
    "*",
    "é\u0301",
)
NOT_UTF8 = os.fsdecode(b"latin-\xff")
MODES = (0o644, 0o644, 0o755, 0o600, 0o640, 0o664)
FOLDER_MODES = (0o755, 0o755, 0o700, 0o775)
IGNORED = "build"  # what the folder's rules leave out


class Tree:
    """A folder that is filled and changed at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        """Make the folder."""
        self.folder: Path = folder
        self._random = random.Random(seed)
        self._names = 0
        self._folders = [folder]  # those that were made here; some are gone
        self._swapped: set[Path] = set()  # folders where files were; nothing unkept goes in there
        folder.mkdir()

    def fill(self, files: int, *, repository: bool, nested: int = 2) -> None:
        """Put so many files in it, in folders, some with repositories of their own."""
        if repository:
            _git(self.folder, "init", "--quiet")
        (self.folder / ".gitignore").write_text(f"{IGNORED}/\n*.log\n")
        for _ in range(max(2, files // 12)):
            self._new_folder()
        for _ in range(files):
            self._new_file(self._random.choice(self._folders))
        for _ in range(nested):
            self._new_repository()
        (self.folder / IGNORED).mkdir()
        (self.folder / IGNORED / "kept").write_text("not looked at")

    def turn(self, steps: int) -> None:
        """Change it as a turn might."""
        doings = (
            *(self._new_file_anywhere, self._edit, self._append, self._remove) * 2,
            *(self._rename, self._change_mode, self._new_link, self._remove_folder),
            *(self._move_folder, self._swap_kind, self._new_folder, self._ignored_file),
            *(self._new_repository, self._link_for_folder, self._unignore),
        )
        for _ in range(steps):
            self._random.choice(doings)()

    def edit(self, files: int) -> None:
        """Change it as a plain turn does: edits, new files, files that go."""
        for doing in (self._edit, self._new_file_anywhere, self._remove):
            for _ in range(files):
                doing()

    # What a turn does.

    def _new_file_anywhere(self) -> None:
        self._new_file(self._some_folder())

    def _edit(self) -> None:
        if file := self._some_file():
            file.write_bytes(self._content())

    def _append(self) -> None:
        if file := self._some_file():
            with file.open("ab") as opened:
                opened.write(b"one line more\r\n")

    def _remove(self) -> None:
        if file := self._some_file():
            file.unlink()

    def _rename(self) -> None:
        if file := self._some_file():
            file.rename(self._some_folder() / self._name())

    def _change_mode(self) -> None:
        if file := self._some_file():
            file.chmod(self._random.choice(MODES))
        self._some_folder().chmod(self._random.choice(FOLDER_MODES))

    def _new_link(self) -> None:
        target = self._random.choice(("nowhere", "../..", "/etc/hostname", NOT_UTF8))
        (self._some_folder() / self._name()).symlink_to(target)

    def _new_folder(self) -> None:
        made = self._some_folder() / self._name()
        made.mkdir()
        self._folders.append(made)
        made.chmod(self._random.choice(FOLDER_MODES))

    def _remove_folder(self) -> None:
        if (folder := self._some_folder()) != self.folder:
            _remove_all_but_repositories(folder)

    def _move_folder(self) -> None:
        folder, to = self._some_folder(), self._some_folder()
        if folder != self.folder and not to.is_relative_to(folder) and not _has_repository(folder):
            folder.rename(moved := to / self._name())
            self._swapped.add(moved)
            self._folders.append(moved)

    def _swap_kind(self) -> None:
        """Put a folder where a file was, or a file where a folder was."""
        if self._random.random() < 0.5 and (file := self._some_file()):
            file.unlink()
            file.mkdir()
            self._swapped.add(file)
            self._folders.append(file)
            self._new_file(file)
        elif (folder := self._some_folder()) != self.folder and not _has_repository(folder):
            shutil.rmtree(folder)
            folder.write_bytes(self._content())

    def _link_for_folder(self) -> None:
        """Put a link to a place outside where a folder was."""
        if (folder := self._some_folder()) != self.folder and not _has_repository(folder):
            shutil.rmtree(folder)
            folder.symlink_to(self.folder.parent)

    def _ignored_file(self) -> None:
        if self._swapped.isdisjoint({(folder := self._some_folder()), *folder.parents}):
            (folder / f"{self._name()}.log").write_text("not looked at")

    def _unignore(self) -> None:
        (self.folder / ".gitignore").write_text("" if self._random.random() < 0.5 else "*.log\n")

    def _new_repository(self) -> None:
        if self._swapped.isdisjoint({(folder := self._some_folder()), *folder.parents}):
            made = folder / self._name()
            made.mkdir()
            self._folders.append(made)
            _git(made, "init", "--quiet")
            self._new_file(made)

    # Choosing.

    def _new_file(self, folder: Path) -> None:
        file = folder / self._name()
        file.write_bytes(self._content())
        file.chmod(self._random.choice(MODES))

    def _content(self) -> bytes:
        kind = self._random.randrange(4)
        if kind == 0:
            return self._random.randbytes(self._random.choice((0, 1, 100, 20_000)))
        end = b"\r\n" if kind == 1 else b"\n"
        return end.join(b"line %d $Id$" % n for n in range(self._random.randrange(40)))

    def _name(self) -> str:
        self._names += 1
        odd = self._random.choice((*ODD, NOT_UTF8)) if self._random.random() < 0.2 else "name"
        return f"{odd}{self._names}"

    def _some_folder(self) -> Path:
        """Choose one of the folders that are still there."""
        while True:
            chosen = self._random.choice(self._folders)
            if _is_folder(chosen) and not any(one.is_symlink() for one in self._way(chosen)):
                return chosen
            self._folders.remove(chosen)

    def _way(self, folder: Path) -> list[Path]:
        """Give the folders between the top and one of them."""
        return [one for one in folder.parents if one.is_relative_to(self.folder)]

    def _some_file(self) -> Path | None:
        for _ in range(10):
            files = sorted(one for one in self._some_folder().iterdir() if _is_file(one))
            if files:
                return self._random.choice(files)
        return None


def state_of(folder: Path) -> State:
    """Give everything in a folder that a snapshot promises to keep.

    A folder is hollow when it stands only because of what is not kept: a repository's own files,
    and what the rules leave out.
    """
    kept: State = {}
    _add_states(folder, "", kept)
    return kept


def differences(one: State, other: State) -> list[str]:
    """Give the paths that two states show differently; a hollow folder may be gone or empty."""
    alike = {None, "folder", "hollow"}
    return [
        path
        for path in sorted({*one, *other})
        if (found := (one.get(path), other.get(path)))[0] != found[1]
        and not ("hollow" in (kinds := {f and f[0] for f in found}) and kinds <= alike)
    ]


def _add_states(folder: Path, prefix: str, kept: State) -> bool:
    """Add what is kept of a folder; say whether it is hollow."""
    names = sorted(folder.iterdir())
    is_hollow = bool(names)
    for one in names:
        path = prefix + one.name
        if one.name == ".git" or is_ignored(path):
            continue
        seen = one.lstat()
        if one.is_symlink():
            kept[path] = ("link", 0, str(one.readlink()))
        elif not one.is_dir():
            digest = hashlib.sha256(one.read_bytes()).hexdigest()
            kept[path] = ("file", stat.S_IMODE(seen.st_mode), digest)
        elif _add_states(one, f"{path}/", kept):
            kept[path] = ("hollow", 0, "")
            continue
        else:
            kept[path] = ("folder", stat.S_IMODE(seen.st_mode), "")
        is_hollow = False
    return is_hollow


def is_ignored(path: str) -> bool:
    """Whether the folder's first rules leave a path out."""
    return path.endswith(".log") or IGNORED in path.split("/")


def _is_folder(one: Path) -> bool:
    return one.is_dir() and not one.is_symlink() and one.name not in {".git", IGNORED}


def _is_file(one: Path) -> bool:
    return one.is_file() and not one.is_symlink() and one.name != ".gitignore"


def _has_repository(folder: Path) -> bool:
    return any(".git" in names for _, names, _ in os.walk(folder))


def _remove_all_but_repositories(folder: Path) -> None:
    for at, names, files in os.walk(folder, topdown=False):
        if "/.git" in at:
            continue
        for name in files:
            (Path(at) / name).unlink()
        for name in names:
            there = Path(at) / name
            if there.is_symlink():
                there.unlink()
            elif not any(there.iterdir()):
                there.rmdir()


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)
