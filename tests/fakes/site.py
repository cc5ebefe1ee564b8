"""A relay and connectors, each a process of its own, as people run them; a test may kill them."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from fakes.agent import FakeAgent
from fakes.dashboard import FakeDashboard
from fakes.editor import FakeEditor
from fakes.peers import UplinkPeer

RELAY = (sys.executable, "-m", "bridge.cli")
BRIDGE = (sys.executable, "-m", "agent_side.cli")
LISTENING = "relay listening on "
ATTACHED = "attached to"
WAIT_SECONDS = 40
LINE_LIMIT = 1 << 20


class Program:
    """A process whose lines are kept."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self._said = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str], env: dict[str, str]) -> Self:
        return cls(
            await asyncio.create_subprocess_exec(
                *command, env=env, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, limit=LINE_LIMIT
            )
        )

    async def said(self, words: str, *, after: int = 0) -> str:
        """Wait for the first line with these words."""

        def found() -> str | None:
            return next((line for line in self.lines[after:] if words in line), None)

        async with asyncio.timeout(WAIT_SECONDS), self._said:
            await self._said.wait_for(lambda: found() or self._reading.done())
        line = found()
        assert line, f"it ended without {words!r}: {self.lines}"
        return line

    async def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()
        await self._reading
        await self.process.wait()

    async def end(self) -> int:
        """End it as its owner does, and give its exit code; it must not have failed inside."""
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(WAIT_SECONDS):
            await self._reading
            code = await self.process.wait()
        assert not [line for line in self.lines if "Traceback" in line], "\n".join(self.lines)
        return code

    async def _read(self) -> None:
        while line := await self.process.stdout.readline():
            self.lines.append(line.decode().rstrip())
            async with self._said:
                self._said.notify_all()
        asyncio.get_running_loop().call_soon(asyncio.create_task, self._wake())

    async def _wake(self) -> None:
        async with self._said:
            self._said.notify_all()


class Address:
    """A relay as peers know it: its port, and the token that is theirs."""

    def __init__(self, url: str, token: str) -> None:
        self.port, self._token = int(url.rpartition(":")[2]), token

    def token(self, *_: Any, **__: Any) -> str:
        return self._token


class Site:
    """A relay; connectors attach to it, dashboards come to it."""

    def __init__(self, folder: Path, *, redis_url: str | None = None, keys: Path | None = None):
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir(parents=True)
        self.url = ""
        self.relay: Program | None = None
        self.programs: list[Program] = []
        self._tokens: dict[tuple[str, ...], str] = {}
        quiet = {k: v for k, v in os.environ.items() if not k.startswith(("BRIDGE_", "CHIMERA_"))}
        self.env = {
            **quiet,
            "BRIDGE_STATE_DIR": str(keys or folder / "relay"),
            "CHIMERA_BRIDGE_STATE_DIR": str(folder / "connector"),
            "CHIMERA_DEMO_PACE_MS": "0",
            "HOME": str(folder / "home"),
        }
        if redis_url is not None:
            self.env["BRIDGE_REDIS_URL"] = redis_url

    async def __aenter__(self) -> Self:
        await self.start_relay()
        return self

    async def __aexit__(self, *_: object) -> None:
        for program in reversed(self.programs):
            await program.end()
        if self.relay is not None:
            await self.relay.end()

    # The relay.

    async def start_relay(self) -> None:
        """Start it: on a free port at first, then on the same one."""
        port = self.url.rpartition(":")[2] or "0"
        self.relay = await Program.start([*RELAY, "serve", "--port", port], self.env)
        self.url = (await self.relay.said(LISTENING)).split(LISTENING)[1].strip()

    async def kill_relay(self) -> None:
        assert self.relay is not None
        await self.relay.kill()

    @property
    def acp(self) -> str:
        """The address of dashboards."""
        return self.url.replace("http", "ws", 1) + "/acp"

    async def token(
        self,
        kind: str = "person",
        subject: str = "alice",
        *,
        role: str = "operator",
        tenant: str = "default",
        ttl: str = "1h",
        holder: str = "",
    ) -> str:
        """Give a token from the relay's command line, the same one for the same words.

        An agent's is bound to the key of who uses it first: another holder has another.
        """
        words = ["--kind", kind, "--subject", subject, "--tenant", tenant, "--ttl", ttl]
        if kind == "person":
            words += ["--role", role]
        if (known := self._tokens.get((*words, holder))) is None:
            command = [*RELAY, "token", *words]
            process = await asyncio.create_subprocess_exec(*command, env=self.env, stdout=PIPE)
            output, _ = await process.communicate()
            known = self._tokens[*words, holder] = output.decode().strip()
        return known

    async def dashboard(
        self, subject: str = "alice", *, role: str = "operator", tenant: str = "default"
    ) -> FakeDashboard:
        """Give a dashboard of somebody, to be entered."""
        token = await self.token(subject=subject, role=role, tenant=tenant)
        return FakeDashboard(self.acp, token, subject=subject)

    # Connectors.

    async def uplink(self, agent: str) -> UplinkPeer:
        """Give a connector that says what the test says, to be entered."""
        return UplinkPeer(Address(self.url, await self.token("agent", "box", holder="peer")), agent)

    def connect_command(self, name: str, agent: FakeAgent | str, relay: str = "") -> list[str]:
        """Give the command that attaches an agent: a scripted one, or one of the catalogue."""
        place = ["--relay", relay or self.url, "--name", name, "--cwd", str(self.work)]
        which = ["--agent", agent] if isinstance(agent, str) else ["--", *agent.argv]
        return [*BRIDGE, "connect", *place, *which]

    async def connect(
        self, name: str, agent: FakeAgent | str, *, tenant: str = "default", relay: str = ""
    ) -> Program:
        """Start a connector and wait until it is attached."""
        env = {**self.env, **await self.agent_env(tenant)}
        program = await Program.start(self.connect_command(name, agent, relay), env)
        self.programs.append(program)
        await program.said(ATTACHED)
        return program

    async def editor(self, name: str, agent: FakeAgent | str) -> FakeEditor:
        """Give an editor that starts a connector as its agent, to be entered."""
        command = self.connect_command(name, agent)
        command.insert(command.index("connect") + 1, "--stdio")
        return FakeEditor(command, cwd=self.work, env={**self.env, **await self.agent_env()})

    async def agent_env(self, tenant: str = "default") -> dict[str, str]:
        """Give what a connector needs in its environment."""
        return {"FERRET_BRIDGE_TOKEN": await self.token("agent", "box", tenant=tenant)}
