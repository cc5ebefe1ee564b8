"""A relay, a connector and the demo agent, each a process of its own, as `./dev up` starts them."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any, Self

BIN = Path(sys.executable).parent
READY_WITHIN_SECONDS = 20


class House:
    """What a test holds: the address, the agent's folder, and ways to break things."""

    def __init__(self) -> None:
        # Unix sockets lie in it, and their paths may not be long.
        self.folder = Path(tempfile.mkdtemp(prefix="cb-web-"))
        self.work = self.folder / "work"
        self.work.mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._relay: asyncio.subprocess.Process | None = None
        self._connector: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        await self.start_relay()
        await self.start_connector()
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in (self._connector, self._relay):
            if process and process.returncode is None:
                process.terminate()
                await process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def start_relay(self) -> None:
        command = ["chimera-relay", "serve", "--port", str(self.port)]
        self._relay = await self._start(*command, log="relay.log", stdout=PIPE)
        assert self._relay.stdout is not None
        async with asyncio.timeout(READY_WITHIN_SECONDS):
            line = await self._relay.stdout.readline()
        assert b"listening" in line, (self.folder / "relay.log").read_text()

    async def kill_relay(self) -> None:
        """End the relay as a crash does."""
        assert self._relay is not None
        self._relay.kill()
        await self._relay.wait()

    async def start_connector(self) -> None:
        token = await self.say("chimera-relay", "token", "--kind", "agent", "--subject", "test")
        relay = f"ws://127.0.0.1:{self.port}"
        place = ["--name", "demo", "--cwd", str(self.work), "--agent", "demo"]
        self._connector = await self._start(
            *("chimera-bridge", "connect", "--relay", relay, *place),
            log="connector.log",
            FERRET_BRIDGE_TOKEN=token,
        )

    async def stop_connector(self) -> None:
        """End the connector as its owner does."""
        assert self._connector is not None
        self._connector.terminate()
        await self._connector.wait()

    async def link(self, *, subject: str = "alice", role: str = "admin") -> str:
        """Give a link that signs one browser in, once."""
        said = await self.say("chimera-relay", "link", "--subject", subject, "--role", role)
        return next(word for word in said.split() if "#signin=" in word)

    async def say(self, name: str, *arguments: str) -> str:
        """Run a command to its end and give what it printed."""
        process = await asyncio.create_subprocess_exec(
            BIN / name, *arguments, env=self._env(), stdout=PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, f"{name} {arguments} failed"
        return output.decode().strip()

    async def _start(self, name: str, *arguments: str, log: str, stdout: Any = None, **env: str):
        with (self.folder / log).open("ab") as output:
            return await asyncio.create_subprocess_exec(
                BIN / name,
                *arguments,
                env=self._env() | env,
                stdin=DEVNULL,
                stdout=stdout or output,
                stderr=output,
            )

    def _env(self) -> dict[str, str]:
        return {
            **os.environ,
            "BRIDGE_STATE_DIR": str(self.folder / "relay"),
            "CHIMERA_BRIDGE_STATE_DIR": str(self.folder / "connector"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
