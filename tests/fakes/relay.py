"""A scripted relay: speaks the uplink on a real socket and keeps what it is sent."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.protocol import State

from bridge.protocol import entry, jsonrpc, uplink
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Origin
from bridge.protocol.uplink import Arrivals, Hello, Mail, MailDone

ALICE = Origin(subject="alice", tenant="acme", device="pixel", door="page")
PATIENCE_SECONDS = 20


class FakeRelay:
    """What a test holds; everything it says and does may be changed while it runs."""

    def __init__(self) -> None:
        self.port = 0
        self.token = "good"
        self.status: HTTPStatus | None = None  # answered to every upgrade
        self.hello_error: dict[str, Any] | None = None
        self.closes_with: tuple[int, str] | None = None  # right after hello
        self.acknowledges = True
        self.answers_pings = True
        self.cut_after: int | None = None  # entries; then the socket is torn
        self.loses: set[int] = set()  # the n-th entry it hears is as if never sent
        self.limits: dict[str, int] = {}
        self.ahead_ms = 0  # its clock before that of this machine
        self.closed: list[str] = []  # round-trips it says are closed
        self.headers: list[dict[str, str]] = []
        self.hellos: list[Hello] = []
        self.told: list[tuple[str, dict[str, Any]]] = []  # its notifications that are no entries
        self.answers: dict[Any, dict[str, Any]] = {}
        self.entries: dict[str, list[tuple[Cursor, bytes]]] = {}
        self.heard = 0  # entries, stored or not
        self.repeats = 0
        self._arrivals: dict[str, Arrivals] = {}
        self._mail: list[Mail] = []
        self._server: Server | None = None
        self._socket: ServerConnection | None = None
        self._changed = asyncio.Event()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def __aenter__(self) -> FakeRelay:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before after a stop."""
        self._server = await serve(
            self._serve,
            "127.0.0.1",
            self.port,
            subprotocols=[uplink.SUBPROTOCOL],  # type: ignore[list-item]
            process_request=self._check,
            compression=None,
            max_size=uplink.FRAME_LIMIT,
            ping_interval=None,
        )
        self.port = next(iter(self._server.sockets)).getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close(code=1012, reason="relay restarts")
            await self._server.wait_closed()

    # What a test asks.

    async def until(self, so: Callable[[], Any]) -> Any:
        """Wait for something to hold and give it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (found := so()):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def attached(self, times: int = 1) -> Hello:
        """Wait until it was greeted so often."""
        await self.until(lambda: len(self.hellos) >= times)
        return self.hellos[times - 1]

    def messages(self, session_id: str, method: str | None = None) -> list[dict[str, Any]]:
        """Give a session's stored entries, decoded."""
        found = [json.loads(text) for _, text in self.entries.get(session_id, [])]
        return [m for m in found if method in (None, m["method"])]

    def questions(self) -> list[dict[str, Any]]:
        """Give all questions that are stored and not resolved."""
        found = {}
        for session_id in self.entries:
            for message in self.messages(session_id):
                if message["method"] in entry.QUESTIONS:
                    found[message["id"]] = message
                elif message["method"] == entry.RESOLVED:
                    found.pop(message["params"]["id"], None)
        return list(found.values())

    def done(self, mail_id: str) -> MailDone | None:
        """Give a mail's outcome."""
        for method, params in self.told:
            if method == uplink.MAIL_DONE and params["mailId"] == mail_id:
                return msgspec.convert(params, MailDone)
        return None

    async def outcome(self, mail_id: str) -> MailDone:
        """Wait for a mail's outcome."""
        return await self.until(lambda: self.done(mail_id))

    def turns(self, session_id: str) -> list[str]:
        """Give the states that the session's turns went through."""
        return [m["params"]["state"] for m in self.messages(session_id, entry.TURN)]

    def texts(self, session_id: str) -> list[str]:
        """Give the agent's text, piece by piece."""
        updates = [m["params"]["update"] for m in self.messages(session_id, entry.UPDATE)]
        pieces = [u for u in updates if u.get("sessionUpdate") == "agent_message_chunk"]
        return [u["content"]["text"] for u in pieces]

    # What a test does.

    def send_mail(
        self,
        method: str,
        params: dict[str, Any],
        mail_id: str,
        *,
        origin: Origin = ALICE,
        not_after: int | None = None,
        signature: str | None = None,
    ) -> None:
        """Put a mail into the stream and send it when somebody is attached."""
        message = {"method": method, "params": params}
        mail = Mail(len(self._mail) + 1, mail_id, origin, message, not_after, signature)
        self._mail.append(mail)
        self.notify(uplink.MAIL, mail)

    async def new_session(self, cwd: object, mail_id: str = "m-new") -> str:
        """Open a session by mail and give its id."""
        self.send_mail("session/new", {"cwd": str(cwd), "mcpServers": []}, mail_id)
        done = await self.outcome(mail_id)
        assert done.error is None, done.error
        return str(done.result["sessionId"])

    def decide(self, question: dict[str, Any], answer: dict[str, Any], mail_id: str) -> None:
        """Send a decision of a question."""
        trip = question["params"]["_meta"][entry.META_KEY]["roundTrip"]
        params = {"id": question["id"], "hash": trip["hash"], "answer": answer}
        self.send_mail("_bridge/decide", {**params, "decisionId": mail_id}, mail_id)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to whoever is attached."""
        self._send(jsonrpc.notification(method, params))

    def request(self, id_: int, method: str, params: Any) -> None:
        """Send a request; the answer comes to be in ``answers``."""
        self._send(jsonrpc.request(id_, method, params))

    def resend_mail(self) -> None:
        """Send all mail again."""
        for mail in self._mail:
            self.notify(uplink.MAIL, mail)

    def tear(self) -> None:
        """Break the connection without a word."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def close(self, code: int, reason: str) -> None:
        """Close the connection in order."""
        if self._socket is not None:
            await self._socket.close(code, reason)

    # Inside.

    def _send(self, text: bytes) -> None:
        if self._socket is not None and self._socket.state is State.OPEN:
            self._socket.protocol.send_text(text)
            self._socket.transport.write(b"".join(self._socket.protocol.data_to_send()))

    def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        self.headers.append(dict(request.headers.raw_items()))
        if self.status is not None:
            return socket.respond(self.status, json.dumps({"error": {"message": "as told"}}))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            error = {"error": {"message": "invalid token: expired 4 minutes ago"}}
            return socket.respond(HTTPStatus.UNAUTHORIZED, json.dumps(error))
        return None

    async def _serve(self, socket: ServerConnection) -> None:
        try:
            if not await self._greet(socket):
                return
            async for text in socket:
                self._take(text.encode() if isinstance(text, str) else text, socket)
                self._changed.set()
        except ConnectionClosed:
            pass
        self._changed.set()

    async def _greet(self, socket: ServerConnection) -> bool:
        message = jsonrpc.parse(await socket.recv(decode=False))
        assert isinstance(message, jsonrpc.Request)
        assert message.method == uplink.HELLO
        hello = msgspec.json.decode(message.params, type=Hello)
        if self.hello_error is not None:
            error, self.hello_error = self.hello_error, None
            await socket.send(jsonrpc.error(message.id, error), text=True)
            return False
        result = {
            "relay": {"version": "0", "node": "fake"},
            "limits": self.limits,
            "sessions": [self._stored(card.session_id) for card in hello.sessions],
            "closed": [id_ for id_ in hello.open if id_ in self.closed],
            "time": time.time_ns() // 1_000_000 + self.ahead_ms,
        }
        await socket.send(jsonrpc.result(message.id, result), text=True)
        self._socket = socket
        self.hellos.append(hello)
        if self.closes_with is not None:
            await socket.close(*self.closes_with)
            return False
        for mail in self._mail[hello.mail.journaled :]:
            self.notify(uplink.MAIL, mail)
        self._changed.set()
        return True

    def _stored(self, session_id: str, **more: Any) -> dict[str, Any]:
        last = self._arrivals.setdefault(session_id, Arrivals()).last
        return {"sessionId": session_id, "epoch": last.epoch, "seq": last.seq, **more}

    def _take(self, text: bytes, socket: ServerConnection) -> None:
        message = jsonrpc.parse(text)
        if isinstance(message, jsonrpc.Response):
            self.answers[message.id] = json.loads(text)
        elif message.method in entry.METHODS:
            self._take_entry(text, socket)
        elif message.method == uplink.PING and self.answers_pings:
            self.notify(uplink.PONG, message.params)
        else:
            self.told.append((message.method, jsonrpc.payload(message.params)))

    def _take_entry(self, text: bytes, socket: ServerConnection) -> None:
        self.heard += 1
        if self.cut_after is not None and self.heard > self.cut_after:
            self.cut_after = None
            socket.transport.abort()
        if self.heard in self.loses or socket.transport.is_closing():
            return
        envelope = entry.read(text)
        session_id = envelope.session_id
        arrivals = self._arrivals.setdefault(session_id, Arrivals(START))
        prev = Cursor.parse(envelope.meta.prev) if envelope.meta.prev else None
        accepted = arrivals.accept(envelope.cursor, prev)
        if accepted:
            self.entries.setdefault(session_id, []).append((envelope.cursor, text))
        elif accepted is False:
            self.repeats += 1
        if self.acknowledges:
            more = {"resend": True} if accepted is None else {}
            self.notify(uplink.ACK, self._stored(session_id, **more))
