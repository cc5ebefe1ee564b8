"""All snapshots of one connector: taken of folders, kept per turn, dropped when old or too many.

One repository of ours holds the contents of all folders. What an undo needs is held by a ref per
turn; a turn that runs is on disk before its agent begins, so that a crash leaves a way back.
"""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from agent_side.snapshots.differences import between
from agent_side.snapshots.folder import Folder, hold
from agent_side.snapshots.git import Git
from agent_side.snapshots.snapshot import Change, Snapshot, as_json

KEPT_DAYS = 14  # a turn can be undone for so long
KEPT_TURNS = 1000
DAY = 86_400
GRACE = "1.hour.ago"  # what was just written may not be held by a ref yet

_TURN = re.compile(r"(turn|undo)-[0-9a-f]{16}")


class Begun(msgspec.Struct):
    """A turn that runs, as it is on disk."""

    turn: str
    session: str
    folder: str
    before: Snapshot


class Kept(msgspec.Struct):
    """A turn or an undo that can be undone."""

    turn: str
    session: str
    folder: str
    at: int  # Unix milliseconds
    changes: list[Change]
    protected: list[str] = []  # not to be removed: perhaps there before, without being kept
    undone_by: str = ""
    shared: bool = False  # another turn ran in the folder at the same time


class Store:
    """The snapshots in a folder of ours; its methods block, and may be called from threads."""

    def __init__(self, home: Path, without: Path) -> None:
        """Keep everything in ``home``; ``without``: a folder of which nothing is kept."""
        self.git = Git(home / "repository")
        self._home = home
        self._without = without.resolve()
        self._folders: dict[Path, Folder] = {}
        self._lock = threading.Lock()

    def open(self) -> None:
        """Make what is missing; raises GitMissing, GitFailed, OSError."""
        for name in ("turns", "running", "folders"):
            (self._home / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.git.open()

    def close(self) -> None:
        """End what runs."""
        self.git.close()

    # A turn.

    def take(self, folder: Path, seconds: float) -> Snapshot:
        """Read what a folder holds; raises TooLarge, GitFailed, OSError."""
        with self._lock:
            if folder not in self._folders:
                self._folders[folder] = Folder(
                    self.git, folder, self._home / "folders", self._without
                )
        return self._folders[folder].take(seconds)

    def begin(self, begun: Begun) -> None:
        """Have on disk what was there before a turn."""
        trees = enumerate(begun.before.trees.values())
        hold(self.git, {f"refs/running/{begun.turn}/{n}": tree for n, tree in trees})
        self._running(begun.turn).write_text(as_json(begun))

    def begun(self) -> list[Begun]:
        """Give the turns that an earlier process did not end."""
        found = (_read(path, Begun) for path in (self._home / "running").glob("*.json"))
        return [one for one in found if one is not None]

    def finish(self, begun: Begun, after: Snapshot, *, shared: bool) -> Kept:
        """Keep what an undo of a turn needs; raises GitFailed, OSError."""
        changes = between(self.git, begun.before, after, Path(begun.folder))
        protected = [
            c.path for c in changes if c.before is None and begun.before.leaves_out(c.path)
        ]
        kept = Kept(
            begun.turn, begun.session, begun.folder, _now(), changes, protected, shared=shared
        )
        self.keep(kept)
        self.drop(begun)
        return kept

    def drop(self, begun: Begun) -> None:
        """Forget that a turn runs."""
        refs = (f"refs/running/{begun.turn}/{n}" for n in range(len(begun.before.trees)))
        hold(self.git, dict.fromkeys(refs, ""))
        self._running(begun.turn).unlink(missing_ok=True)

    def keep(self, kept: Kept) -> None:
        """Hold the contents that a record names, and write it."""
        entries = {e for c in kept.changes for e in (c.before, c.after) if e and e.blob}
        blobs = sorted({entry.blob for entry in entries})
        lines = "".join(f"100644 blob {blob}\t{blob}\0" for blob in blobs)
        tree = self.git.run("mktree", "-z", "--missing", feed=lines.encode()).decode().strip()
        if blobs:
            hold(self.git, {f"refs/turns/{kept.turn}": tree})
        self.write(kept)

    def write(self, kept: Kept) -> None:
        """Write a record whose contents are held."""
        self._path(kept.turn).write_text(as_json(kept))

    def find(self, turn: str) -> Kept | None:
        """Give the record of a turn or an undo, if there is one."""
        return _read(self._path(turn), Kept) if _TURN.fullmatch(turn) else None

    # Tidying.

    def tidy(self, most_bytes: int) -> None:
        """Drop what is old, and the oldest while the store is larger than its limit."""
        records = sorted((self._home / "turns").glob("*.json"), key=_changed, reverse=True)
        old = time.time() - KEPT_DAYS * DAY
        keeping = [path for path in records[:KEPT_TURNS] if _changed(path) > old]
        self._forget([path for path in records if path not in keeping])
        self._forget_folders(old)
        self.git.run("gc", "--quiet", f"--prune={GRACE}")
        while keeping and self.size() > most_bytes:
            half = len(keeping) // 2
            self._forget(keeping[half:])
            keeping = keeping[:half]
            self.git.run("gc", "--quiet", f"--prune={GRACE}")

    def size(self) -> int:
        """Count the bytes of the contents."""
        objects = self.git.repository / "objects"
        return sum(path.stat().st_size for path in objects.rglob("*") if path.is_file())

    def _forget(self, records: list[Path]) -> None:
        refs = self.git.run("for-each-ref", "--format=%(refname)", "refs/turns").decode().split()
        gone = {f"refs/turns/{path.stem}" for path in records}
        hold(self.git, {ref: "" for ref in refs if ref in gone})
        for path in records:
            path.unlink(missing_ok=True)

    def _forget_folders(self, old: float) -> None:
        for home in (self._home / "folders").iterdir():
            if home.name in {folder.key for folder in self._folders.values()}:
                continue
            if _changed(home / "used") < old:
                prefix = f"refs/folders/{home.name}"
                refs = self.git.run("for-each-ref", "--format=%(refname)", prefix).decode()
                hold(self.git, dict.fromkeys(refs.split(), ""))
                for file in home.iterdir():
                    file.unlink()
                home.rmdir()

    def _path(self, turn: str) -> Path:
        return self._home / "turns" / f"{turn}.json"

    def _running(self, turn: str) -> Path:
        return self._home / "running" / f"{turn}.json"


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(json.loads(path.read_text()), kind)
    except (OSError, ValueError, msgspec.ValidationError):
        return None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _now() -> int:
    return time.time_ns() // 1_000_000
