"""A client at a connector in this process: lines go in, what it is told is kept."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

from agent_side.connector import Connector
from agent_side.doors.stdio import Visit

WAIT_SECONDS = 20.0


class Refused(Exception):
    """An answer that was an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.error = error


class Visitor:
    """Speaks JSON-RPC to one door; ``got`` has requests and notifications in order."""

    def __init__(self, connector: Connector, name: str = "editor") -> None:
        self.got: list[dict[str, Any]] = []
        self.answers: dict[Any, dict[str, Any]] = {}
        self.visit = Visit(connector, self._take, name)
        self._ids = count(1)
        self._changed = asyncio.Event()

    def _take(self, message: bytes) -> None:
        told = json.loads(message)
        if "method" in told:
            self.got.append(told)
        else:
            self.answers[told["id"]] = told
        self._changed.set()

    # Speaking.

    def ask(self, method: str, **params: Any) -> int:
        id_ = next(self._ids)
        self.send({"id": id_, "method": method, "params": params})
        return id_

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(self.ask(method, **params))

    async def answer(self, id_: int) -> Any:
        told = await self.until(lambda: self.answers.pop(id_, None))
        if "error" in told:
            raise Refused(told["error"])
        return told["result"]

    async def refusal(self, method: str, **params: Any) -> dict[str, Any]:
        """Give the error that a request gets."""
        try:
            answer = await self.call(method, **params)
        except Refused as refused:
            return refused.error
        raise AssertionError(f"{method} was not refused: {answer}")

    def notify(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def raw(self, line: bytes) -> None:
        self.visit.exchange.received(line)

    async def leave(self) -> None:
        await self.visit.leave()
        self.visit.close()

    # Listening.

    async def until(self, so: Any) -> Any:
        async with asyncio.timeout(WAIT_SECONDS):
            while not (found := so()):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def got_one(self, wanted: Any) -> dict[str, Any]:
        """Wait for a message that ``wanted(message)`` holds for."""
        return await self.until(lambda: next((m for m in self.got if wanted(m)), None))

    # Ferret's dialect.

    @property
    def kinds(self) -> list[dict[str, Any]]:
        """The flat updates, without their session."""
        params = [m["params"] for m in self.got if "kind" in m["params"]]
        return [{k: v for k, v in p.items() if k != "sessionId"} for p in params]

    async def kind(self, kind: str) -> dict[str, Any]:
        """Wait for the first update of a kind."""
        return await self.until(lambda: next((k for k in self.kinds if k["kind"] == kind), None))
