"""What an editor and a relay say to each other, carried over several connections.

The editor sees one conversation. When a connection is lost, its open questions are withdrawn and
its open requests are answered with an error that says so, but for prompts: on the next connection
we initialize again, resume each session after the last entry the editor has, and send each open
prompt again under the id of its mail, so that it runs once and its end is told. What the editor
sends meanwhile waits. No sockets here: lines go in, lines come out.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import msgspec

from bridge.protocol import acp, entry, jsonrpc
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import (
    AgentUnavailable,
    BridgeError,
    InternalError,
    InvalidRequest,
    NotFound,
    Overloaded,
    ParseError,
)
from bridge.protocol.jsonrpc import Id, Payload

WAITING_LIMIT = 1000  # messages of an editor kept while the relay is away
SENT_AT_MOST = 20  # times, for what itself may be why connections break
OWN_PROMPTS = 1000  # of the newest prompts, to know their echo after a reconnect


@dataclass
class _Session:
    cwd: str
    last: Cursor | None = None  # the last entry the editor got; None: whatever comes is new
    begin: Cursor = START  # what it had before the first
    replaying: bool = False  # during session/load the editor's own prompts are history


@dataclass(frozen=True)
class _Call:
    method: str
    session_id: str = ""
    cwd: str = ""
    after: Cursor | None = None  # what session/resume asked for
    mail_id: str = ""  # of a prompt
    params: Payload | None = None  # of a prompt, to send it again
    sent: int = 1  # so often


class _Stamp(msgspec.Struct, frozen=True, rename="camel"):
    epoch: int = 0
    seq: int = 0
    mail_id: str | None = None


class _Holder(msgspec.Struct, frozen=True):
    bridge: _Stamp = msgspec.field(name=META_KEY, default=_Stamp())


class _Stamped(msgspec.Struct, frozen=True):
    session_id: str = msgspec.field(name="sessionId", default="")
    meta: _Holder | None = msgspec.field(name="_meta", default=None)


_decode_stamp = msgspec.json.Decoder(_Stamped).decode


@dataclass(frozen=True)
class Wishes:
    """What the command line says of new sessions; empty: as the editor says."""

    session: str = ""  # "new session" means: this one
    agent: str = ""
    cwd: str = ""  # a folder on the agent's machine


@dataclass
class Conversation:
    """One editor's conversation; ``to_editor`` takes each message for it."""

    to_editor: Callable[[bytes], None]
    wishes: Wishes = field(default_factory=Wishes)

    def __post_init__(self) -> None:
        """Start with nothing said."""
        self._send: Callable[[bytes], None] | None = None  # while the relay is there and ready
        self._raw: Callable[[bytes], None] | None = None  # while there is a connection
        self._hello: jsonrpc.Request | None = None  # the editor's initialize
        self._calls: dict[Id, _Call] = {}
        self._own: dict[Id, _Call] = {}
        self._own_ids = (f"attach-{secrets.token_hex(6)}-{n}" for n in count(1))
        self._question_ids = count(1)
        self._questions: dict[Id, Id] = {}  # the id the editor knows → the relay's
        self._sessions: dict[str, _Session] = {}
        self._prompts: deque[str] = deque(maxlen=OWN_PROMPTS)
        self._waiting: deque[jsonrpc.Request | jsonrpc.Notification] = deque()

    @property
    def connected_now(self) -> bool:
        """Whether there is a connection."""
        return self._raw is not None

    @property
    def idle(self) -> bool:
        """Whether the editor waits for no answer."""
        return not self._calls and not self._waiting

    # The connection.

    def connected(self, send: Callable[[bytes], None]) -> None:
        """Go on over a new connection, on which nothing has been said."""
        self._raw = send
        if self._hello is None:
            return
        if self._hello.id in self._calls:  # the editor still waits for the answer
            self._send_hello(self._hello.id)
        else:
            self._send_hello(self._own_call(_Call(acp.INITIALIZE)))

    def lost(self, why: str, *, too_big: bool = False) -> None:
        """Note that the connection is gone, and tell the editor what that means for it.

        ``too_big``: something that was sent is why, and must not be sent again.
        """
        self._send = self._raw = None
        self._own.clear()
        for id_, call in list(self._calls.items()):
            is_sent_again = call.method == acp.INITIALIZE or (
                call.method == acp.PROMPT and not too_big and call.sent < SENT_AT_MOST
            )
            if not is_sent_again:
                self._fail(id_, self._calls.pop(id_), why)
        for known in self._questions:
            self.to_editor(jsonrpc.notification(acp.CANCEL_REQUEST, {"requestId": known}))
        self._questions.clear()

    # From the editor.

    def from_editor(self, line: bytes) -> None:
        """Take one line of the editor's."""
        try:
            self._take(jsonrpc.parse_strict(line))
        except BridgeError as error:
            self.to_editor(jsonrpc.error(_id_of(line), error))

    def _take(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Response):
            self._answered(message)
        elif isinstance(message, jsonrpc.Request) and message.method == acp.INITIALIZE:
            self._initialize(message)
        elif self._hello is None:
            raise InvalidRequest("the first message must be initialize")
        elif self._send is not None:
            self._pass_on(message, self._send)
        elif len(self._waiting) < WAITING_LIMIT:
            self._waiting.append(message)
        else:
            raise Overloaded("the relay is away, and too many messages wait for it already")

    def skipped(self) -> None:
        """Tell the editor that a line of its was too long to take."""
        self.to_editor(jsonrpc.error(None, InvalidRequest("the line is longer than 48 MiB")))

    def _initialize(self, message: jsonrpc.Request) -> None:
        if self._hello is not None:
            raise InvalidRequest("initialize was there already")
        self._hello = message
        self._calls[message.id] = _Call(acp.INITIALIZE)
        if self._raw is not None:
            self._send_hello(message.id)

    def _pass_on(
        self, message: jsonrpc.Request | jsonrpc.Notification, send: Callable[[bytes], None]
    ) -> None:
        params = jsonrpc.fields(message.params)
        if isinstance(message, jsonrpc.Notification):
            send(jsonrpc.notification(message.method, message.params))
            return
        call = _Call(message.method, _text(params.get("sessionId")), _text(params.get("cwd")))
        method = message.method
        if method == acp.NEW and self.wishes.session:
            call = _Call(acp.NEW, self.wishes.session, call.cwd)
            method, params = acp.RESUME, self._resume(self.wishes.session, call.cwd, START)
        elif method == acp.NEW:
            params = self._new(params)
        elif method == acp.PROMPT:
            params = self._prompt(params)
            call = replace(call, mail_id=self._prompts[-1], params=params)
        elif method == acp.RESUME:
            call = replace(call, after=_cursor_of(jsonrpc.payload(message.params)))
        elif method == acp.LOAD:
            self._sessions[call.session_id] = _Session(call.cwd, replaying=True)
        self._calls[message.id] = call
        send(jsonrpc.request(message.id, method, params))

    def _new(self, params: dict[str, msgspec.Raw]) -> Payload:
        wanted: Payload = dict(params)
        if self.wishes.cwd:
            wanted["cwd"] = self.wishes.cwd
        if self.wishes.agent:
            wanted["_meta"] = _with_meta(params.get("_meta"), agent=self.wishes.agent)
        return wanted

    def _prompt(self, params: dict[str, msgspec.Raw]) -> Payload:
        mail_id = f"attach-{secrets.token_hex(12)}"
        self._prompts.append(mail_id)
        return {**params, "_meta": _with_meta(params.get("_meta"), mailId=mail_id)}

    def _answered(self, response: jsonrpc.Response) -> None:
        asked = None if response.id is None else self._questions.pop(response.id, None)
        if asked is None or self._send is None:
            return  # withdrawn meanwhile, or never asked
        if response.error is not None:
            self._send(jsonrpc.error(asked, jsonrpc.payload(response.error)))
        else:
            self._send(jsonrpc.result(asked, response.result))

    # From the relay.

    def from_relay(self, text: bytes) -> None:
        """Take one message of the relay's; raises BridgeError when the connection is no good."""
        message = jsonrpc.parse(text)
        if isinstance(message, jsonrpc.Response):
            self._result(message, text)
        elif isinstance(message, jsonrpc.Request):
            known = f"relay-{next(self._question_ids)}"
            self._questions[known] = message.id
            self.to_editor(jsonrpc.request(known, message.method, message.params))
        elif message.method == acp.CANCEL_REQUEST:
            self._withdraw(jsonrpc.payload(message.params))
        elif self._is_new(message):
            self.to_editor(text)
            if message.method == entry.TURN:
                self._turn(jsonrpc.payload(message.params))

    def _turn(self, turn: Payload) -> None:
        """Answer a prompt that was sent again by its turn's end: the relay may know it no more."""
        state, mail_id = turn.get("state"), turn.get("mailId")
        for known, call in list(self._calls.items()):
            if call.sent == 1 or call.mail_id != mail_id or state not in ("ended", "unknown"):
                continue
            del self._calls[known]
            if isinstance(error := turn.get("error"), dict):
                self.to_editor(jsonrpc.error(known, error))
            elif state == "unknown":
                cut = InternalError(
                    "the connector ended during this turn; what it did is not known"
                )
                self.to_editor(jsonrpc.error(known, cut))
            else:
                ended = {"stopReason": turn.get("stopReason", "end_turn")}
                self.to_editor(jsonrpc.result(known, ended))

    def _result(self, response: jsonrpc.Response, text: bytes) -> None:
        if response.id in self._own:
            self._own_result(self._own.pop(response.id), response)
            return
        call = None if response.id is None else self._calls.pop(response.id, None)
        if call is None:
            return
        if response.result is None:
            if call.method == acp.LOAD:
                self._sessions.pop(call.session_id, None)
            self.to_editor(text)
            return
        self.to_editor(self._followed(call, response, text))
        if call.method == acp.INITIALIZE:
            self._ready()

    def _followed(self, call: _Call, response: jsonrpc.Response, text: bytes) -> bytes:
        """Note what a result means for the sessions; give what the editor gets."""
        if call.method == acp.CLOSE:
            self._sessions.pop(call.session_id, None)
        if call.method not in (acp.NEW, acp.LOAD, acp.RESUME):
            return text
        result = jsonrpc.payload(response.result or msgspec.Raw(b"{}"))
        session_id = call.session_id or str(result.get("sessionId", ""))
        if call.method == acp.NEW and self.wishes.session:
            text = jsonrpc.result(response.id, {**result, "sessionId": session_id})
            self._sessions[session_id] = _Session(call.cwd)
        elif call.method == acp.LOAD and session_id in self._sessions:
            self._sessions[session_id].replaying = False
        else:
            begin = call.after or _cursor_of(result) or START
            self._sessions[session_id] = _Session(call.cwd, begin=begin)
        return text

    def _own_result(self, call: _Call, response: jsonrpc.Response) -> None:
        if response.error is None:
            if call.method == acp.INITIALIZE:
                self._ready()
            return
        error = jsonrpc.payload(response.error)
        if not call.session_id or error.get("code") != NotFound.code:
            raise AgentUnavailable(f"the relay did not take us back: {error.get('message')}")
        self._sessions.pop(call.session_id, None)

    def _withdraw(self, params: Payload) -> None:
        asked = params.get("requestId")
        for known in [known for known, theirs in self._questions.items() if theirs == asked]:
            del self._questions[known]
            self.to_editor(jsonrpc.notification(acp.CANCEL_REQUEST, {**params, "requestId": known}))

    def _is_new(self, message: jsonrpc.Notification) -> bool:
        try:
            stamped = _decode_stamp(message.params)
        except msgspec.DecodeError:
            return True
        session = self._sessions.get(stamped.session_id)
        stamp = stamped.meta.bridge if stamped.meta else _Stamp()
        if session is None or not stamp.seq:
            return True
        cursor = Cursor(stamp.epoch, stamp.seq)
        if session.last is not None and cursor <= session.last:
            return False
        session.last = cursor
        return session.replaying or stamp.mail_id not in self._prompts

    # Beginning again.

    def _ready(self) -> None:
        """The relay knows us (again): resume the sessions, then send what waited."""
        if self._raw is None:
            return
        for session_id, session in self._sessions.items():
            id_ = self._own_call(_Call(acp.RESUME, session_id))
            params = self._resume(session_id, session.cwd, session.last or session.begin)
            self._raw(jsonrpc.request(id_, acp.RESUME, params))
        self._send = self._raw
        for known, call in self._calls.items():
            if call.params is not None:
                self._calls[known] = replace(call, sent=call.sent + 1)
                self._send(jsonrpc.request(known, acp.PROMPT, call.params))
        waiting, self._waiting = self._waiting, deque()
        for message in waiting:
            self._pass_on(message, self._send)

    def _send_hello(self, id_: Id) -> None:
        assert self._raw is not None
        assert self._hello is not None
        self._raw(jsonrpc.request(id_, acp.INITIALIZE, self._hello.params))

    def _own_call(self, call: _Call) -> Id:
        id_ = next(self._own_ids)
        self._own[id_] = call
        return id_

    def _resume(self, session_id: str, cwd: str, after: Cursor) -> Payload:
        meta = {META_KEY: {"cursor": str(after)}}
        return {"sessionId": session_id, "cwd": cwd or "/", "mcpServers": [], "_meta": meta}

    def _fail(self, id_: Id, call: _Call, why: str) -> None:
        if call.method == acp.LOAD:
            self._sessions.pop(call.session_id, None)
        goes_on = (
            "; the agent goes on, and what it says follows" if call.method == acp.PROMPT else ""
        )
        lost = AgentUnavailable(
            f"the relay was lost before it answered {call.method} ({why}){goes_on}",
            reason="relay_unreachable",
        )
        self.to_editor(jsonrpc.error(id_, lost))


def _with_meta(raw: msgspec.Raw | None, **ours: str) -> Payload:
    """Give the editor's ``_meta`` with fields of ours added."""
    meta = jsonrpc.payload(raw) if raw and raw != b"null" else {}
    own = meta.get(META_KEY)
    return {**meta, META_KEY: {**(own if isinstance(own, dict) else {}), **ours}}


def _cursor_of(params: Payload) -> Cursor | None:
    """Give the cursor that params or a result name; raises InvalidParams."""
    meta = params.get("_meta")
    own = meta.get(META_KEY) if isinstance(meta, dict) else None
    cursor = own.get("cursor") if isinstance(own, dict) else None
    return Cursor.parse(cursor) if isinstance(cursor, str) else None


def _text(raw: msgspec.Raw | None) -> str:
    """Give a raw string's text, or nothing when it is no string."""
    decoded = None if raw is None else jsonrpc.value(raw)
    return decoded if isinstance(decoded, str) else ""


def _id_of(line: bytes) -> Id | None:
    """Give the id of a line that was refused, where it has one."""
    try:
        message = jsonrpc.parse(line)
    except (InvalidRequest, ParseError):
        return None
    return None if isinstance(message, jsonrpc.Notification) else message.id
