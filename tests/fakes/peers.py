"""A connector and an ACP client that speak to a relay frame by frame, as a test says."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, Self

from fakes.served import Served
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from bridge.protocol import entry, jsonrpc, round_trip, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY, Meta, Origin, RoundTrip
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello, MailPosition, SessionCard

WAIT_SECONDS = 15
OPTIONS = ["allow", "no"]
_numbers = itertools.count(1)


class Refused(Exception):
    """A request was answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error)
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data") or {}


class Peer:
    """One websocket to a relay; all that comes is kept in order in ``got``."""

    def __init__(self, url: str, **options: Any) -> None:
        self.url, self.options = url, options
        self.got: list[dict[str, Any]] = []
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self.socket: ClientConnection = await connect(
            self.url, compression=None, ping_interval=None, max_size=None, **self.options
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.socket.close()
        await self._reading

    # What a test does.

    async def say(self, text: bytes | str) -> None:
        await self.socket.send(text.encode() if isinstance(text, str) else text, text=True)

    async def notify(self, method: str, params: Any) -> None:
        await self.say(jsonrpc.notification(method, params))

    async def ask(self, method: str, params: Any) -> int:
        """Send a request and give its id."""
        id_ = next(_numbers)
        await self.say(jsonrpc.request(id_, method, params))
        return id_

    async def answer(self, id_: int) -> Any:
        """Wait for a request's result; raises Refused."""
        reply = await self.until(lambda m: m.get("id") == id_ and "method" not in m)
        if "error" in reply:
            raise Refused(reply["error"])
        return reply["result"]

    async def call(self, method: str, **params: Any) -> Any:
        return await self.answer(await self.ask(method, params))

    # What a test waits for.

    async def until(
        self, wanted: Callable[[dict[str, Any]], Any], *, after: int = 0
    ) -> dict[str, Any]:
        """Give the first message behind the first ``after`` ones that is wanted."""

        def found() -> dict[str, Any] | None:
            return next((m for m in self.got[after:] if wanted(m)), None)

        async with asyncio.timeout(WAIT_SECONDS), self._changed:
            await self._changed.wait_for(lambda: found() or self._reading.done())
        message = found()
        assert message is not None, f"the relay closed with {self.socket.close_code}: {self.got}"
        return message

    async def told(self, method: str, *, after: int = 0, **params: Any) -> dict[str, Any]:
        """Wait for a message of a method with these params and give all its params."""
        message = await self.until(
            lambda m: m.get("method") == method and params.items() <= m["params"].items(),
            after=after,
        )
        return message["params"]

    def all(self, method: str) -> list[dict[str, Any]]:
        return [m for m in self.got if m.get("method") == method]

    async def closed(self) -> int | None:
        """Wait until the relay has closed and give its code."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.socket.wait_closed()
        return self.socket.close_code

    async def _read(self) -> None:
        try:
            async for text in self.socket:
                async with self._changed:
                    self.got.append(json.loads(text))
                    self._changed.notify_all()
        except ConnectionClosed:
            pass
        async with self._changed:
            self._changed.notify_all()


class UplinkPeer(Peer):
    """A connector of one agent."""

    def __init__(
        self, served: Served, agent: str = "a1", *, writer: str = "w1", epoch: int = 0, **who: str
    ) -> None:
        self.token = served.token(kind="agent", **{"subject": "box", **who})
        super().__init__(
            f"ws://127.0.0.1:{served.port}/uplink",
            subprotocols=[uplink.SUBPROTOCOL],
            additional_headers={"Authorization": f"Bearer {self.token}"},
        )
        self.agent, self.writer = agent, writer
        self.epoch = epoch or time.time_ns() // 10**6
        self.counter = 0

    async def hello(self, *sessions: str, journaled: int = 0, opened: tuple[str, ...] = ()) -> Any:
        """Greet with cards of these sessions; gives the result."""
        cards = [self.card(session) for session in sessions]
        agent = AgentCard(self.agent, "claude", title="Claude", roots=["/app"])
        mail = MailPosition(journaled)
        connector = ConnectorCard("0.1.0", "mbp", "linux")
        hello = Hello(self.epoch, self.writer, connector, [agent], cards, list(opened), mail)
        return await self.answer(await self.ask(uplink.HELLO, hello))

    def card(self, session: str, **more: Any) -> SessionCard:
        self.counter += 1
        return SessionCard(session, self.agent, self.counter, cwd="/app", **more)

    # Entries.

    def update(self, seq: int, text: str = "", *, session: str = "s1", **meta: Any) -> bytes:
        content = {"type": "text", "text": text or f"part {seq}"}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        return self._entry(entry.UPDATE, seq, {"update": update}, session, meta)

    def words(self, seq: int, mail_id: str, *, session: str = "s1") -> bytes:
        """The entry of a person's prompt."""
        update = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "go"}}
        meta = {"mail_id": mail_id, "origin": Origin("alice")}
        return self._entry(entry.UPDATE, seq, {"update": update}, session, meta)

    def turn(self, seq: int, state: str, mail_id: str, *, session: str = "s1", **more: Any):
        fields = {"turn": 1, "mailId": mail_id, "state": state, **more}
        return self._entry(entry.TURN, seq, fields, session, {"mail_id": mail_id})

    def question(
        self,
        seq: int,
        id_: str = "rt-1",
        *,
        session: str = "s1",
        kind="permission",
        subject: str = "",
        expires_at: str | None = None,
    ) -> bytes:
        subject = subject or json.dumps({"v": 1, "command": f"make {id_}"})
        offered = OPTIONS if kind == "permission" else []
        asked = RoundTrip(
            id_, kind, subject, round_trip.hash_of(subject), offered, expires_at=expires_at
        )
        options = [{"optionId": o, "name": o, "kind": "allow_once"} for o in OPTIONS]
        fields: dict[str, Any] = {"toolCall": {"toolCallId": f"call-{id_}"}, "options": options}
        method = entry.PERMISSION
        if kind == "elicitation":
            fields, method = {"mode": "form", "message": "which?"}, entry.ELICITATION
        return self._entry(method, seq, fields, session, {"round_trip": asked}, id_)

    def resolved(self, seq: int, id_: str = "rt-1", *, session: str = "s1", **end: Any) -> bytes:
        fields = {"id": id_, "result": "applied", "reason": "decided", **end}
        return self._entry(entry.RESOLVED, seq, fields, session, {})

    def _entry(self, method, seq, fields, session, meta, id_=None) -> bytes:  # noqa: PLR0917
        stamp = Meta(meta.pop("epoch", self.epoch), seq, entry.timestamp(), **meta)
        return entry.stamp(method, session, stamp, fields, id_=id_)

    async def store(self, *entries: bytes, session: str = "s1") -> None:
        """Send entries and wait until the last one is acknowledged."""
        for text in entries:
            await self.say(text)
        cursor = entry.read(entries[-1]).cursor
        await self.acknowledged(cursor.seq, session=session)

    async def acknowledged(self, seq: int, *, session: str = "s1", after: int = 0) -> None:
        await self.until(
            lambda m: (
                m.get("method") == uplink.ACK
                and m["params"]["sessionId"] == session
                and not m["params"]["resend"]
                and (m["params"]["epoch"], m["params"]["seq"]) >= (self.epoch, seq)
            ),
            after=after,
        )

    async def resend_asked(self, *, after: int = 0) -> int:
        """Wait until entries are asked for again and give the number they follow."""
        return (await self.told(uplink.ACK, resend=True, after=after))["seq"]

    # Mail.

    async def mail(self, method: str, *, after: int = 0) -> dict[str, Any]:
        """Wait for a mail with a message of this method."""
        message = await self.until(
            lambda m: m.get("method") == uplink.MAIL and m["params"]["message"]["method"] == method,
            after=after,
        )
        return message["params"]

    async def done(self, mail: dict[str, Any], **outcome: Any) -> None:
        await self.notify(uplink.MAIL_DONE, {"mailId": mail["mailId"], **outcome})


