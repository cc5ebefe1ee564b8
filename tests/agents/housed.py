"""A house whose agent is a real one, set up to talk to the scripted LLM only."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
from agents.rig import AGENTS_DIR, FakeLLM, Home, command, script_for
from web.house import House

from agent_side.agents.catalog import FERRET_PYTHON

FERRET = AGENTS_DIR / "py-chimera/bin/python"
ATTACHES_WITHIN_SECONDS = 60


class AgentHouse(House):
    """A relay, a connector and one real agent, each a process of its own."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.home = Home.make(self.folder / "home")
        self.work = self.home.work
        self._llm = FakeLLM(**script_for(name, self.home))
        self._tokens: dict[str, str] = {}

    async def start_connector(self) -> None:
        self.agent_env = dict(command(self.name, await self._llm.__aenter__(), self.home).env)
        token = await self.token("agent")
        place = ["--relay", f"ws://127.0.0.1:{self.port}", "--cwd", str(self.work)]
        self._connector = await self._start(
            *("chimera-bridge", "connect", *place, *self._agent()),
            log="connector.log",
            FERRET_BRIDGE_TOKEN=token,
            **self.agent_env,
        )
        async with asyncio.timeout(ATTACHES_WITHIN_SECONDS):
            while not await self._is_attached():
                assert self._connector.returncode is None, self.log()
                await asyncio.sleep(0.1)

    async def __aexit__(self, *error: object) -> None:
        await super().__aexit__(*error)
        await self._llm.__aexit__(*error)

    async def token(self, kind: str, *more: str) -> str:
        if kind not in self._tokens:
            told = ("token", "--kind", kind, "--subject", kind, *more)
            self._tokens[kind] = await self.say("chimera-relay", *told)
        return self._tokens[kind]

    async def ask(self, path: str) -> dict[str, Any]:
        """Give what the relay's REST says."""
        token = await self.token("person", "--role", "operator")
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(
                f"{self.url}/api{path}", headers={"Authorization": f"Bearer {token}"}
            )
        return answer.raise_for_status().json()

    async def updates(self, session: str) -> list[dict[str, Any]]:
        """Give the updates in a session's log, in order."""
        found = (await self.ask(f"/sessions/{session}/log?limit=1000"))["entries"]
        return [e["params"]["update"] for e in found if e.get("method") == "session/update"]

    async def option_name(self, session: str, option: str) -> str:
        """Give the agent's own name for an option of the question that waits in a session."""
        waiting = (await self.ask("/round-trips?state=open"))["roundTrips"]
        subject = next(one["subject"] for one in waiting if one["sessionId"] == session)
        if isinstance(subject, str):
            subject = json.loads(subject)
        return next(name for id_, name, _ in subject["options"] if id_ == option)

    def log(self) -> str:
        return Path(self.folder / "connector.log").read_text()

    def _agent(self) -> list[str]:
        if self.name != "ferret":
            return ["--", *command_line(self.name, self.agent_env)]
        if FERRET.exists():
            self.agent_env[FERRET_PYTHON] = str(FERRET)
        return ["--agent", "ferret"]

    async def _is_attached(self) -> bool:
        agents = (await self.ask("/agents"))["agents"]
        return any(agent["attachment"]["state"] == "attached" for agent in agents)


def command_line(name: str, env: dict[str, str]) -> list[str]:
    """Give an agent's command as its owner would type it."""
    from agent_side.agents.catalog import find

    found = find(name).locate(env)
    assert found, f"{name} is not installed"
    return list(found)
