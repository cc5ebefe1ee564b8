"""Keeps a connection to the relay: for ever on network faults, never against a refusal."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from dataclasses import dataclass
from typing import Any

import msgspec
from websockets.asyncio.client import connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)

from agent_side.link import Dead, HelloRefused, Link, Party
from agent_side.outbox import Outbox
from agent_side.settings import RelayTarget, SettingsError
from agent_side.status import Status
from bridge.protocol import uplink
from bridge.protocol.attachment import Reason
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.errors import BridgeError, InvalidParams, Replaced, TokenInvalid

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
STEADY_SECONDS = 30.0  # a connection that lived so long was no failed attempt
OPEN_SECONDS = 20.0  # for TCP, TLS and the websocket's handshake together
GOODBYE_SECONDS = 2.0  # to send and have acknowledged what waits at the end

REFUSED, REPLACED, FAULT = 3, 4, 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExitReason:
    """Why the connector ends: the process's exit code and a sentence."""

    code: int
    sentence: str


class Backoff:
    """Seconds before the next attempt: none, then full jitter that doubles to a bound."""

    def __init__(self) -> None:
        """Begin with an attempt at once."""
        self._ceiling = 0.0

    def reset(self) -> None:
        """Begin again with an attempt at once."""
        self._ceiling = 0.0

    def next(self) -> float:
        """Give the seconds to wait now."""
        delay = random.uniform(0, self._ceiling)
        self._ceiling = min(max(FIRST_DELAY_SECONDS, self._ceiling * 2), LONGEST_DELAY_SECONDS)
        return delay


class Uplink:
    """The way to one relay; ``run`` ends only when trying again would not help."""

    def __init__(self, target: RelayTarget, party: Party, outbox: Outbox, status: Status) -> None:
        """Keep where to go and for whom."""
        self._target = target
        self._party = party
        self._outbox = outbox
        self._status = status
        self._link: Link | None = None
        self._backoff = Backoff()
        self._token = ""
        self._refused_token: str | None = None
        self.ever_greeted = False

    def tell(self, method: str, params: Any) -> None:
        """Send a message of our own when connected; the greeting makes up for it otherwise."""
        if self._link is not None and self._link.greeted:
            self._link.tell(method, params)

    def poke(self) -> None:
        """Say that the outbox has something."""
        if self._link is not None and self._link.greeted:
            self._link.poke()

    async def run(self) -> ExitReason:
        """Connect, serve, connect again; give the reason when that is over."""
        if not (self._target.encrypted or self._target.loopback):
            logger.warning(
                "%s is not encrypted: the token can be read", self._target.url
            )
        while True:
            begun = time.monotonic()
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001 (the top of a task: sorted out below)
                final = self._take_fault(error)
                if final is not None:
                    return final
            if time.monotonic() - begun > STEADY_SECONDS:
                self._backoff.reset()
            await asyncio.sleep(self._backoff.next())

    async def say_goodbye(self, reason: Reason) -> None:
        """Send what waits, then the end's reason, in the little time there is."""
        link = self._link
        if link is None or not link.greeted:
            return
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await link.drained()
                link.tell(uplink.GOODBYE, {"reason": str(reason)})
                await link.drained()
                await link.close()
        except TimeoutError:
            logger.debug("the relay did not take everything in time")

    # One connection.

    async def _once(self) -> None:
        self._token = self._target.read_token()
        async with connect(self._target.uplink_url, **self._options()) as socket:
            link = Link(socket, self._party, self._outbox, self._status)
            self._link = link
            try:
                await link.greet()
                self._refused_token = None
                self.ever_greeted = True
                self._status.connect()
                logger.info("attached to %s", self._target.url)
                await link.run()
            finally:
                self._link = None

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "subprotocols": [uplink.SUBPROTOCOL],
            "additional_headers": {"Authorization": f"Bearer {self._token}"},
            "compression": None,
            "max_size": uplink.FRAME_LIMIT,
            "open_timeout": OPEN_SECONDS,
            "ping_interval": None,  # ours go through the message path
            "close_timeout": 2,
        }
        if self._target.encrypted:
            options["ssl"] = self._tls()
        if self._target.loopback:
            options["proxy"] = None
        return options

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()  # honours SSL_CERT_FILE
        if self._target.ca is not None:
            context.load_verify_locations(self._target.ca)
        return context

    # What went wrong.

    def _take_fault(self, error: Exception) -> ExitReason | None:
        final = self._final(error)
        reason, detail = _told(error)
        if reason is Reason.HOST_ASLEEP:
            self._backoff.reset()
        news = self._status.lose(final[0] if final else reason, detail)
        if final is not None:
            return final[1]
        if news:
            logger.warning("relay unreachable: %s; trying again", detail)
        if not isinstance(error, EXPECTED):
            logger.error("the uplink failed in an unexpected way", exc_info=error)
        return None

    def _final(self, error: Exception) -> tuple[Reason, ExitReason] | None:
        if isinstance(error, SettingsError):
            return Reason.REFUSED, ExitReason(REFUSED, str(error))
        code = _code(error)
        if code in (401, CloseCode.TOKEN_INVALID):
            return self._refused_credentials(_said(error))
        if code in (403, CloseCode.NOT_ALLOWED):
            return Reason.REFUSED, ExitReason(
                REFUSED, f"{self._target.url} does not allow this connector: {_said(error)}"
            )
        if code in (CloseCode.REPLACED, Replaced.code):
            return Reason.REPLACED, ExitReason(
                REPLACED,
                "another connector process has taken over this agent"
                f" ({_said(error)}); this one ends",
            )
        if code in (426, CloseCode.UPGRADE_REQUIRED):
            return Reason.REFUSED, ExitReason(
                FAULT, f"{self._target.url} speaks another uplink version: update chimera-bridge"
            )
        if code == InvalidParams.code:
            said = _said(error)
            return Reason.REFUSED, ExitReason(FAULT, f"{self._target.url} refused us: {said}")
        return None

    def _refused_credentials(self, said: str) -> tuple[Reason, ExitReason] | None:
        """A token that was renewed in its file meanwhile is tried once."""
        try:
            fresh = self._target.read_token()
        except SettingsError as error:
            return Reason.REFUSED, ExitReason(REFUSED, str(error))
        if fresh not in (self._token, self._refused_token):
            self._refused_token = self._token
            return None
        return Reason.TOKEN_EXPIRED if "expired" in said else Reason.REFUSED, ExitReason(
            REFUSED,
            f"{self._target.url} does not take the token ({said}); get another one with"
            " `chimera-relay token --kind agent` and set FERRET_BRIDGE_TOKEN or --token-file",
        )