class ClientPeer(Peer):
    """An ACP client of a person."""

    def __init__(self, served: Served, role: Role = Role.OPERATOR, **who: str) -> None:
        self.token = served.token(role, **who)
        super().__init__(
            f"ws://127.0.0.1:{served.port}/acp",
            additional_headers={"Authorization": f"Bearer {self.token}"},
        )

    async def initialize(self, *, decide: bool = False, forms: bool = False) -> Any:
        capabilities: dict[str, Any] = {"elicitation": {"form": {}}} if forms else {}
        if decide:
            capabilities["_meta"] = {META_KEY: {"decide": True}}
        return await self.call("initialize", protocolVersion=1, clientCapabilities=capabilities)

    async def load(self, session: str = "s1") -> Any:
        return await self.call("session/load", sessionId=session, cwd="/app", mcpServers=[])

    async def prompt(self, mail_id: str, *, session: str = "s1", **bridge: Any) -> int:
        """Send a prompt and give its request's id."""
        meta = {META_KEY: {"mailId": mail_id, **bridge}}
        words = [{"type": "text", "text": "go"}]
        return await self.ask(
            "session/prompt", {"sessionId": session, "prompt": words, "_meta": meta}
        )

    async def question(self, *, after: int = 0) -> dict[str, Any]:
        """Wait until it is asked and give the request."""
        return await self.until(lambda m: "id" in m and "method" in m, after=after)

    async def choose(self, question: dict[str, Any], option: str = "allow") -> None:
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        await self.say(jsonrpc.result(question["id"], outcome))

    async def resolved(self, state: str, *, after: int = 0) -> dict[str, Any]:
        """Wait for word in a tool call's update of how its question stands."""

        def tells(message: dict[str, Any]) -> Any:
            found = (message.get("params") or {}).get("update", {}).get("_meta", {}).get(META_KEY)
            return found if found and found["resolved"]["state"] == state else None

        return tells(await self.until(tells, after=after))["resolved"]

    @property
    def questions(self) -> list[dict[str, Any]]:
        return [m for m in self.got if "id" in m and "method" in m]

    def seqs(self, session: str = "s1") -> list[int]:
        """The numbers of the entries it got."""
        stamps = (m["params"].get("_meta", {}).get(META_KEY, {}) for m in self._of(session))
        return [stamp["seq"] for stamp in stamps if "seq" in stamp]

    def _of(self, session: str) -> list[dict[str, Any]]:
        told = [m for m in self.got if "method" in m and "id" not in m]
        return [m for m in told if m["params"].get("sessionId") == session]


def fresh(word: str) -> str:
    """An id that nothing else has."""
    return f"{word}-{secrets.token_hex(6)}"
