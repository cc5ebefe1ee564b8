"""Connectors' connections: claim, entries up, acknowledgements and mail down, truth about both.

Entries are handled as they are read: shown to whoever watches here, queued for the store, and
acknowledged when they are in it. Everything that has to wait is an errand, done in order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from bridge import keys
from bridge.agents import RENEW_SECONDS, Claim
from bridge.changes import Change
from bridge.errands import Errands
from bridge.hub import Item
from bridge.identity import Identity
from bridge.inbox import Entries, Followed
from bridge.log import Appended
from bridge.mail import parse_mail
from bridge.protocol import entry, jsonrpc, uplink
from bridge.protocol.attachment import Reason
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import (
    BridgeError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NotAllowed,
    NotFound,
    Replaced,
)
from bridge.protocol.uplink import AgentCard, Arrivals, Hello, HelloResult, SessionCard, Stored
from bridge.websocket import Socket

if TYPE_CHECKING:
    from bridge.relay import Relay

HELLO_SECONDS = 10.0
MAX_ERRANDS = 2_000  # a connector that sends faster than the store takes is told to come again
TICK_SECONDS = 1.0

logger = logging.getLogger(__name__)


class _Place:
    """One session of an uplink: whose it is and how far its entries have come."""

    __slots__ = ("arrivals", "asked", "claim", "is_resending", "stored")

    def __init__(self, claim: Claim, stored: Cursor) -> None:
        self.claim = claim
        self.arrivals = Arrivals(stored)
        self.stored = stored
        self.is_resending = False
        self.asked: list[Item] = []  # questions shown to nobody before they are stored


class Uplink:
    """One connector's connection."""

    def __init__(self, relay: Relay, identity: Identity, socket: Socket) -> None:
        """Wait for hello."""
        self._relay = relay
        self._socket = socket
        self._errands = Errands(relay.tasks, f"uplink of {identity.subject}")
        self._greeted = False
        self._welcomed = False
        self._early: list[bytes] = []  # came while hello was being answered
        self._claims: dict[str, Claim] = {}
        self._places: dict[str, _Place] = {}
        self._held: dict[str, list[bytes]] = {}  # entries whose session's card is on its way
        self._followed: list[Followed] = []
        self._listening: Any = None
        self._renewed_at = asyncio.get_running_loop().time()
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
        batches: dict[str, list[Item]] = {}
        for text in messages:
            try:
                envelope = entry.sift(text)
                if envelope is not None:
                    self._arrive(text, envelope, batches)
                    continue
                self._pass_on(batches)  # a card must not overtake what it speaks of
                self._take(jsonrpc.parse(text))
            except BridgeError as error:
                self._refuse(error)
                return
        self._pass_on(batches)

    def lost(self, code: int, reason: str) -> None:
        """Note that the connector is gone, and why."""
        self._is_over = True
        self._stop_watching()
        self._relay.uplinks.remove(self)
        for followed in self._followed:
            followed.stop()
        if self._listening is not None:
            self._listening()
        logger.info("uplink of %s ended: %s %s", self.identity.subject, code, reason)
        why = self._reason or Reason.SOCKET_CLOSED
        if code == CloseCode.RESTARTING:
            why = Reason.RELAY_RESTARTING
        self._errands.clear()
        self._errands.add(partial(self._release, why))

    # What the registry calls.

    def tick(self, now: float) -> None:
        """Renew the claims, ping a silent connector, cut a dead one."""
        expires = self.identity.expires_at
        if expires is not None and time.time() * 1000 >= expires:
            self._end(Reason.TOKEN_EXPIRED, CloseCode.TOKEN_INVALID)
        silent = now - self._socket.last_heard
        if silent >= uplink.PING_AFTER_SECONDS + uplink.DEAD_AFTER_SECONDS:
            self._end(Reason.PONG_MISSED, CloseCode.GOING_AWAY)
        elif silent >= uplink.PING_AFTER_SECONDS and self._pinged_at < self._socket.last_heard:
            self._pings += 1
            self._pinged_at = now
            self._tell(uplink.PING, {"n": self._pings})
        if now - self._renewed_at >= RENEW_SECONDS and self._claims:
            self._renewed_at = now
            self._errands.add(self._renew)

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
        self._errands.add(partial(self._welcome, message))

    async def _welcome(self, request: jsonrpc.Request) -> None:
        try:
            hello = _decode(request.params, Hello)
            result = await self._greet(hello)
        except BridgeError as error:
            self._socket.send(jsonrpc.error(request.id, error))
            self._socket.close(_close_code(error), error.message[:100])
            return
        if self._is_over:
            await self._release(Reason.SOCKET_CLOSED)
            return
        self._socket.send(jsonrpc.result(request.id, result))
        for claim in self._claims.values():
            self._follow_mail(claim, hello.mail.journaled)
        self._welcomed = True
        early, self._early = self._early, []
        if early:
            self.received(early)
        await self._listen()

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
            sessions=[Stored(id_, *place.stored) for id_, place in self._places.items()],
            closed=await relay.round_trips.closed_of(tenant, hello.open),
            time=await relay.store.time_ms(),
        )

    async def _place(self, card: SessionCard) -> None:
        claim = self._claims.get(card.agent)
        if claim is None:
            raise InvalidParams(f"session {card.session_id!r:.80} is of an agent not in hello")
        await self._relay.sessions.put_card(claim, card)
        if card.session_id in self._places:
            return
        last = await self._relay.log.last(claim.tenant, card.session_id)
        self._places[card.session_id] = _Place(claim, last)
        if self._welcomed and (held := self._held.pop(card.session_id, None)):
            self.received(held)

    # Entries.

    def _arrive(self, text: bytes, envelope: Envelope, batches: dict[str, list[Item]]) -> None:
        session_id, cursor = envelope.session_id, envelope.cursor
        place = self._places.get(session_id)
        if place is None:
            self._hold(session_id, text)
            return
        before = place.arrivals.last
        prev = envelope.meta.prev
        accepted = place.arrivals.accept(cursor, Cursor.parse(prev) if prev else None)
        if accepted is None:
            self._ask_again(session_id, place)
            return
        if not accepted:
            if cursor <= place.stored:
                self._acknowledge(session_id, place.stored)
            return
        place.is_resending = place.is_resending and before == place.stored
        item = Item(cursor, text, envelope)
        if envelope.method in entry.QUESTIONS:
            place.asked.append(item)
        batches.setdefault(session_id, []).append(item)

    def _hold(self, session_id: str, text: bytes) -> None:
        held = self._held.setdefault(session_id, [])
        held.append(text)
        if len(held) > uplink.WINDOW_ENTRIES or len(self._held) > MAX_ERRANDS:
            raise InvalidRequest(f"entries of session {session_id!r:.80}, which has no card here")

    def _pass_on(self, batches: dict[str, list[Item]]) -> None:
        """Show entries to whoever watches here, and have them stored."""
        relay, tenant = self._relay, self.identity.tenant
        for session_id, items in batches.items():
            place = self._places[session_id]
            relay.hub.publish(tenant, session_id, items)
            relay.log.append(
                place.claim, session_id, list(items), partial(self._stored, session_id, place)
            )
        batches.clear()

    def _stored(self, session_id: str, place: _Place, appended: Appended) -> None:
        if appended.state == "fenced":
            self._end(Reason.REPLACED, CloseCode.REPLACED)
        elif appended.state in {"foreign", "failed"}:
            logger.error("entries of session %s are refused: %s", session_id, appended.state)
            self._end(Reason.REFUSED, CloseCode.NOT_ALLOWED)
        else:
            place.stored = max(place.stored, appended.cursor)
            self._ask_people(session_id, place)
            if appended.state == "gap":
                place.arrivals = Arrivals(place.stored)
                self._ask_again(session_id, place)
            else:
                self._acknowledge(session_id, place.stored)

    def _ask_people(self, session_id: str, place: _Place) -> None:
        asked = [item for item in place.asked if item.cursor <= place.stored]
        place.asked = [item for item in place.asked if item.cursor > place.stored]
        self._relay.hub.stored(self.identity.tenant, session_id, asked, place.stored)

    def _acknowledge(self, session_id: str, cursor: Cursor) -> None:
        self._tell(uplink.ACK, Stored(session_id, *cursor))

    def _ask_again(self, session_id: str, place: _Place) -> None:
        if not place.is_resending:
            place.is_resending = True
            self._tell(uplink.ACK, Stored(session_id, *place.stored, resend=True))

    # Everything else.

    def _take(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Response):
            return  # nothing is asked of a connector yet
        if message.method == uplink.PING:
            self._tell(uplink.PONG, message.params)
        elif message.method == uplink.PONG:
            self.round_trip_ms = round((self._socket.last_heard - self._pinged_at) * 1000)
        elif len(self._errands) >= MAX_ERRANDS:
            self._socket.close(CloseCode.OVERLOADED)
        else:
            self._errands.add(partial(self._do, message))

    async def _do(self, message: jsonrpc.Request | jsonrpc.Notification) -> None:
        try:
            await self._carry_out(message)
        except Replaced:
            self._end(Reason.REPLACED, CloseCode.REPLACED)
        except BridgeError as error:
            logger.warning("%s of %s: %s", message.method, self.identity.subject, error)
            if isinstance(message, jsonrpc.Request):
                self._socket.send(jsonrpc.error(message.id, error))

    async def _carry_out(self, message: jsonrpc.Request | jsonrpc.Notification) -> None:
        relay, method, params = self._relay, message.method, message.params
        if method == uplink.SESSION:
            await self._place(_decode(params, SessionCard))
        elif method == uplink.AGENT:
            card = _decode(params, AgentCard)
            await relay.agents.put_card(self._claim(card.id), card)
        elif method == uplink.MAIL_JOURNALED:
            for claim in self._claims.values():
                await relay.mailbox.acknowledge(claim, int(jsonrpc.payload(params)["upTo"]))
        elif method == uplink.MAIL_DONE:
            done = _decode(params, uplink.MailDone)
            for claim in self._claims.values():
                await relay.mailbox.done(claim, done)
        elif method == uplink.GOODBYE:
            self._reason = Reason.SAID_GOODBYE
        elif method == uplink.TOKEN and isinstance(message, jsonrpc.Request):
            self._socket.send(jsonrpc.result(message.id, self._renew_token(params)))
        elif isinstance(message, jsonrpc.Request):
            raise MethodNotFound(f"unknown method {method!r:.80}")

    def _renew_token(self, params: msgspec.Raw) -> dict[str, Any]:
        token = str(jsonrpc.payload(params).get("token", ""))
        fresh = self._relay.tokens.verify(token, "agent", door=self.identity.door)
        if (fresh.tenant, fresh.subject) != (self.identity.tenant, self.identity.subject):
            raise NotAllowed("the new token is of another subject")
        self._stop_watching()
        self._stop_watching = self._relay.identities.watch(fresh.token_id, self.revoke)
        self.identity = fresh
        return {"expiresAt": fresh.expires_at and entry.timestamp(fresh.expires_at)}

    def _claim(self, agent: str) -> Claim:
        claim = self._claims.get(agent)
        if claim is None:
            raise NotFound(f"agent {agent!r:.80} is not claimed on this uplink")
        return claim

    # Down.

    def _follow_mail(self, claim: Claim, journaled: int) -> None:
        stream = keys.mail(claim.tenant, claim.agent)
        after = f"{journaled}-0"
        follow = self._relay.inbox.follow
        self._followed.append(follow(claim.tenant, stream, after, self._on_mail))

    def _on_mail(self, entries: Entries) -> None:
        for stream_id, fields in entries:
            self._tell(uplink.MAIL, parse_mail(stream_id, fields))

    async def _listen(self) -> None:
        """Tell the connector who watches its sessions, now and whenever it changes."""
        tenant = self.identity.tenant
        stop = await self._relay.changes.listen(tenant, self._on_change)
        if self._is_over:
            stop()
            return
        self._listening = stop
        await self._tell_presence(list(self._places), only_watched=True)

    def _on_change(self, change: Change) -> None:
        if change.kind == "presence" and change.id in self._places:
            self._errands.add(partial(self._tell_presence, [change.id]))

    async def _tell_presence(self, session_ids: list[str], *, only_watched: bool = False) -> None:
        found = await self._relay.presence.of(self.identity.tenant, session_ids)
        for session_id, watching in zip(session_ids, found, strict=True):
            if watching or not only_watched:
                self._tell(uplink.PRESENCE, uplink.Presence(session_id, watching))

    async def _renew(self) -> None:
        quiet = asyncio.get_running_loop().time() - self._socket.last_heard
        last_seen = round((time.time() - quiet) * 1000)
        for claim in self._claims.values():
            if not await self._relay.agents.renew(claim, last_seen) and not self._is_over:
                self._end(Reason.REPLACED, CloseCode.REPLACED)

    async def _release(self, reason: Reason) -> None:
        claims, self._claims = self._claims, {}
        for claim in claims.values():
            await self._relay.agents.close(claim, reason)

    def _end(self, reason: Reason, code: CloseCode) -> None:
        self._reason = self._reason or reason
        self._socket.close(code)

    def _refuse(self, error: BridgeError) -> None:
        logger.warning("uplink of %s: %s", self.identity.subject, error)
        self._reason = Reason.REFUSED
        self._socket.close(CloseCode.BAD_REQUEST, error.message[:100])

    def _tell(self, method: str, params: Any) -> None:
        self._socket.send(jsonrpc.notification(method, params))


class Uplinks:
    """The uplinks of this process."""

    def __init__(self) -> None:
        """Begin without any."""
        self._all: set[Uplink] = set()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def add(self, one: Uplink) -> None:
        """Take one more."""
        self._all.add(one)

    def remove(self, one: Uplink) -> None:
        """Forget one."""
        self._all.discard(one)

    async def run(self) -> None:
        """Keep claims, pings and ends of tokens, once a second for all of them."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            for one in tuple(self._all):
                one.tick(loop.time())

    async def release(self) -> None:
        """Give all claims back before this process ends."""
        for one in tuple(self._all):
            await one.release()


def _decode(raw: msgspec.Raw, type_: type[Any]) -> Any:
    try:
        return msgspec.json.decode(raw, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidParams(f"not a {type_.__name__.lower()}: {error}") from None


def _close_code(error: BridgeError) -> CloseCode:
    return CloseCode(error.close_code)  # type: ignore[call-arg]
