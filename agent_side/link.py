"""One connection to the relay: greets it, sends what waits, hears what comes, notices silence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any, Protocol

import msgspec
from websockets.asyncio.client import ClientConnection

from agent_side.outbox import Outbox
from agent_side.status import Status
from bridge.protocol import jsonrpc, uplink
from bridge.protocol.attachment import Reason
from bridge.protocol.errors import BridgeError, MethodNotFound
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import (
    DeviceRevoked,
    Hello,
    HelloResult,
    Mail,
    PairingNews,
    Presence,
    Stored,
)

HELLO_REQUEST, TOKEN_REQUEST = 1, 2  # ids of what we ask
HELLO_SECONDS = 15.0  # for the relay's answer to our greeting
TICK_SECONDS = 1.0  # how often silence is measured
SLEPT_SECONDS = 30.0  # the wall clock ran so much further than ours: the machine slept


class HelloRefused(Exception):
    """The relay answered our greeting with an error."""

    def __init__(self, error: Payload) -> None:
        """Keep the JSON-RPC error object."""
        super().__init__(str(error.get("message", error)))
        code = error.get("code")
        self.code = code if isinstance(code, int) else None
        data = error.get("data")
        self.data: Payload = data if isinstance(data, dict) else {}


class Dead(Exception):
    """The relay has been silent too long, or this machine slept."""

    def __init__(self, reason: Reason, detail: str) -> None:
        """Keep which of the two it was."""
        super().__init__(detail)
        self.reason = reason


class Party(Protocol):
    """The connector, as its uplink sees it."""

    def hello(self) -> Hello:
        """Give the greeting."""

    def raise_epoch(self, at_least: int) -> None:
        """Number what follows above an epoch that the relay holds."""

    def welcomed(self, result: HelloResult) -> None:
        """Take the relay's answer to the greeting."""

    def mail(self, mail: Mail) -> None:
        """Take a mail."""

    def presence(self, presence: Presence) -> None:
        """Take who watches a session."""

    def pairing(self, news: PairingNews) -> None:
        """Take what a device answered."""

    def device_revoked(self, id_: str) -> None:
        """Forget a device that was shut out at the relay."""

    def history(self, params: Payload) -> Payload:
        """Give a page of a session's journal; raises BridgeError."""


