"""Drives the official TypeScript SDK in a node process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from clients.packages import environment, node

DRIVER = Path(__file__).with_name("sdk_client.mjs")
WAIT_SECONDS = 30.0


class SdkClient:
    """Use it as ``async with SdkClient("ws", url, token) as client``."""

    def __init__(self, *how: str, env: Mapping[str, str] | None = None) -> None:
        self._how, self._env = how, {**environment(), **(env or {})}
        self.updates: list[dict[str, Any]] = []
        self.questions: list[dict[str, Any]] = []
        self.withdrawn: list[int] = []
        self._answers: dict[int, dict[str, Any]] = {}
        self._last_id = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            node(),
            str(DRIVER),
            *self._how,
            env=self._env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 << 20,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        await self._reading

    def ask(self, method: str, **params: Any) -> int:
        self._last_id += 1
        self._say(id=self._last_id, method=method, params=params)
        return self._last_id

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(self.ask(method, **params))

    async def answer(self, id_: int) -> Any:
        await self.until(lambda: id_ in self._answers)
        message = self._answers.pop(id_)
        assert "error" not in message, message["error"]
        return message["result"]

    def choose(self, question: dict[str, Any], option: str) -> None:
        outcome = {"outcome": "selected", "optionId": option}
        self._say(answer=question["question"], result={"outcome": outcome})

    async def question(self, number: int = 1) -> dict[str, Any]:
        await self.until(lambda: len(self.questions) >= number)
        return self.questions[number - 1]

    async def until(self, holds: Any) -> None:
        async with self._changed:
            await asyncio.wait_for(self._changed.wait_for(holds), WAIT_SECONDS)

    def text(self) -> str:
        updates = [update["update"] for update in self.updates]
        chunks = [u for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
        return "".join(chunk["content"]["text"] for chunk in chunks)

    def _say(self, **message: Any) -> None:
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> None:
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "update" in message:
                self.updates.append(message["update"])
            elif "question" in message:
                self.questions.append(message)
            elif "withdrawn" in message:
                self.withdrawn.append(message["withdrawn"])
            else:
                self._answers[message["id"]] = message
            async with self._changed:
                self._changed.notify_all()
