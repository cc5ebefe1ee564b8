"""A session's folder with the repositories nested in it, as snapshots see it."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

from agent_side.snapshots.git import Git
from agent_side.snapshots.snapshot import EMPTY_TREE, Snapshot
from agent_side.snapshots.unit import Taken, TooLarge, Unit

NESTED = 100  # repositories in one folder


class Folder:
    """The indexes of one folder; one snapshot at a time."""

    def __init__(self, git: Git, path: Path, home: Path, without: Path) -> None:
        """Keep ``path`` by indexes in ``home``; ``without``: a folder that is not looked at."""
        self.path = path
        self.key = hashlib.sha256(str(path).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self._git = git
        self._home = home / self.key
        self._without = without
        self._units: dict[str, Unit] = {}
        self._held: dict[str, str] = {}  # roots to the trees that a ref of ours holds
        self._lock = threading.Lock()

    def take(self, seconds: float) -> Snapshot:
        """Read what the folder holds now; raises TooLarge, GitFailed, OSError."""
        if self.path in {Path("/"), Path.home()}:
            raise TooLarge("it is the whole disk, or a home folder")
        until = time.monotonic() + seconds
        with self._lock:
            self._home.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self._home / "used").touch()
            snapshot = Snapshot({}, {}, [], [], {})
            waiting = [""]
            while waiting:
                root = waiting.pop()
                taken = self._unit(root).take(until)
                waiting += [f"{root}/{name}" if root else name for name in taken.nested]
                if len(snapshot.trees) > NESTED:
                    raise TooLarge(f"it has more than {NESTED} repositories in it")
                _join(snapshot, root, taken)
            self._hold(snapshot)
            return snapshot

    def _unit(self, root: str) -> Unit:
        if root not in self._units:
            index = self._home / (f"{_key(root)}.index" if root else "index")
            Path(f"{index}.lock").unlink(missing_ok=True)  # of a process that was killed
            self._units[root] = Unit(self._git, self.path / root, index, self._without)
        return self._units[root]

    def _hold(self, snapshot: Snapshot) -> None:
        """Keep git from dropping what the indexes name."""
        new = {
            root: tree
            for root, tree in snapshot.trees.items()
            if tree not in {EMPTY_TREE, self._held.get(root)}
        }
        hold(self._git, {f"refs/folders/{self.key}/{_key(root)}": new[root] for root in new})
        self._held |= new


def hold(git: Git, refs: dict[str, str]) -> None:
    """Point refs of ours at what must stay; an empty id drops the ref."""
    lines = [f"update {ref} {id_}" if id_ else f"delete {ref}" for ref, id_ in refs.items()]
    if lines:
        git.run("update-ref", "--stdin", feed="\n".join(lines).encode() + b"\n")


def _join(snapshot: Snapshot, root: str, taken: Taken) -> None:
    prefix = f"{root}/" if root else ""
    snapshot.trees[root] = taken.tree
    snapshot.modes |= {prefix + name: mode for name, mode in taken.modes.items()}
    snapshot.folders += [prefix + name for name in taken.folders]
    snapshot.ignored += [prefix + name for name in taken.ignored]
    snapshot.left_out |= {prefix + name: why for name, why in taken.left_out.items()}


def _key(root: str) -> str:
    return hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:16]