class Link:
    """An open websocket and the three tasks on it; ``run`` ends with its first fault."""

    def __init__(
        self, socket: ClientConnection, party: Party, outbox: Outbox, status: Status
    ) -> None:
        """Speak on a socket that is open."""
        self.greeted = False
        self._socket = socket
        self._party = party
        self._outbox = outbox
        self._status = status
        self._control: deque[bytes] = deque()  # before any entry: a ping never waits for text
        self._pages: deque[bytes] = deque()  # of history, each before or behind one entry
        self._page_is_next = True
        self._wake = asyncio.Event()
        self._heard_at = time.monotonic()
        self._pings: dict[int, float] = {}
        self._count = 0
        self._settled = asyncio.Event()

    async def greet(self) -> None:
        """Exchange the greeting; raises HelloRefused, TimeoutError, ConnectionClosed."""
        begun = time.monotonic()
        hello = jsonrpc.request(HELLO_REQUEST, uplink.HELLO, self._party.hello())
        await self._socket.send(hello, text=True)
        async with asyncio.timeout(HELLO_SECONDS):
            answer = jsonrpc.parse(await self._socket.recv(decode=False))
        if not isinstance(answer, jsonrpc.Response) or answer.result is None:
            error = answer.error if isinstance(answer, jsonrpc.Response) else None
            raise HelloRefused(jsonrpc.payload(error) if error else {"message": "no answer"})
        result = msgspec.json.decode(answer.result, type=HelloResult)
        self.greeted = True
        self._heard_at = time.monotonic()
        self._status.round_trip_ms = round((self._heard_at - begun) * 1000)
        self._outbox.connect(result.sessions, result.limits)
        self._outbox.unsent = self._unsent
        self._party.welcomed(result)

    async def run(self) -> None:
        """Serve until something ends it; raises ConnectionClosed, Dead or BridgeError."""
        tasks = [asyncio.create_task(step()) for step in (self._send, self._hear, self._watch)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._outbox.disconnect()

    def tell(self, method: str, params: Any) -> None:
        """Send a message of our own, before the entries that wait."""
        self._control.append(jsonrpc.notification(method, params))
        self._wake.set()

    def show_token(self, token: str) -> None:
        """Let the relay know us by a newer token; if it does not, the old one's end shows it."""
        self._control.append(jsonrpc.request(TOKEN_REQUEST, uplink.TOKEN, {"token": token}))
        self._wake.set()

    def poke(self) -> None:
        """Say that the outbox may have something."""
        self._wake.set()

    async def drained(self) -> None:
        """Wait until all is sent and acknowledged."""
        self._settled.clear()
        self._wake.set()
        await self._settled.wait()

    async def close(self) -> None:
        """Close the socket in order."""
        await self._socket.close()

    # Sending.

    async def _send(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while (text := self._next()) is not None:
                await self._socket.send(text, text=True)
            if self._outbox.idle:
                self._settled.set()

    def _next(self) -> bytes | None:
        if self._control:
            return self._control.popleft()
        if self._pages and self._page_is_next:
            self._page_is_next = False
            return self._pages.popleft()
        self._page_is_next = True
        text = self._outbox.next()
        return self._pages.popleft() if text is None and self._pages else text

    # Hearing.

    async def _hear(self) -> None:
        while True:
            text = await self._socket.recv(decode=False)
            self._heard_at = time.monotonic()
            self._status.hear()
            self._take(jsonrpc.parse(text))

    def _take(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Request):
            self._answer(message)
        elif isinstance(message, jsonrpc.Notification):
            self._take_notification(message)

    def _take_notification(self, message: jsonrpc.Notification) -> None:
        params = message.params
        if message.method == uplink.ACK:
            self._acknowledged(msgspec.json.decode(params, type=Stored))
        elif message.method == uplink.MAIL:
            self._party.mail(msgspec.json.decode(params, type=Mail))
        elif message.method == uplink.PRESENCE:
            self._party.presence(msgspec.json.decode(params, type=Presence))
        elif message.method == uplink.PAIRING:
            self._party.pairing(msgspec.json.decode(params, type=PairingNews))
        elif message.method == uplink.DEVICE_REVOKED:
            self._party.device_revoked(msgspec.json.decode(params, type=DeviceRevoked).device)
        elif message.method == uplink.PING:
            self.tell(uplink.PONG, params)
        elif message.method == uplink.PONG:
            self._ponged(jsonrpc.payload(params).get("n"))

    def _acknowledged(self, stored: Stored) -> None:
        again = self._outbox.acknowledge(stored)
        if again:
            asyncio.get_running_loop().call_later(again, self._acknowledged, stored)
        self._wake.set()

    def _answer(self, request: jsonrpc.Request) -> None:
        try:
            if request.method != uplink.HISTORY:
                raise MethodNotFound(f"{request.method[:80]!r} is not known here")
            page = self._party.history(jsonrpc.payload(request.params))
            self._pages.append(jsonrpc.result(request.id, page))
        except BridgeError as error:
            self._control.append(jsonrpc.error(request.id, error))
        self._wake.set()

    # Noticing silence.

    async def _watch(self) -> None:
        asked_at: float | None = None
        waiting = self._unsent()
        while True:
            skew = time.time() - time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            if time.time() - time.monotonic() - skew > SLEPT_SECONDS:
                raise Dead(Reason.HOST_ASLEEP, "this machine was asleep")
            if (left := self._unsent()) < waiting:  # the other side takes bytes: it lives
                self._heard_at = time.monotonic()
            waiting = left
            asked_at = self._measure(asked_at)

    def _measure(self, asked_at: float | None) -> float | None:
        now = time.monotonic()
        if now - self._heard_at < uplink.PING_AFTER_SECONDS:
            return None
        if asked_at is None:
            self._ping(now)
            return now
        if now - asked_at > uplink.DEAD_AFTER_SECONDS:
            raise Dead(Reason.PONG_MISSED, f"nothing heard for {now - self._heard_at:.0f} s")
        return asked_at

    def _ping(self, now: float) -> None:
        self._count += 1
        self._pings = {self._count: now}
        self.tell(uplink.PING, {"n": self._count})

    def _ponged(self, number: object) -> None:
        sent = self._pings.pop(number, None) if isinstance(number, int) else None
        if sent is not None:
            self._status.round_trip_ms = round((time.monotonic() - sent) * 1000)

    def _unsent(self) -> int:
        transport = self._socket.transport
        with contextlib.suppress(AttributeError):
            return transport.get_write_buffer_size()
        return 0
