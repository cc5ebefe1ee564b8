"""The folder in which one connector keeps what must outlive its process."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PRIVATE = 0o700  # the folder: transcripts are nobody else's business


class AlreadyRunning(Exception):
    """Another process has this state folder."""


class _Identity(msgspec.Struct):
    agent: str  # the agent's id, random
    epoch: int  # of the last process
    name: str


class StateFolder:
    """One connector's folder: locked while the process lives; gives its agent id and its epoch."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is touched before ``open``."""
        self.path = path
        self.agent_id = ""
        self.epoch = 0
        self._lock: IO[str] | None = None

    @property
    def sessions(self) -> Path:
        """Where the sessions' journals are."""
        return self.path / "sessions"

    @property
    def snapshots(self) -> Path:
        """Where the snapshots of turns are."""
        return self.path / "snapshots"

    @property
    def mail(self) -> Path:
        """The file of mail."""
        return self.path / "mail.jsonl"

    def open(self) -> None:
        """Lock the folder and begin an epoch; raises AlreadyRunning or OSError."""
        self.path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        self.sessions.mkdir(mode=PRIVATE, exist_ok=True)
        self._take_lock()
        known = self._read()
        self.agent_id = known.agent if known else f"a{secrets.token_hex(8)}"
        self.begin_epoch((known.epoch if known else 0) + 1)

    def begin_epoch(self, at_least: int) -> None:
        """Mint an epoch and have it on disk before it is used."""
        self.epoch = max(at_least, self.epoch + 1, time.time_ns() // 1_000_000)
        write_safely(
            self.path / "connector.json", _Identity(self.agent_id, self.epoch, self.path.name)
        )

    def is_held(self) -> bool:
        """Whether another process has the folder now."""
        if not (self.path / "lock").exists():
            return False
        try:
            self._take_lock()
        except AlreadyRunning:
            return True
        self.close()
        return False

    def close(self) -> None:
        """Let the folder go."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        lock = (self.path / "lock").open("a")
        try:
            if sys.platform == "win32":
                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise AlreadyRunning(
                f"{self.path} is in use by another connector: stop it, or give this one a --name"
            ) from None
        self._lock = lock

    def _read(self) -> _Identity | None:
        try:
            return msgspec.json.decode((self.path / "connector.json").read_bytes(), type=_Identity)
        except (FileNotFoundError, msgspec.DecodeError):
            return None


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file meanwhile: what was taken out stays out."""
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("a") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def write_safely(path: Path, value: Any) -> None:
    """Replace a file's content as one step that outlives a power cut."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(msgspec.json.encode(value))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Have a folder's list of names on disk (Windows does that by itself)."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
