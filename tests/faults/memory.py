"""The memory of a process: how far it rose above where it stood."""

from __future__ import annotations

from pathlib import Path

MIB = 1 << 20


class Memory:
    """Use it as ``with Memory(pid) as memory``; ``memory.rise`` is the peak above the beginning."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self.rise = 0

    def __enter__(self) -> Memory:
        (self._folder / "clear_refs").write_text("5")  # the peak counts from here on
        self._begun = self._kib("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.rise = (self._kib("VmHWM") - self._begun) * 1024

    def _kib(self, name: str) -> int:
        lines = (self._folder / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])
