"""A connector that runs in this process beside a scripted agent in its own."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

from fakes.agent import FakeAgent
from fakes.door import FakeDoor
from fakes.relay import FakeRelay

from agent_side.connector import Connector, ExitReason, local_origin
from agent_side.settings import ConnectorSettings, RelayTarget
from agent_side.turn import TurnEnd

ANNA = local_origin("terminal")


class Running:
    """What a test holds: the connector, its agent's script, a door, and ways to wait."""

    def __init__(
        self,
        folder: Path,
        *,
        relay: FakeRelay | None = None,
        state: Path | None = None,
        command: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        target: dict[str, Any] | None = None,
        **script: Any,
    ) -> None:
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.state = state or folder / "state"
        self.agent = FakeAgent(folder / "agent", **script)
        self.door = FakeDoor()
        reach = RelayTarget(relay.url, **{"token": "good", **(target or {})}) if relay else None
        self.connector = Connector(
            # Most tests are about other things than the entry and the time that these take.
            ConnectorSettings(
                "fake", self.work, self.state, **{"snapshot_mb": 0, **(settings or {})}
            ),
            self.agent.command(self.work, **(command or {})),
            relay=reach,
        )
        self.connector.open_door(self.door)
        self.task: asyncio.Task[ExitReason] | None = None

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self.connector.run())
        await self.connector.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> ExitReason:
        assert self.task is not None
        self.connector.stop("the test is over")
        return await self.task

    async def session(self) -> str:
        """Open a session as somebody at this machine and give its id."""
        return (await self.connector.new_session(self.work, ANNA)).session.id

    def prompt(self, session_id: str, text: str = "go") -> asyncio.Future[TurnEnd]:
        """Prompt as somebody at this machine; the future gives the turn's end."""
        ended: asyncio.Future[TurnEnd] = asyncio.get_running_loop().create_future()
        block = {"type": "text", "text": text}
        self.connector.prompt(session_id, [block], ANNA, None, ended.set_result)
        return ended

    async def until(self, so: Any) -> Any:
        """Wait for something to hold and give it."""
        async with asyncio.timeout(20):
            while not (found := so()):  # noqa: ASYNC110 (nothing tells of just anything)
                await asyncio.sleep(0.005)
        return found

    async def asked(self, count: int = 1) -> list[str]:
        """Wait for so many open questions and give their ids."""
        await self.until(lambda: len(self.connector.questions) >= count)
        return list(self.connector.questions)

    def entries(self, session_id: str, method: str | None = None) -> list[dict[str, Any]]:
        """Give what the door got of a session."""
        found = [message for id_, message in self.door.entries if id_ == session_id]
        return [m for m in found if method in (None, m["method"])]

    def updates(self, session_id: str) -> list[dict[str, Any]]:
        """Give the updates that the door got of a session."""
        return [m["params"]["update"] for m in self.entries(session_id, "session/update")]

    def texts(self, session_id: str) -> list[str]:
        """Give the agent's text that the door got, piece by piece."""
        pieces = [
            u for u in self.updates(session_id) if u.get("sessionUpdate") == "agent_message_chunk"
        ]
        return [u["content"]["text"] for u in pieces]

    def crash_image(self, to: Path) -> Path:
        """Copy the state folder as it is: what a killed process would leave."""
        shutil.copytree(self.state, to)
        return to


def asks(call: dict[str, Any] | None = None, id_: int | str = 0, **more: Any) -> dict[str, Any]:
    """Make a step that asks for a permission with the options yes, always and no."""
    tool = {"toolCallId": f"call-{id_}", "kind": "execute", "rawInput": {"command": "make"}}
    options = [
        {"optionId": "always", "name": "Always", "kind": "allow_always"},
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    ask = {"toolCall": {**tool, **(call or {})}, "options": options}
    return {"ask": ask, "id": id_, **more}


def stamp(message: dict[str, Any]) -> dict[str, Any]:
    """Give an entry's stamp."""
    found = message["params"]["_meta"]["chimera.bridge"]
    assert isinstance(found, dict)
    return found
