"""A network namespace joined to this one by a pair of interfaces; its end can be taken down."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from typing import Self

NEEDS = "needs root, for a network namespace"


def can_make() -> bool:
    return os.geteuid() == 0 and shutil.which("ip") is not None


class Namespace:
    """Use it as ``with Namespace(n) as there``; processes in it reach ``outside``."""

    def __init__(self, number: int) -> None:
        self.name = f"cbf{os.getpid()}-{number}"
        place = os.getpid() % 200 + 20
        self.outside, self.inside = f"10.{place}.{number}.1", f"10.{place}.{number}.2"
        self._near, self._far = f"cbn{os.getpid()}{number}", f"cbf{os.getpid()}{number}"

    def __enter__(self) -> Self:
        ip("netns", "add", self.name)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far)
        ip("link", "set", self._far, "netns", self.name)
        ip("addr", "add", f"{self.outside}/30", "dev", self._near)
        ip("link", "set", self._near, "up")
        self._within("addr", "add", f"{self.inside}/30", "dev", self._far)
        self._within("link", "set", self._far, "up")
        self._within("link", "set", "lo", "up")
        return self

    def __exit__(self, *_: object) -> None:
        ip("netns", "del", self.name)  # its interface goes with it, and so does the other end

    def command(self, command: Sequence[str]) -> list[str]:
        """Have a command run in it."""
        return ["ip", "netns", "exec", self.name, *command]

    def cut(self) -> None:
        """Take its end down: nothing arrives, and nobody is told."""
        self._within("link", "set", self._far, "down")

    def mend(self) -> None:
        self._within("link", "set", self._far, "up")

    def _within(self, *words: str) -> None:
        ip("-n", self.name, *words)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