EXPECTED = (
    OSError,
    TimeoutError,
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidURI,
    HelloRefused,
    Dead,
    BridgeError,
    msgspec.DecodeError,
    ImportError,
)


def _code(error: Exception) -> int | None:
    if isinstance(error, InvalidStatus):
        return error.response.status_code
    if isinstance(error, ConnectionClosed):
        return error.rcvd.code if error.rcvd else None
    if isinstance(error, HelloRefused):
        if error.code == TokenInvalid.code:
            return int(CloseCode.TOKEN_INVALID)
        return error.code if isinstance(error.code, int) else None
    return None


def _said(error: Exception) -> str:
    if isinstance(error, InvalidStatus):
        return _of_response(error)
    if isinstance(error, ConnectionClosed) and error.rcvd:
        return error.rcvd.reason or f"close code {error.rcvd.code}"
    return str(error)


def _of_response(error: InvalidStatus) -> str:
    body = bytes(error.response.body or b"")[:2000]
    try:
        said = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        said = ""
    return f"HTTP {error.response.status_code}" + (f": {said}" if said else "")


def _told(error: Exception) -> tuple[Reason, str]:
    if isinstance(error, Dead):
        asleep = "asleep" in str(error)
        return (Reason.HOST_ASLEEP if asleep else Reason.PONG_MISSED), str(error)
    if isinstance(error, ConnectionClosed):
        code = error.rcvd.code if error.rcvd else None
        restarting = code == CloseCode.RESTARTING
        said = _said(error) if error.rcvd else "the connection broke"
        return (Reason.RELAY_RESTARTING if restarting else Reason.SOCKET_CLOSED), said
    if isinstance(error, InvalidStatus):
        return Reason.RELAY_UNREACHABLE, f"it answered {_said(error)}; is that a relay's address?"
    if isinstance(error, TimeoutError):
        return Reason.RELAY_UNREACHABLE, "no answer in time"
    if isinstance(error, HelloRefused):
        return Reason.RELAY_UNREACHABLE, str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Reason.RELAY_UNREACHABLE, f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return Reason.RELAY_UNREACHABLE, error.strerror
    return Reason.RELAY_UNREACHABLE, str(error) or type(error).__name__
