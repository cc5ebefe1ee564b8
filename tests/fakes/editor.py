"""An editor: starts an ACP agent as a child and speaks to it, checking every message it gets."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from schema.check import check_agent_message, check_client_message

WAIT_SECONDS = 20.0
CHECKED = 500  # messages; checking costs a millisecond each, and a stream repeats itself


class CallFailed(Exception):
    """The agent answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class FakeEditor:
    """Use it as ``async with FakeEditor(argv) as editor``; it keeps all it gets in ``got``."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.argv, self.cwd, self.env = argv, cwd, {**os.environ, **(env or {})}
        self.got: list[dict[str, Any]] = []  # requests and notifications, in order
        self.stderr: list[str] = []
        self._answers: dict[Any, dict[str, Any]] = {}
        self._asked: dict[Any, str] = {}
        self._last_id = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            *self.argv,
            cwd=self.cwd,
            env=self.env,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=128 << 20,
        )
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_err())]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()
        self._tasks[0].result()

    async def leave(self) -> int:
        """Close the agent's input, wait for its end, give its exit code."""
        self.process.stdin.close()
        try:
            code = await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        except TimeoutError:
            self.process.kill()
            raise
        await asyncio.wait(self._tasks)
        return code

    # Speaking.

    async def hello(self, **capabilities: Any) -> dict[str, Any]:
        return await self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)

    async def new(self, cwd: Path) -> str:
        opened = await self.call("session/new", cwd=str(cwd), mcpServers=[])
        return opened["sessionId"]

    def prompt(self, session: str, text: str) -> int:
        """Send a prompt; its answer comes by ``answer``."""
        block = {"type": "text", "text": text}
        return self.ask("session/prompt", sessionId=session, prompt=[block])

    async def call(self, method: str, **params: Any) -> Any:
        """Send a request and give its result; raises CallFailed."""
        return await self.answer(self.ask(method, **params))

    def ask(self, method: str, **params: Any) -> int:
        self._last_id += 1
        self._asked[self._last_id] = method
        self.send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        return self._last_id

    async def answer(self, id_: Any) -> Any:
        async with self._changed:
            await asyncio.wait_for(
                self._changed.wait_for(lambda: id_ in self._answers or self._ended), WAIT_SECONDS
            )
        if id_ not in self._answers:
            await asyncio.wait(self._tasks)
            raise EOFError(f"it ended before it answered: {self.stderr}")
        message = self._answers.pop(id_)
        if "error" in message:
            raise CallFailed(message["error"])
        return message["result"]

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def choose(self, question: dict[str, Any], option: str) -> None:
        """Answer a permission request."""
        outcome = {"outcome": "selected", "optionId": option}
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": {"outcome": outcome}})

    def send(self, message: dict[str, Any]) -> None:
        if "method" in message or "error" not in message:
            check_client_message(message)
        self.raw(json.dumps(message).encode())

    def raw(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")

    # Listening.

    async def until(self, wanted: Any, *, after: int = 0) -> dict[str, Any]:
        """Give the first message got that ``wanted(message)`` holds for."""

        def found() -> dict[str, Any] | None:
            return next((m for m in self.got[after:] if wanted(m)), None)

        async with self._changed:
            await asyncio.wait_for(
                self._changed.wait_for(lambda: found() or self._ended), WAIT_SECONDS
            )
        message = found()
        assert message, f"it ended without: {self.stderr}"
        return message

    async def question(self, *, after: int = 0) -> dict[str, Any]:
        """Give the first permission request."""
        return await self.until(is_method("session/request_permission"), after=after)

    def updates(self, kind: str, session: str | None = None) -> list[dict[str, Any]]:
        """Give the updates of one kind, in order."""
        return [
            m["params"]["update"]
            for m in self.got
            if m["method"] == "session/update"
            and m["params"]["update"]["sessionUpdate"] == kind
            and session in (None, m["params"]["sessionId"])
        ]

    def text(self) -> str:
        """Give all that the agent said, joined."""
        return "".join(u["content"]["text"] for u in self.updates("agent_message_chunk"))

    @property
    def _ended(self) -> bool:
        return self._tasks[0].done()

    async def _read(self) -> None:
        try:
            while line := await self.process.stdout.readline():
                await self._take(json.loads(line))
        finally:
            asyncio.get_running_loop().call_soon(asyncio.create_task, self._wake())

    async def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            if len(self.got) < CHECKED:
                check_agent_message(message)
            self.got.append(message)
        else:
            check_agent_message(message, answers=self._asked.get(message.get("id")))
            self._answers[message.get("id")] = message
        await self._wake()

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def told(self, words: str) -> None:
        """Wait for words on its standard error."""
        async with self._changed:
            await asyncio.wait_for(
                self._changed.wait_for(lambda: any(words in line for line in self.stderr)),
                WAIT_SECONDS,
            )

    async def _read_err(self) -> None:
        while line := await self.process.stderr.readline():
            self.stderr.append(line.decode().rstrip())
            await self._wake()


def is_method(method: str):
    return lambda message: message["method"] == method


def is_update(kind: str, **fields: Any):
    """Match an update by its kind and some of its fields."""

    def matches(message: dict[str, Any]) -> bool:
        update = message["params"].get("update", {})
        return update.get("sessionUpdate") == kind and fields.items() <= update.items()

    return matches


def is_resolved(message: dict[str, Any]) -> bool:
    """Match an update that says how a question ended."""
    meta = message["params"].get("update", {}).get("_meta") or {}
    return "resolved" in meta.get("chimera.bridge", {})
