"""The note in a state folder that says where its relay listens, for the other commands."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from bridge.protocol.errors import StoreUnavailable
from bridge.settings import Settings


class Note(msgspec.Struct, frozen=True):
    """A relay process that runs."""

    pid: int
    url: str  # where people open it
    store: str  # the address of its store, without a password


class Running:
    """Writes, reads and removes the note of one state folder."""

    def __init__(self, state_dir: Path) -> None:
        """Use this state folder."""
        self._path = state_dir / "running.json"

    def write(self, url: str, store: str) -> None:
        """Note this process."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.write_bytes(msgspec.json.encode(Note(os.getpid(), url, store)))

    def clear(self) -> None:
        """Take this process's note away."""
        note = self.read()
        if note is not None and note.pid == os.getpid():
            self._path.unlink(missing_ok=True)

    def read(self) -> Note | None:
        """Give the relay that runs; None when none does."""
        try:
            note = msgspec.json.decode(self._path.read_bytes(), type=Note)
            os.kill(note.pid, 0)  # raises when that process is gone
        except (OSError, msgspec.DecodeError):
            return None
        return note


def running_store_url(settings: Settings) -> str:
    """Give the address of the store of the relay that runs; raises StoreUnavailable."""
    if settings.redis_url is not None:
        return settings.redis_url.get_secret_value()
    note = Running(settings.state_dir).read()
    if note is None:
        raise StoreUnavailable(
            f"no relay runs with its state in {settings.state_dir}; start it with chimera-relay "
            "serve, or set BRIDGE_STATE_DIR or BRIDGE_REDIS_URL as it has them"
        )
    return note.store
