"""Keeps a connection to the relay: for ever on network faults, never against a refusal."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable
from typing import Any

from websockets.asyncio.client import connect

from agent_side import faults, network
from agent_side.faults import ExitReason, Fault
from agent_side.link import HelloRefused, Link, Party
from agent_side.outbox import Outbox
from agent_side.proof_key import ProofKey
from agent_side.settings import RelayTarget, SettingsError
from agent_side.status import Status
from bridge.protocol import uplink
from bridge.protocol.attachment import Reason

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
ALIVE_SECONDS = 1.0  # a relay that greeted us and lived so long was no failed attempt
OPEN_SECONDS = 20.0  # for TCP, TLS and the websocket's handshake together
GOODBYE_SECONDS = 2.0  # to send and have acknowledged what waits at the end
TOKEN_SECONDS = 1.0  # between looks whether the token's file holds another one

logger = logging.getLogger(__name__)


class Backoff:
    """Seconds before the next attempt: at random, at most as long again as the relay was away.

    So who waits is back soon after it is, and as many as it lost come spread over that time. Never
    quite at once: what cuts one connection mostly cuts many, which must not come in step.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with the shortest waits."""
        self._clock = clock
        self._away_since: float | None = None

    def reset(self) -> None:
        """Begin again with the shortest waits."""
        self._away_since = None

    def lived(self, seconds: float) -> None:
        """Begin again if a connection that was greeted has lived for a moment."""
        if seconds >= ALIVE_SECONDS:
            self.reset()

    def next(self, told: float = 0.0) -> float:
        """Give the seconds to wait now; ``told``: the least that the relay asked for.

        Who is told to come later comes within as long again: all were told the same.
        """
        if told:
            self.reset()  # it is there, and says when it makes sense
            return told + random.uniform(0, max(1.0, told / 4))
        now = self._clock()
        if self._away_since is None:
            self._away_since = now
        away = max(FIRST_DELAY_SECONDS, now - self._away_since)
        return random.uniform(0, min(away, LONGEST_DELAY_SECONDS))


class Uplink:
    """The way to one relay; ``run`` ends only when trying again would not help."""

    def __init__(
        self,
        target: RelayTarget,
        party: Party,
        outbox: Outbox,
        status: Status,
        key: ProofKey | None = None,
    ) -> None:
        """Keep where to go, for whom, and the machine's key that each attempt is signed with."""
        self._key = key
        self._target = target
        self._party = party
        self._outbox = outbox
        self._status = status
        self._link: Link | None = None
        self._backoff = Backoff()
        self._token = ""
        self._refused = ""  # the token that was not taken
        self._greeted = False  # ever, by this process
        self._raised = False  # the epoch, once
        self._waits_for_token = False

    def tell(self, method: str, params: Any) -> None:
        """Send a message of our own when connected; the greeting makes up for it otherwise."""
        if self._link is not None:
            self._link.tell(method, params)

    def poke(self) -> None:
        """Say that the outbox has something."""
        if self._link is not None and self._link.greeted:
            self._link.poke()

    async def run(self) -> ExitReason:
        """Connect, serve, connect again; give the reason when that is over.

        Who was let in once is not ended by a token that has: it waits for another one in its file,
        and asks the relay nothing meanwhile.
        """
        if not (self._target.encrypted or self._target.loopback):
            logger.warning("%s is not encrypted: the token can be read", self._target.url)
        while True:
            told = 0.0
            try:
                await self._once()
            except Exception as error:  # noqa: BLE001 (the top of a task: sorted in faults.py)
                if (final := self._take(error)) is not None:
                    return final
                told = faults.retry_after(error)
            if self._waits_for_token:
                await self._renewed()
                self._waits_for_token = False
                self._backoff.reset()
            elif await network.pause(self._backoff.next(told)):
                self._backoff.reset()

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
        self._token = ""  # of a file that cannot be read
        self._token = self._target.read_token()
        async with connect(self._target.uplink_url, **self._options()) as socket:
            link = Link(socket, self._party, self._outbox, self._status)
            self._link = link
            try:
                await link.greet()
                self._greeted = True
                self._status.connect()
                logger.info("attached to %s", self._target.url)
                greeted_at = time.monotonic()
                renewing = asyncio.create_task(self._renew_in_band(link))
                try:
                    await link.run()
                finally:
                    renewing.cancel()
                    self._backoff.lived(time.monotonic() - greeted_at)
            finally:
                self._link = None

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "subprotocols": [uplink.SUBPROTOCOL],
            "additional_headers": self._headers(),
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

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self._token}"}
        if self._key is not None:
            headers["DPoP"] = self._key.prove(self._target.uplink_url, self._token)
        return headers

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()  # honours SSL_CERT_FILE
        if self._target.ca is not None:
            context.load_verify_locations(self._target.ca)
        return context

    # What went wrong.

    def _take(self, error: Exception) -> ExitReason | None:
        """Note a failure; give the reason to end when trying again does not help."""
        fault = faults.read(error, self._target.url)
        final = None if self._can_mend(error, fault) else fault.exit
        if final is not None and fault.token_refused and self._may_be_renewed:
            self._waits_for_token = True
            logger.warning("%s; waiting for another token", final.sentence)
            final = None
        if fault.reason is Reason.HOST_ASLEEP:
            self._backoff.reset()
        told = self._waits_for_token or final is not None
        if self._status.lose(fault.reason, fault.detail) and not told:
            logger.warning("relay unreachable: %s; trying again", fault.detail)
        if not fault.expected:
            logger.error("the uplink failed in an unexpected way", exc_info=error)
        return final

    def _can_mend(self, error: Exception, fault: Fault) -> bool:
        """Try once with a token that was renewed meanwhile, or with an epoch above the held one."""
        if fault.token_refused:
            fresh, self._refused = self._fresh_token(), self._token
            return fresh not in (None, self._token, self._refused)
        held = error.data.get("epoch") if isinstance(error, HelloRefused) else None
        if fault.exit is None or not isinstance(held, int) or self._greeted or self._raised:
            return False
        self._raised = True
        self._party.raise_epoch(held + 1)
        return True

    # Tokens that are renewed in place.

    @property
    def _may_be_renewed(self) -> bool:
        return self._greeted and self._target.token_file is not None

    async def _renewed(self) -> None:
        """Wait until there is another token than the last one."""
        while self._fresh_token() in (None, "", self._token):  # noqa: ASYNC110 (a file)
            await asyncio.sleep(TOKEN_SECONDS)

    async def _renew_in_band(self, link: Link) -> None:
        """Show the relay each new token: so the end of the old one ends nothing."""
        while self._may_be_renewed:
            await asyncio.sleep(TOKEN_SECONDS)
            fresh = self._fresh_token()
            if fresh and fresh != self._token:
                self._token = fresh
                link.show_token(fresh)

    def _fresh_token(self) -> str | None:
        try:
            return self._target.read_token()
        except SettingsError:
            return None
