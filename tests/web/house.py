"""A relay, a connector and the demo agent, each a process of its own, as `./dev up` starts them."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import socket
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any, Self

from fakes.peers import UplinkPeer
from fakes.site import Address

BIN = Path(sys.executable).parent
READY_WITHIN_SECONDS = 20


class Pairing:
    """The command that pairs a device, and the person who reads and types there."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def said(self, pattern: str) -> str:
        """Read on to a line that matches, and give its first group."""
        assert self.process.stdout is not None
        async with asyncio.timeout(READY_WITHIN_SECONDS):
            while line := (await self.process.stdout.readline()).decode():
                self.lines.append(line)
                if found := re.search(pattern, line):
                    return found[1]
        raise AssertionError(f"it ended without {pattern}: {self.lines}")

    async def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n".encode())
        await self.process.stdin.drain()

    async def end(self) -> int:
        """Wait for its end."""
        async with asyncio.timeout(READY_WITHIN_SECONDS):
            return await self.process.wait()


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

    async def uplink(self, agent: str) -> UplinkPeer:
        """Give a connector that says what the test says, to be entered."""
        token = await self.say("chimera-relay", "token", "--kind", "agent", "--subject", "box")
        return UplinkPeer(Address(self.url, token), agent)

    async def pair(self) -> Pairing:
        """Run ``chimera-bridge pair`` as somebody at the machine, once it is attached."""
        log = self.folder / "connector.log"
        async with asyncio.timeout(READY_WITHIN_SECONDS):
            while "attached to" not in log.read_text():  # noqa: ASYNC110 (nothing tells of it)
                await asyncio.sleep(0.05)
        process = await asyncio.create_subprocess_exec(
            BIN / "chimera-bridge", "pair", env=self._env(), stdin=PIPE, stdout=PIPE
        )
        return Pairing(process)

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
