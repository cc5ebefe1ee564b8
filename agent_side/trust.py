"""The folders in which the owner of this machine lets agents run: kept by name, for all connectors.

A folder is trusted with what lies in it, links resolved.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent_side.folder import write_safely
from bridge.protocol.errors import UntrustedWorkspace

FILE = "trusted.json"


class Trust:
    """What is trusted here; the file is read at each question, others may have changed it."""

    def __init__(self, state_dir: Path, named: Iterable[Path] = ()) -> None:
        """``named``: folders that the command line itself names, trusted while it runs."""
        self._path = state_dir / FILE
        self._named = [folder.resolve() for folder in named]

    @property
    def folders(self) -> list[Path]:
        """The folders that are kept, in the order they were trusted."""
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=list[str])
        except (OSError, msgspec.DecodeError):  # what cannot be read trusts nothing
            return []
        return [Path(folder) for folder in kept]

    def trusts(self, folder: Path) -> bool:
        """Whether agents may run in a folder."""
        real = folder.resolve()
        return any(real.is_relative_to(one) for one in (*self._named, *self.folders))

    def check(self, folder: Path, *, adds: bool = False) -> None:
        """Raise UntrustedWorkspace for a folder that is not trusted; ``adds``: trust it now."""
        if adds and folder.is_dir():
            self.add(folder)
        if not self.trusts(folder):
            raise UntrustedWorkspace(
                f"{folder} is not trusted: run `chimera-bridge trust {folder}`, "
                "or start this command with --trust"
            )

    def add(self, folder: Path) -> None:
        """Trust a folder from now on; raises OSError."""
        real = folder.resolve()
        if real not in self.folders:
            self._keep([*self.folders, real])

    def remove(self, folder: Path) -> bool:
        """Trust a folder no more; say whether it was kept."""
        left = [one for one in self.folders if one != folder.resolve()]
        was_kept = len(left) < len(self.folders)
        if was_kept:
            self._keep(left)
        return was_kept

    def _keep(self, folders: list[Path]) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_safely(self._path, [str(folder) for folder in folders])
