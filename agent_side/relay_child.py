"""A relay of this machine, as a child process: started, watched, started again, ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_side.agents.child import Child, shown
from agent_side.uplink import Backoff

READY_SECONDS = 60.0  # a loaded machine, its first start
END_SECONDS = 8.0  # the relay itself takes up to five
STEADY_SECONDS = 30.0
LISTENING = b"relay listening on "
TAIL_LINES = 3

__all__ = ["RelayChild", "RelayDown", "relay_command"]


class RelayDown(Exception):
    """The relay does not start, or does not do what it is told; the message says why."""


def relay_command() -> list[str]:
    """Give the command of this installation's relay."""
    beside = Path(sys.executable).with_name("chimera-relay")
    return [str(beside)] if beside.is_file() else [sys.executable, "-m", "bridge.cli"]


class RelayChild:
    """One relay process at a time; a relay that dies is started again."""

    def __init__(self, environment: Mapping[str, str], say: Callable[[str], None]) -> None:
        """Keep its settings; nothing runs before ``start``."""
        self._environment = dict(environment)
        self._say = say
        self._child: Child | None = None
        self._listening = asyncio.Event()
        self._last: deque[str] = deque(maxlen=TAIL_LINES)

    async def start(self) -> None:
        """Start it and wait until it listens; raises RelayDown."""
        self._listening.clear()
        self._child = Child(self._line, lambda _: None, lambda _: None)
        await self._child.spawn((*relay_command(), "serve"), self._environment, Path.cwd())
        listening = asyncio.create_task(self._listening.wait())
        ended = asyncio.create_task(self._child.ended.wait())
        try:
            await asyncio.wait(
                (listening, ended),
                timeout=READY_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            listening.cancel()
            ended.cancel()
        if not self._listening.is_set():
            await self.stop()
            raise RelayDown(self._why())

    async def watch(self) -> None:
        """Start it again whenever it ends; runs until it is cancelled."""
        backoff, loop = Backoff(), asyncio.get_running_loop()
        while True:
            assert self._child is not None
            began = loop.time()
            await self._child.ended.wait()
            if loop.time() - began > STEADY_SECONDS:
                backoff.reset()
            self._say(f"the relay ended ({self._why()}); starting it again")
            await asyncio.sleep(backoff.next())
            with contextlib.suppress(RelayDown):
                await self.start()
                self._say("the relay runs again")

    async def stop(self) -> None:
        """End it in order, and for sure."""
        if self._child is None or not self._child.alive:
            return
        self._child.signal_group(signal.SIGTERM)  # its store has a group of its own
        if not await self._child.ends_within(END_SECONDS):
            self._child.signal_group(signal.SIGKILL)
            await self._child.ended.wait()

    async def ask(self, *arguments: str) -> str:
        """Run another command of the relay's, such as ``token``; raises RelayDown."""
        process = await asyncio.create_subprocess_exec(
            *relay_command(),
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode:
            said = err.decode("utf-8", "replace").strip().removeprefix("chimera-relay: ")
            raise RelayDown(said or f"chimera-relay {arguments[0]} ended with {process.returncode}")
        return out.decode().strip()

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._child.pid if self._child is not None and self._child.alive else None

    def _line(self, line: bytes) -> None:
        if line.startswith(LISTENING):
            self._listening.set()
        elif line.strip():
            self._last.append(shown(line))

    def _why(self) -> str:
        tail = list(self._child.tail) if self._child is not None else []
        last = next((line for line in reversed([*self._last, *tail]) if line), "")
        code = self._child.code if self._child is not None else None
        return last.removeprefix("chimera-relay: ") or f"exit code {code}"


def relay_environment(state: Path, host: str, port: int, **more: object) -> dict[str, str]:
    """Give the relay's settings on top of our environment; BRIDGE_* variables of ours hold."""
    own = {"host": host, "port": port, "state_dir": state, **more}
    settings = {f"BRIDGE_{name.upper()}": str(value) for name, value in own.items()}
    return {**os.environ, **settings, "PYTHONUNBUFFERED": "1"}
