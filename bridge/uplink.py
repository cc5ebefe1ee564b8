"""One connector's connection: claim, entries up, acknowledgements and mail down, truth about both.

Entries are handled as they are read: shown to whoever watches here, queued for the store, and
acknowledged when they are in it. Everything that has to wait is an errand, done in order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from bridge import introductions, keys
from bridge.agents import CLAIMED, RENEW_SECONDS, Claim
from bridge.changes import Change
from bridge.errands import Errands, Work
from bridge.identity import Identity, renewed
from bridge.inbox import Entries, Followed
from bridge.inquiries import Inquiries
from bridge.introductions import Introductions
from bridge.mail import parse_mail
from bridge.outage import Outage
from bridge.places import Places
from bridge.protocol import close_codes, entry, jsonrpc, uplink
from bridge.protocol.attachment import Reason
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.errors import (
    BridgeError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotFound,
    Replaced,
    StoreUnavailable,
)
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import AgentCard, Hello, HelloResult, SessionCard
from bridge.wire import Socket

if TYPE_CHECKING:
    from bridge.relay import Relay

HELLO_SECONDS = 5.0
# Looked at once a second: said within the time that the protocol gives, not after it.
DEAD_SECONDS = uplink.PING_AFTER_SECONDS + uplink.DEAD_AFTER_SECONDS - 1.0
MAX_ERRANDS = 2_000  # a connector that sends faster than the store takes is told to come again

logger = logging.getLogger(__name__)


class Uplink:
    """One connector's connection."""

    def __init__(self, relay: Relay, identity: Identity, socket: Socket) -> None:
        """Wait for hello."""
        self._relay = relay
        self._socket = socket
        self._errands = Errands(relay.tasks, f"uplink of {identity.subject}")
        self._greeted = False
        self._welcomed = False
        self._early: list[bytes] = []  # came together with hello
        self._claims: dict[str, Claim] = {}
        self._places = Places(relay, identity.tenant, self._tell, self._on_refused)
        self._introductions = Introductions(
            relay, identity.tenant, lambda: self._claims, self._tell
        )
        self._outage = Outage(f"uplink of {identity.subject}")
        self._followed: list[Followed] = []
        self._listening: Callable[[], None] | None = None
        self._renewed_at = asyncio.get_running_loop().time()
        self._inquiries = Inquiries(socket)
        self._pings = 0
        self._pinged_at = 0.0
        self._reason: Reason | None = None
        self._is_over = False
        self.identity = identity
        self.round_trip_ms: int | None = None
        self._stop_watching = relay.identities.watch(identity.token_id, self.revoke)
        socket.expect_within(HELLO_SECONDS)
        relay.uplinks.add(self)

    # What the socket calls.

    def received(self, messages: list[bytes]) -> None:
        """Take what one read brought."""
        if not self._welcomed:
            self._take_early(messages)
            return
        try:
            for text in messages:
                envelope = entry.sift(text)
                if envelope is not None:
                    self._places.arrive(text, envelope)
                    continue
                self._places.pass_on()  # a card must not overtake what it speaks of
                self._take(jsonrpc.parse(text))
            self._places.pass_on()
        except BridgeError as error:
            self._refuse(error)

    def lost(self, code: int, reason: str) -> None:
        """Note that the connector is gone, and why."""
        self._is_over = True
        self._stop_watching()
        self._relay.uplinks.remove(self)
        self._inquiries.end()
        if self._welcomed:
            self._relay.journals.stop_listening(self.identity.tenant)
        for followed in self._followed:
            followed.stop()
        if self._listening is not None:
            self._listening()
        logger.info("uplink of %s ended: %s %s", self.identity.subject, code, reason)
        why = self._reason or Reason.SOCKET_CLOSED
        if code == CloseCode.RESTARTING and self._reason is None:
            why = Reason.RELAY_RESTARTING
        self._errands.add(partial(self._release, why))  # behind what the connector said last

    # What the registry calls.

    def tick(self, now: float) -> None:
        """Renew the claims, ping a silent connector, cut a dead one."""
        expires = self.identity.expires_at
        if expires is not None and time.time() * 1000 >= expires:
            self._end(Reason.TOKEN_EXPIRED, CloseCode.TOKEN_INVALID)
        silent = now - self._socket.last_heard
        if silent >= DEAD_SECONDS:
            self._end(Reason.PONG_MISSED, CloseCode.GOING_AWAY)
        elif silent >= uplink.PING_AFTER_SECONDS and self._pinged_at < self._socket.last_heard:
            self._pings += 1
            self._pinged_at = now
            self._tell(uplink.PING, {"n": self._pings})
        if now - self._renewed_at >= RENEW_SECONDS and self._claims:
            self._renewed_at = now
            self._errands.add(self._renew)

    def recovered(self) -> None:
        """Look what a store that is back again still has."""
        if self._welcomed and not self._is_over:
            self._errands.add(self._renew)
            self._errands.add(partial(self._surely, self._places.compare))

    def revoke(self) -> None:
        """End: its token is no longer good."""
        self._end(Reason.TOKEN_REVOKED, CloseCode.TOKEN_INVALID)

    async def release(self) -> None:
        """Give the claims back before this process ends."""
        await self._release(Reason.RELAY_RESTARTING)

    # Hello.

    def _take_early(self, messages: list[bytes]) -> None:
        if self._greeted:
            self._early += messages
            return
        self._greeted = True
        try:
            message = jsonrpc.parse(messages[0])
            if not isinstance(message, jsonrpc.Request) or message.method != uplink.HELLO:
                raise InvalidRequest(f"the first message must be {uplink.HELLO}")
        except BridgeError as error:
            self._socket.close(CloseCode.PROTOCOL_ERROR, error.message[:100])
            return
        self._early += messages[1:]
        self._socket.pause_reading()  # until hello is answered
        self._errands.add(partial(self._welcome, message))

    async def _welcome(self, request: jsonrpc.Request) -> None:
        try:
            hello = jsonrpc.typed(request.params, Hello)
            result = await self._greet(hello)
        except BridgeError as error:
            self._socket.send(jsonrpc.error(request.id, error))
            self._socket.close(close_codes.of(error.close_code), error.message[:100])
            return
        except BaseException:
            self._socket.close(CloseCode.INTERNAL)
            raise
        if self._socket.is_open:
            self._begin(request.id, hello, result)
            await self._surely(self._listen)

    def _begin(self, request: jsonrpc.Id, hello: Hello, result: HelloResult) -> None:
        self._socket.send(jsonrpc.result(request, result))
        self._errands.add(partial(self._introductions.greet, hello))
        for claim in self._claims.values():
            self._follow_mail(claim, hello.mail.journaled)
        self._welcomed = True
        self._relay.journals.listen(self.identity.tenant)
        early, self._early = self._early, []
        if early:
            self.received(early)
        if self._socket.is_open:
            self._socket.resume_reading()

    async def _greet(self, hello: Hello) -> HelloResult:
        """Claim the agents, note their sessions, and say how far each is stored."""
        if not hello.agents:
            raise InvalidParams("hello names no agent")
        relay, tenant = self._relay, self.identity.tenant
        for card in hello.agents:
            claim = await relay.agents.claim(tenant, hello, card, relay.node)
            self._claims[card.id] = claim
        for session in hello.sessions:
            await self._place(session)
        logger.info("uplink of %s: %d sessions", self.identity.subject, len(hello.sessions))
        settings = relay.settings
        return HelloResult(
            relay={"version": relay.version, "node": relay.node},
            limits={
                "frameBytes": settings.uplink_frame_bytes,
                "windowEntries": uplink.WINDOW_ENTRIES,
                "windowBytes": uplink.WINDOW_BYTES,
            },
            sessions=self._places.stored(),
            closed=await relay.round_trips.closed_of(tenant, hello.open),
            time=await relay.store.time_ms(),
        )

    async def _place(self, card: SessionCard) -> None:
        if held := await self._places.put(self._claims.get(card.agent), card):
            self.received(held)

    # Everything else.

    def _take(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Response):
            self._inquiries.answered(message)
            return
        if message.method == uplink.PING:
            self._tell(uplink.PONG, message.params)
        elif message.method == uplink.PONG:
            self.round_trip_ms = round((self._socket.last_heard - self._pinged_at) * 1000)
        elif message.method == uplink.GOODBYE:
            self._reason = Reason.SAID_GOODBYE
        elif len(self._errands) >= MAX_ERRANDS:
            self._socket.close(CloseCode.OVERLOADED)
        else:
            self._errands.add(partial(self._do, message))

    async def _do(self, message: jsonrpc.Request | jsonrpc.Notification) -> None:
        try:
            await self._surely(partial(self._carry_out, message))
        except Replaced:
            await self._unclaimed()
        except BridgeError as error:
            logger.warning("%s of %s: %s", message.method, self.identity.subject, error)
            if isinstance(message, jsonrpc.Request):
                self._socket.send(jsonrpc.error(message.id, error))

    async def _surely(self, work: Work) -> None:
        """Do it when the store is there: what a connector says once must not be lost."""
        while True:
            try:
                await work()
            except StoreUnavailable as error:
                if self._is_over:
                    raise
                await self._outage.wait(error)
            else:
                self._outage.over()
                return

    async def _carry_out(self, message: jsonrpc.Request | jsonrpc.Notification) -> None:
        relay, method, params = self._relay, message.method, message.params
        if method in introductions.METHODS:
            await self._introductions.take(method, params)
        elif method == uplink.SESSION:
            await self._place(jsonrpc.typed(params, SessionCard))
        elif method == uplink.AGENT:
            card = jsonrpc.typed(params, AgentCard)
            await relay.agents.put_card(self._claim(card.id), card)
        elif method == uplink.MAIL_JOURNALED:
            up_to = jsonrpc.typed(params, uplink.MailJournaled).up_to
            for claim in self._claims.values():
                await relay.mailbox.acknowledge(claim, up_to)
        elif method == uplink.MAIL_DONE:
            done = jsonrpc.typed(params, uplink.MailDone)
            for claim in self._claims.values():
                await relay.mailbox.done(claim, done)
        elif method == uplink.TOKEN and isinstance(message, jsonrpc.Request):
            self._socket.send(jsonrpc.result(message.id, await self._renew_token(params)))
        elif isinstance(message, jsonrpc.Request):
            raise MethodNotFound(f"unknown method {method!r:.80}")

    async def _renew_token(self, params: msgspec.Raw) -> dict[str, Any]:
        token = str(jsonrpc.payload(params).get("token", ""))
        fresh = self.identity = await renewed(self._relay, self.identity, token)
        self._stop_watching()
        self._stop_watching = self._relay.identities.watch(fresh.token_id, self.revoke)
        return {"expiresAt": fresh.expires_at and entry.timestamp(fresh.expires_at)}

    def _claim(self, agent: str) -> Claim:
        claim = self._claims.get(agent)
        if claim is None:
            raise NotFound(f"agent {agent!r:.80} is not claimed on this uplink")
        return claim

    # What a connector is asked for.

    @property
    def agents(self) -> list[str]:
        """The ids of the agents that this connector speaks for."""
        return list(self._claims) if self._welcomed and not self._is_over else []

    def holds(self, agent: str) -> bool:
        """Whether this connector speaks for an agent."""
        return agent in self.agents

    async def ask(self, params: Payload) -> msgspec.Raw:
        """Give the connector's answer to ``uplink/history``; raises BridgeError."""
        return await self._inquiries.ask(uplink.HISTORY, params)

    # Down.

    def _follow_mail(self, claim: Claim, journaled: int) -> None:
        place = (claim.tenant, keys.mail(claim.tenant, claim.agent), f"{journaled}-0")
        self._followed.append(self._relay.inbox.follow(*place, self._on_mail))

    def _on_mail(self, entries: Entries) -> None:
        for stream_id, fields in entries:
            self._tell(uplink.MAIL, parse_mail(stream_id, fields))

    async def _listen(self) -> None:
        """Tell the connector who watches its sessions, now and whenever it changes."""
        if self._listening is None:
            tenant = self.identity.tenant
            self._listening = await self._relay.changes.listen(tenant, self._on_change)
        if self._is_over:
            self._listening()
            return
        await self._tell_presence(list(self._places), only_watched=True)

    def _on_change(self, change: Change) -> None:
        if change.kind == "roundTrip":
            self._relay.audit.written(self.identity.tenant)  # the scripts did, at its end too
        if change.kind == "presence" and change.id in self._places:
            self._errands.add(partial(self._tell_presence, [change.id]))
        elif change.kind == "agent" and change.state == CLAIMED and change.id in self._claims:
            self._errands.add(self._renew)  # perhaps by another connector process
        elif (work := self._introductions.heard(change)) is not None:
            self._errands.add(work)

    async def _tell_presence(self, session_ids: list[str], *, only_watched: bool = False) -> None:
        found = await self._relay.presence.of(self.identity.tenant, session_ids)
        for session_id, watching in zip(session_ids, found, strict=True):
            if watching or not only_watched:
                self._tell(uplink.PRESENCE, uplink.Presence(session_id, watching))

    async def _renew(self) -> None:
        quiet_ms = round((asyncio.get_running_loop().time() - self._socket.last_heard) * 1000)
        for claim in self._claims.values():
            renewed = await self._relay.agents.renew(claim, quiet_ms, self.round_trip_ms)
            if not renewed and not self._is_over:
                await self._unclaimed()

    async def _unclaimed(self) -> None:
        """End: another connector process has the agent, or the store has lost whose it is."""
        tenant = self.identity.tenant
        try:
            held = [await self._relay.agents.get(tenant, agent) for agent in self._claims]
        except NotFound:
            self._end(Reason.RELAY_RESTARTING, CloseCode.RESTARTING)  # hello claims it anew
        except StoreUnavailable:
            self._end(Reason.STORE_DOWN, CloseCode.RESTARTING)
        else:
            ours = {(claim.agent, claim.epoch) for claim in self._claims.values()}
            if {(one.id, one.epoch) for one in held} == ours:
                # Its own claim, which it made again elsewhere, or which was closed for it.
                self._end(Reason.RELAY_RESTARTING, CloseCode.RESTARTING)
            else:
                self._end(Reason.REPLACED, CloseCode.REPLACED)

    async def _release(self, reason: Reason) -> None:
        claims, self._claims = self._claims, {}
        for claim in claims.values():
            await self._relay.agents.close(claim, reason)

    def _on_refused(self, state: str) -> None:
        if state == "fenced":
            self._errands.add(self._unclaimed)
        else:
            self._end(Reason.REFUSED, CloseCode.NOT_ALLOWED)

    def _end(self, reason: Reason, code: CloseCode) -> None:
        self._reason = self._reason or reason
        self._socket.close(code)

    def _refuse(self, error: BridgeError) -> None:
        logger.warning("uplink of %s: %s", self.identity.subject, error)
        self._reason = Reason.REFUSED
        self._socket.close(CloseCode.BAD_REQUEST, error.message[:100])

    def _tell(self, method: str, params: Any) -> None:
        self._socket.send(jsonrpc.notification(method, params))
