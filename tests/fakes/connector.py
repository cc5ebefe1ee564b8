"""A connector that speaks the uplink by hand: what it sends, in which order, with which faults."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

from bridge.protocol import entry, jsonrpc, round_trip, uplink
from bridge.protocol.entry import Meta, RoundTrip
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello, SessionCard

WAIT_SECONDS = 20
OPTIONS = ["yes", "no"]


class FakeConnector:
    """One agent with one session; use it as ``async with FakeConnector(url, token) as one``."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.url, self.token, self.name = url.replace("http", "ws", 1) + "/uplink", token, name
        self.agent, self.session = f"a-{secrets.token_hex(6)}", f"s-{secrets.token_hex(6)}"
        self.epoch, self.writer = time.time_ns() // 10**6, secrets.token_hex(8)
        self.got: list[dict[str, Any]] = []
        self._socket: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        headers = {"Authorization": f"Bearer {self.token}"}
        self._socket = await connect(
            self.url,
            subprotocols=[uplink.SUBPROTOCOL],
            additional_headers=headers,
            compression=None,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def greet(self, **changes: Any) -> dict[str, Any]:
        """Say hello and give the answer."""
        hello = Hello(
            self.epoch,
            self.writer,
            ConnectorCard("1"),
            [AgentCard(self.agent, self.name, roots=["/"])],
            [SessionCard(self.session, self.agent, 1, cwd="/")],
        )
        await self.say(jsonrpc.request(1, uplink.HELLO, {**_fields(hello), **changes}))
        return await self.until(lambda m: m.get("id") == 1)

    async def say(self, text: bytes) -> None:
        await self._socket.send(text, text=True)

    async def update(self, seq: int, text: str = "") -> None:
        """Send an entry with the agent's words."""
        content = {"type": "text", "text": text or f"part {seq} "}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        await self.say(entry.stamp(entry.UPDATE, self.session, self._meta(seq), {"update": update}))

    async def ask(self, seq: int, id_: str, **more: Any) -> None:
        """Send a question; ``expires_at`` gives it an end."""
        subject = json.dumps({"v": 1, "command": f"make {id_}"})
        hash_ = round_trip.hash_of(subject)
        asked = RoundTrip(id_, "permission", subject, hash_, OPTIONS, **more)
        options = [{"optionId": o, "name": o, "kind": "allow_once"} for o in OPTIONS]
        fields = {"toolCall": {"toolCallId": f"call-{id_}"}, "options": options}
        meta = self._meta(seq, round_trip=asked)
        await self.say(entry.stamp(entry.PERMISSION, self.session, meta, fields, id_=id_))

    async def resolve(self, seq: int, id_: str, **end: Any) -> None:
        """Send a question's end."""
        fields = {"id": id_, **end}
        await self.say(entry.stamp(entry.RESOLVED, self.session, self._meta(seq), fields))

    async def stored(self, seq: int) -> None:
        """Wait until an entry is acknowledged."""
        await self.until(lambda m: m.get("method") == uplink.ACK and m["params"]["seq"] >= seq)

    async def until(self, wanted: Any) -> dict[str, Any]:
        """Give the first message from here on that ``wanted(message)`` holds for."""
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                message = json.loads(await self._socket.recv())
                self.got.append(message)
                if wanted(message):
                    return message

    async def closed(self) -> int | None:
        """Wait for the relay to end the connection, and give its code."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self._socket.wait_closed()
        return self._socket.close_code

    def _meta(self, seq: int, **more: Any) -> Meta:
        return Meta(self.epoch, seq, entry.timestamp(), **more)


def _fields(hello: Hello) -> dict[str, Any]:
    return json.loads(jsonrpc.encode(hello))
