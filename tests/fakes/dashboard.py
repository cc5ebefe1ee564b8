"""A dashboard: an ACP client on the relay's websocket, which keeps all it is told, in order."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from fakes.editor import WAIT_SECONDS, FakeEditor, is_method, is_resolved
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

META = "chimera.bridge"


class FakeDashboard(FakeEditor):
    """An editor whose agent is the relay; it can lose its connection and come back."""

    def __init__(self, url: str, token: str, *, subject: str = "", **bridge: Any) -> None:
        super().__init__(())
        self.url, self.token, self.subject = url, token, subject
        self.bridge = bridge  # capabilities of ours: decide
        self.capabilities: dict[str, Any] = {}
        self.hail: dict[str, Any] = {}
        self.closed_with: tuple[int | None, str] = (None, "")
        self.logs: dict[str, list[dict[str, Any]]] = {}  # entries got, by session
        self.unasked_answers: list[dict[str, Any]] = []
        self._socket: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        await self.come()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()
        self._tasks[0].result()

    async def come(self) -> None:
        """Open a connection and say hello on it."""
        self._socket = await connect(
            self.url,
            additional_headers={"Authorization": f"Bearer {self.token}"},
            compression=None,
            max_size=None,
            ping_interval=None,
        )
        self._outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        own = {"_meta": {META: self.bridge}} if self.bridge else {}
        self.hail = await self.hello(**own, **self.capabilities)

    async def leave(self) -> int:
        """Close the connection in order."""
        await self._socket.close()
        return await self._over()

    async def drop(self) -> None:
        """Lose the connection without a word."""
        self._socket.transport.abort()
        await self._over()

    async def closed(self) -> int | None:
        """Wait for the relay to end the connection, and give its code."""
        await asyncio.wait_for(asyncio.shield(self._tasks[0]), WAIT_SECONDS)
        return self.closed_with[0]

    async def come_back(self, session: str) -> None:
        """Connect anew and go on in a session behind what is here of it."""
        await self.come()
        await self.resume(session)

    def raw(self, line: bytes) -> None:
        self._outgoing.put_nowait(line)

    # What people do.

    async def open(self, agent: str, cwd: Any, **meta: Any) -> str:
        """Open a session of the agent with this name."""
        id_ = await self.agent_id(agent)
        params = {"cwd": str(cwd), "mcpServers": [], "_meta": {META: {"agent": id_, **meta}}}
        return (await self.call("session/new", **params))["sessionId"]

    async def load(self, session: str) -> Any:
        return await self.call("session/load", sessionId=session, cwd="/", mcpServers=[])

    async def resume(self, session: str) -> Any:
        meta = {"_meta": {META: {"cursor": self.cursor(session)}}}
        return await self.call("session/resume", sessionId=session, cwd="/", mcpServers=[], **meta)

    def prompt(self, session: str, text: str, **meta: Any) -> int:
        """Send a prompt; its answer comes by ``answer``."""
        named = {"_meta": {META: meta}} if meta else {}
        block = {"type": "text", "text": text}
        return self.ask("session/prompt", sessionId=session, prompt=[block], **named)

    async def decide(self, id_: str, answer: dict[str, Any], decision: str, **more: Any) -> Any:
        """Answer a question by its id, as the page does."""
        record = next(r for r in await self.round_trips("all") if r["id"] == id_)
        named = {"id": id_, "hash": record["hash"], "answer": answer, "decisionId": decision}
        return await self.call("_bridge/decide", **{**named, **more})

    # What people see.

    async def agent_id(self, name: str) -> str:
        found = (await self.call("_bridge/agents"))["agents"]
        return next(one["id"] for one in found if one["name"] == name)

    async def agent(self, name: str) -> dict[str, Any]:
        found = (await self.call("_bridge/agents"))["agents"]
        return next(one for one in found if one["name"] == name)

    async def round_trips(self, state: str = "open", session: str = "") -> list[dict[str, Any]]:
        found = (await self.call("_bridge/round_trips", state=state))["roundTrips"]
        return [one for one in found if session in ("", one["sessionId"])]

    async def session(self, session: str) -> dict[str, Any]:
        """Give the session as the list has it."""
        found = (await self.call("session/list"))["sessions"]
        return next(one["_meta"][META] for one in found if one["sessionId"] == session)

    def entries(self, session: str, method: str | None = None) -> list[dict[str, Any]]:
        """Give the log's entries got of a session, in order; questions are not among them."""
        return [m for m in self.logs.get(session, []) if method in (None, m["method"])]

    def count(self, session: str) -> int:
        """Say how many entries came of a session."""
        return len(self.logs.get(session, []))

    async def has(self, session: str, count: int) -> None:
        """Wait for that many entries of a session."""
        async with asyncio.timeout(WAIT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.count(session) >= count or self._ended)
        assert self.count(session) >= count, self.closed_with

    def seqs(self, session: str) -> list[int]:
        return [meta_of(m)["seq"] for m in self.entries(session)]

    def cursor(self, session: str) -> str:
        """Give the cursor of the last entry got."""
        last = meta_of(self.logs[session][-1])
        return f"{last['epoch']}:{last['seq']}"

    async def resolved(self, call: str, *, state: str | None = None) -> dict[str, Any]:
        """Wait until told how the question of a tool call was answered, and give that."""
        update = await self.until(is_resolved_of(call, state))
        return update["params"]["update"]["_meta"][META]["resolved"]

    async def ended(self, session: str, *, after: int = 0) -> dict[str, Any]:
        """Wait for a turn's end."""
        ended = await self.until(
            lambda m: (
                m["method"] == "_bridge/turn"
                and m["params"]["sessionId"] == session
                and m["params"]["state"] == "ended"
            ),
            after=after,
        )
        return ended["params"]

    async def withdrawn(self, question: dict[str, Any]) -> None:
        """Wait until a question is taken back."""
        await self.until(
            lambda m: (
                m["method"] == "$/cancel_request" and m["params"]["requestId"] == question["id"]
            )
        )

    # The connection.

    @property
    def _ended(self) -> bool:
        return self._tasks[0].done()

    async def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message and "seq" in meta_of(message):
            self.logs.setdefault(message["params"]["sessionId"], []).append(message)
        if "method" not in message and message["id"] not in self._asked:
            self.unasked_answers.append(message)
        await super()._take(message)

    async def _over(self) -> int:
        await asyncio.wait([self._tasks[0]])
        self._tasks[1].cancel()
        return 0

    async def _write(self) -> None:
        while True:
            await self._socket.send((await self._outgoing.get()), text=True)

    async def _read(self) -> None:
        try:
            while True:
                await self._take(json.loads(await self._socket.recv()))
        except ConnectionClosed as end:
            received = end.rcvd
            self.closed_with = (received.code, received.reason) if received else (None, "")
        finally:
            self._tasks[1].cancel()  # there is nobody to write to
            asyncio.get_running_loop().call_soon(asyncio.create_task, self._wake())


def meta_of(message: dict[str, Any]) -> dict[str, Any]:
    """Give our stamp of a message."""
    found = (message.get("params", {}).get("_meta") or {}).get(META)
    return found if isinstance(found, dict) else {}


def is_resolved_of(call: str, state: str | None = None):
    def matches(message: dict[str, Any]) -> bool:
        if not (is_method("session/update")(message) and is_resolved(message)):
            return False
        update = message["params"]["update"]
        now = update["_meta"][META]["resolved"].get("state")
        return update["toolCallId"] == call and state in (None, now)

    return matches
