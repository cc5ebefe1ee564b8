"""An ACP client on a websocket, to whom the relay is an agent with every session."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from bridge import calls
from bridge.changes import Change
from bridge.errands import Errands
from bridge.hub import Item, Subscriber
from bridge.identity import Identity
from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.acp import Role
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import (
    BridgeError,
    InternalError,
    Overloaded,
    ParseError,
    RateLimited,
    StoreUnavailable,
)
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.round_trip import Decision, Outcome
from bridge.protocol.uplink import Watcher
from bridge.questions import Asked, Questions, ended, open_entry
from bridge.subscriber import WHOLE
from bridge.viewer import Reading
from bridge.waiting import Waiting
from bridge.wire import Socket

if TYPE_CHECKING:
    from bridge.relay import Relay

INITIALIZE_SECONDS = 5.0
MAX_REQUESTS = 500  # of one client, not yet answered
ASIDE_AT_ONCE = 8  # pages of history, of one client

logger = logging.getLogger(__name__)


class _CancelRequest(msgspec.Struct, rename="camel"):
    request_id: Any = None


class Dashboard:
    """One client."""

    __slots__ = (  # an idle one takes little: there are thousands
        "_aside",
        "_asking",
        "_errands",
        "_greeted",
        "_is_over",
        "_stop_listening",
        "_stop_watching",
        "_undecided",
        "decides",
        "identity",
        "relay",
        "socket",
        "subscribers",
        "takes_forms",
        "visible",
        "waiting",
        "watches",
    )

    def __init__(self, relay: Relay, identity: Identity, socket: Socket) -> None:
        """Wait for initialize."""
        self.relay = relay
        self.identity = identity
        self.socket = socket
        self.decides = False  # it answers by _bridge/decide and is not asked
        self.takes_forms = False  # it advertised elicitation forms
        self.watches = False
        self.visible = True
        self.waiting = Waiting(self)
        self.subscribers: dict[str, Subscriber] = {}
        self._asking = Questions()
        self._undecided: list[tuple[Asked, Decision]] = []  # answers that the store did not take
        self._errands = Errands(relay.tasks, f"dashboard of {identity.subject}")
        self._greeted = False
        self._is_over = False
        self._aside = 0  # answers that come from afar
        self._stop_listening: Callable[[], None] | None = None
        self._stop_watching = relay.identities.watch(identity.token_id, self.revoke)
        socket.expect_within(INITIALIZE_SECONDS)
        relay.dashboards.add(self)

    @property
    def watcher(self) -> Watcher:
        """This client as others see it."""
        who = self.identity
        return Watcher(who.subject, str(who.role), who.device, self.visible)

    # What the socket calls.

    def received(self, messages: list[bytes]) -> None:
        """Take what one read brought: a message a frame, or several lines in one."""
        for frame in messages:
            for line in frame.split(b"\n") if b"\n" in frame else (frame,):
                if line.strip() and self.socket.is_open:
                    self._take(line)

    def lost(self, code: int, reason: str) -> None:
        """Leave every session."""
        del code, reason
        self._is_over = True
        self._stop_watching()
        if self._stop_listening is not None:
            self._stop_listening()
        self.relay.dashboards.remove(self)
        self._errands.clear()
        for session_id in list(self.subscribers):
            self.leave(session_id)

    def revoke(self) -> None:
        """End: signed out, or the token is no longer good."""
        self.socket.close(CloseCode.TOKEN_INVALID)

    def renew(self, identity: Identity) -> None:
        """Go on with a fresh token of the same subject."""
        self._stop_watching()
        self.identity = identity
        self._stop_watching = self.relay.identities.watch(identity.token_id, self.revoke)

    def tick(self, now_ms: int) -> None:
        """End with the token."""
        if self.identity.expires_at is not None and now_ms >= self.identity.expires_at:
            self.revoke()

    def recovered(self) -> None:
        """Bring the answers that a store did not take which is back now."""
        undecided, self._undecided = self._undecided, []
        for asked, decision in undecided:
            self.later(partial(self._decide, asked, decision))

    # What the hub calls.

    @property
    def write(self) -> Callable[[bytes], None]:
        """What takes updates as they are."""
        return self.socket.write

    @property
    def buffered(self) -> int:
        """Bytes that the client has not taken yet."""
        return self.socket.buffered

    def special(self, item: Item, frame: bytes) -> None:
        """Send a turn, an end or a person's words; answer a prompt behind its turn's end.

        A question's end may be shown before the question is stored and asked.
        """
        envelope = item.envelope
        if envelope.method == entry.UPDATE and self.waiting.hides(envelope.meta.mail_id):
            return
        self.socket.write(frame)
        if envelope.method == entry.TURN:
            self.waiting.end_turn(item.text)
        elif envelope.method == entry.RESOLVED:
            self._asking.close(ended(item.text))

    def ask(self, item: Item) -> None:
        """Ask a question, if this client may answer it."""
        self._ask(item.text, item.envelope.method)

    def gap(self, session_id: str, held_from: Cursor, reason: str) -> None:
        """Say that entries are missing before what follows."""
        params = {"sessionId": session_id, "from": str(held_from), "reason": reason}
        self.tell(entry.GAP, params)

    def too_slow(self) -> None:
        """End: it may come again with its cursors."""
        self.socket.close(CloseCode.TOO_SLOW)

    # What the calls use.

    def tell(self, method: str, params: Any) -> None:
        """Send a notification."""
        self.socket.send(jsonrpc.notification(method, params))

    def answer(self, request: Id, result: Any) -> None:
        """Answer a request."""
        self.socket.send(jsonrpc.result(request, result))

    def refuse(self, request: Id | None, error: BridgeError | Payload) -> None:
        """Answer a request with an error."""
        self.socket.send(jsonrpc.error(request, error))

    def later(self, work: Callable[[], Any]) -> None:
        """Do this in order with what the client asks."""
        self._errands.add(work)

    def aside(self, request: Id, work: Coroutine[Any, Any, bytes]) -> None:
        """Answer with what comes from afar, without holding up what else is asked."""
        if self._aside >= ASIDE_AT_ONCE:
            work.close()
            raise Overloaded(f"{ASIDE_AT_ONCE} pages are on their way; wait for one")
        self._aside += 1
        self.relay.tasks.start("a page of history", self._answer_aside(request, work))

    async def _answer_aside(self, request: Id, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            self.answer(request, msgspec.Raw(await work))
        except BridgeError as error:
            self.refuse(request, error)
        finally:
            self._aside -= 1

    async def attach(
        self,
        session_id: str,
        after: Cursor,
        *,
        history: bool = True,
        reading: Reading = WHOLE,
    ) -> None:
        """Show a session from a cursor on; raises Overloaded, StoreUnavailable."""
        if (before := self.subscribers.pop(session_id, None)) is not None:
            before.leave()
        most = self.relay.settings.max_sessions_per_dashboard
        if len(self.subscribers) >= most:
            raise Overloaded(
                f"one client may watch {most} sessions; close some first",
                reason="too_many_sessions",
            )
        channel = self.relay.hub.channel(self.identity.tenant, session_id)
        subscriber = Subscriber(channel, self, after, history=history, reading=reading)
        self.subscribers[session_id] = subscriber
        try:
            await subscriber.start(self.relay.log)
        except BaseException:
            self.subscribers.pop(session_id, None)
            raise
        if self._is_over:
            subscriber.leave()
        self.relay.dashboards.presence_changed(self.identity.tenant, session_id)

    async def ask_open(self, session_id: str) -> None:
        """Ask what is open in a session and can be answered."""
        tenant = self.identity.tenant
        for record in reversed(await self.relay.round_trips.list(tenant, session_id=session_id)):
            text = open_entry(record)
            if text is not None:
                self._ask(text, entry.read(text).method, again=True)

    def leave(self, session_id: str) -> None:
        """Watch a session no longer."""
        subscriber = self.subscribers.pop(session_id, None)
        if subscriber is None:
            return
        subscriber.leave()
        for text in self._asking.forget(session_id):
            self.socket.send(text)
        self.relay.dashboards.presence_changed(self.identity.tenant, session_id)

    async def listen(self) -> None:
        """Hear of what changes in the tenant."""
        if self._stop_listening is not None:  # it said initialize again
            return
        listen = self.relay.changes.listen
        self._stop_listening = await listen(self.identity.tenant, self._on_change)
        if self._is_over:
            self._stop_listening()

    # Requests.

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc.parse_strict(line)
        except BridgeError as error:
            self._refuse_line(error)
            return
        if not self._greeted:
            self._greet(message)
        elif isinstance(message, jsonrpc.Response):
            self._take_answer(message)
        elif isinstance(message, jsonrpc.Notification):
            self._take_notification(message)
        elif len(self._errands) >= MAX_REQUESTS:
            self.refuse(message.id, Overloaded(f"{MAX_REQUESTS} requests wait; send fewer"))
        else:
            self.later(partial(self._serve, message))

    def _refuse_line(self, error: BridgeError) -> None:
        if not self._greeted:
            self.socket.close(CloseCode.PROTOCOL_ERROR, f"{acp.INITIALIZE} first: not JSON-RPC")
            return
        known = error.data.get("id") if not isinstance(error, ParseError) else None
        self.refuse(known, error)

    def _greet(self, message: jsonrpc.Message) -> None:
        if not isinstance(message, jsonrpc.Request) or message.method != acp.INITIALIZE:
            self.socket.close(CloseCode.PROTOCOL_ERROR, f"the first message is {acp.INITIALIZE}")
            return
        self._greeted = True
        self.later(partial(self._serve, message))

    async def _serve(self, request: jsonrpc.Request) -> None:
        try:
            result = await calls.serve(self, request)
            if result is not None:
                self.answer(request.id, result)
        except RateLimited as error:
            self.refuse(request.id, error)
            self.socket.close(CloseCode.RATE_LIMITED)
        except BridgeError as error:
            self.refuse(request.id, error)
        except Exception:
            logger.exception("%s failed", request.method)
            self.refuse(request.id, InternalError(f"{request.method} failed here"))

    def _take_notification(self, message: jsonrpc.Notification) -> None:
        if message.method == acp.CANCEL_REQUEST:
            self.later(partial(self._cancel_request, message))
        elif message.method in {acp.CANCEL, "_bridge/visible"}:
            self.later(partial(self._notified, message))

    async def _notified(self, message: jsonrpc.Notification) -> None:
        try:
            await calls.serve(self, jsonrpc.Request("", message.method, message.params))
        except BridgeError as error:
            logger.info("%s of %s: %s", message.method, self.identity.subject, error)

    async def _cancel_request(self, message: jsonrpc.Notification) -> None:
        """Cancel the turn that a request started; another kind is just given up (ACP v1)."""
        named = msgspec.json.decode(message.params, type=_CancelRequest).request_id
        session_id = self.waiting.cancel(named)
        if session_id is not None:
            params = msgspec.Raw(msgspec.json.encode({"sessionId": session_id}))
            await self._notified(jsonrpc.Notification(acp.CANCEL, params))

    # Questions.

    def _ask(self, text: bytes, method: str, *, again: bool = False) -> None:
        if self.decides or self.identity.role < Role.APPROVER or self._is_over:
            return
        if method == entry.ELICITATION and not self.takes_forms:
            return
        request = self._asking.ask(text, again=again)
        if request is not None:
            self.socket.send(request)

    def _take_answer(self, response: jsonrpc.Response) -> None:
        taken = self._asking.take(response)
        if taken is not None:
            asked, answer = taken
            id_ = f"d-{secrets.token_hex(12)}"
            decision = Decision(asked.round_trip, asked.hash, answer, id_)
            self.later(partial(self._decide, asked, decision))

    async def _decide(self, asked: Asked, decision: Decision) -> None:
        decide, who = self.relay.round_trips.decide, self.identity
        try:
            await self.relay.buckets.take("decisions", who)
            decided = await decide(who.tenant, decision, who.origin)
        except RateLimited:
            self.socket.close(CloseCode.RATE_LIMITED)  # it is asked again when it is back
            return
        except StoreUnavailable as error:
            logger.debug("an answer of %s waits for the store: %s", who.subject, error)
            self._undecided.append((asked, decision))
            return
        except BridgeError as error:
            logger.warning("an answer of %s: %s", who.subject, error)
            self._tell_unrecorded(asked, {"state": "refused", "reason": error.data["reason"]})
            return
        if decided.state is not Outcome.RECORDED:
            self._tell_unrecorded(asked, decided.as_json())

    def _tell_unrecorded(self, asked: Asked, why: Payload) -> None:
        for text in self._asking.late(asked, why):
            self.socket.send(text)

    # What changes.

    def _on_change(self, change: Change) -> None:
        if change.kind == "roundTrip" and change.state in {"decided", "closed"}:
            for text in self._asking.withdraw(change):
                self.socket.send(text)
        elif change.kind == "mail" and change.id in self.waiting:
            self.later(partial(self.waiting.look, change.id))
        if self.watches:
            self.relay.bulletin.note(self.identity.tenant, change)
