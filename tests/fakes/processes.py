"""A relay as a process of its own, which a test may stop, kill or start again."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Self

from bridge.protocol.acp import Role
from bridge.tokens import Tokens

LISTENING = re.compile(rb"relay listening on http://127\.0\.0\.1:(\d+)\n")


class RelayProcess:
    """``chimera-relay serve`` on a free port; several may share a Redis and a folder of keys."""

    def __init__(self, folder: Path, redis_url: str | None, *arguments: str, port: int = 0) -> None:
        self.folder = folder
        self.port = port
        self._arguments = arguments
        self._redis_url = redis_url
        self._process: Process | None = None
        self.settings: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            await self.process.wait()

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    @property
    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    async def start(self) -> None:
        """Start it, on the port it had before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BRIDGE_")}
        own = {"BRIDGE_STATE_DIR": str(self.folder / "state"), **self.settings}
        own |= {"BRIDGE_KEYS_DIR": str(self.folder.parent / "keys")}
        if self._redis_url is not None:
            own["BRIDGE_REDIS_URL"] = self._redis_url
        with (self.folder / "stderr").open("ab") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "bridge.cli", "serve", "--port", str(self.port)),
                *self._arguments,
                env={**clean, **own},
                stdout=PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        found = LISTENING.fullmatch(line)
        assert found, (line, self.errors)
        self.port = int(found[1])

    async def ends(self) -> float:
        """End it as a supervisor does; gives the seconds that it took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.process.send_signal(signal.SIGTERM)
        assert await self.process.wait() == 0, self.errors
        return loop.time() - began

    def token(self, role=Role.ADMIN, *, tenant="acme", subject="alice", kind="person") -> str:
        tokens = Tokens(self.folder.parent / "keys")
        return tokens.issue(kind, subject, tenant, role)
