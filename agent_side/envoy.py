"""Speaks for the connector on the uplink: greets, shows cards, takes mail, gives history."""

from __future__ import annotations

import asyncio
import codecs
import platform
import secrets
import socket
from dataclasses import dataclass
from importlib import metadata

import msgspec

from agent_side import guarantees
from agent_side.approvals import Preset
from agent_side.folder import StateFolder
from agent_side.guarantees import Abilities
from agent_side.host import Host
from agent_side.journal import Journal, SessionJournal
from agent_side.log import Log
from agent_side.mailbox import Mailbox
from agent_side.orders import Orders
from agent_side.outbox import too_big
from agent_side.pairing import Pairings
from agent_side.policy import Policy
from agent_side.redaction import Redaction
from agent_side.sandbox import SandboxState
from agent_side.sessions import Session
from agent_side.signatures import Signatures
from agent_side.status import Status, now_ms
from agent_side.uplink import Uplink
from bridge.protocol import entry, jsonrpc, uplink
from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import InvalidParams, NotFound
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import (
    AgentCard,
    ConnectorCard,
    Guarantee,
    Hello,
    HelloResult,
    Mail,
    MailDone,
    MailPosition,
    PairingNews,
    Presence,
    SessionCard,
)

PAGE_ENTRIES = 500  # of one answer to uplink/history
PAGE_BYTES = 256 << 10  # of one answer, that entries which wait behind it do not wait long
PIECE_BYTES = 128 << 10  # of an entry's text, which may double when it is written as a string


@dataclass(frozen=True)
class Affairs:
    """What the envoy speaks of."""

    name: str
    folder: StateFolder
    journal: Journal
    log: Log
    mailbox: Mailbox
    host: Host
    policy: Policy
    signatures: Signatures
    pairings: Pairings
    status: Status
    redaction: Redaction
    sandbox: SandboxState


class Envoy:
    """The party that an uplink serves (link.Party)."""

    def __init__(self, affairs: Affairs) -> None:
        """Speak of a connector; ``orders`` must be set before an uplink runs."""
        self.uplink: Uplink | None = None
        self.orders: Orders | None = None
        self._of = affairs
        self._writer = secrets.token_hex(8)  # this process, to the relay
        self._changed: dict[str, Session] = {}
        self._kept: dict[str, bytes] = {}  # per session, the facts that are on disk
        self._whole: tuple[tuple[str, Cursor], bytes] | None = None  # of which pieces are asked for
        self._modes: list[str] = []  # as last shown on the agent's card by a session's change

    # Cards.

    def agent_card(self) -> AgentCard:
        """Describe the agent."""
        agent, policy, signatures = self._of.host.agent, self._of.policy, self._of.signatures
        return AgentCard(
            id=self._of.folder.agent_id,
            name=self._of.name,
            title=agent.title,
            version=agent.version,
            roots=[str(root) for root in policy.roots],
            capabilities=agent.capabilities,
            modes=policy.modes(self._offered_modes()),
            alive=agent.alive,
            login=agent.login,
            signed=signatures.policy,
            devices=signatures.cards(),
            sandbox=self._of.sandbox.as_json(),
            approvals={"offered": list(Preset), "remote": list(policy.presets)},
            relay_rules=signatures.relay_rules,
            guarantees=self._guarantees(),
        )

    def _guarantees(self) -> list[Guarantee]:
        host = self._of.host
        command = host.agent.command
        known = (command.name, host.agent.title, command.ask_mode)
        return guarantees.lines(
            Abilities(*known, host.way_back.why, self._of.sandbox, self._of.redaction.on)
        )

    def agent_changed(self) -> None:
        """Show the agent's card anew."""
        self._tell(uplink.AGENT, self.agent_card())

    def session_changed(self, session: Session) -> None:
        """Show a session's card anew, once in this turn of the loop."""
        if not self._changed:
            asyncio.get_running_loop().call_soon(self.flush)
        self._changed[session.id] = session

    def flush(self) -> None:
        """Send the cards that changed, and keep their facts on disk."""
        changed, self._changed = self._changed, {}
        for session in changed.values():
            facts = session.facts
            facts.counter = max(facts.counter + 1, now_ms())
            lasting = jsonrpc.encode(msgspec.structs.replace(facts, counter=0, usage=None))
            if self._kept.get(session.id) != lasting:
                self._kept[session.id] = lasting
                self._of.journal.keep_facts(facts)
            self._tell(uplink.SESSION, self._session_card(session, in_full=True))
        if changed:
            self._show_modes()
            self._of.log.write()

    def _show_modes(self) -> None:
        """Show the agent's card anew when its first session tells which modes it offers."""
        card = self.agent_card()
        if card.modes != self._modes:
            self._modes = card.modes
            self._tell(uplink.AGENT, card)

    def _session_card(self, session: Session, *, in_full: bool) -> SessionCard:
        seq = self._of.journal.sessions[session.id].last.seq
        card = session.card(self._of.folder.agent_id, seq, in_full=in_full)
        return msgspec.structs.replace(card, title=self._of.redaction.words(card.title))

    def _offered_modes(self) -> list[str]:
        for session in reversed(self._of.host.roster.sessions.values()):
            if offered := session.offered_modes():
                return offered
        return []

    # The greeting.

    def hello(self) -> Hello:
        """Greet the relay."""
        host = self._of.host
        sessions = host.roster.sessions.values()
        return Hello(
            epoch=self._of.folder.epoch,
            writer=self._writer,
            connector=ConnectorCard(_version(), socket.gethostname(), _system()),
            agents=[self.agent_card()],
            sessions=[self._session_card(s, in_full=host.is_live(s)) for s in sessions],
            open=list(host.questions.open),
            mail=MailPosition(self._of.mailbox.journaled),
            signed=self._of.signatures.policy,
        )

    def raise_epoch(self, at_least: int) -> None:
        """Number what follows above an epoch that the relay holds."""
        self._of.log.settle_all()
        self._of.folder.begin_epoch(at_least)
        self._of.log.epoch = self._of.signatures.epoch = self._of.folder.epoch

    def welcomed(self, result: HelloResult) -> None:
        """Take what the relay knows, and say again what it may have missed."""
        assert self.orders is not None
        self.orders.skew_ms = self._of.host.questions.skew_ms = result.time - now_ms()
        self._of.host.questions.renew(result.closed)
        self._of.pairings.retell()
        for done in self._of.mailbox.outcomes():
            self.mail_done(done)

    # What comes down.

    def mail(self, mail: Mail) -> None:
        """Take a mail: on disk, acknowledged, then carried out."""
        assert self.orders is not None
        is_new = self._of.mailbox.take(mail)
        self._tell(uplink.MAIL_JOURNALED, {"upTo": self._of.mailbox.journaled})
        if is_new:
            self.orders.carry_out(mail)
        elif (outcome := self._of.mailbox.outcome(mail.mail_id)) is not None:
            self.mail_done(outcome)

    def mail_done(self, done: MailDone) -> None:
        """Tell what became of a mail."""
        self._tell(uplink.MAIL_DONE, self._of.redaction.clean(done))

    def presence(self, presence: Presence) -> None:
        """Take who watches a session."""
        self._of.status.watch(presence)

    def pairing(self, news: PairingNews) -> None:
        """Take what a device answered."""
        self._of.pairings.news(news)

    def device_revoked(self, id_: str) -> None:
        """Forget a device that was shut out at the relay."""
        self._of.signatures.forget(id_)

    def tell(self, method: str, params: object) -> None:
        """Send a message when connected."""
        self._tell(method, params)

    def history(self, params: Payload) -> Payload:
        """Give a page of a session's journal, or a piece of one entry in full.

        ``{sessionId, before?, limit?}`` or ``{sessionId, at, offset?, limit?}``. Raises
        InvalidParams, NotFound.
        """
        session_id = params.get("sessionId")
        journal = self._of.journal.sessions.get(str(session_id))
        if journal is None:
            raise NotFound(f"no session {str(session_id)[:80]!r}")
        at, before = params.get("at"), params.get("before")
        if isinstance(at, str):
            return self._piece(journal, Cursor.parse(at), params)
        limit = min(_number(params, "limit", PAGE_ENTRIES, least=1), PAGE_ENTRIES)
        cursor = Cursor.parse(before) if isinstance(before, str) else None
        page = list(journal.page_before(cursor, limit, PAGE_BYTES))
        first = page[0][0] if page else None
        return {
            "sessionId": session_id,
            "entries": [msgspec.Raw(_carried(str(session_id), text)) for _, text in page],
            "first": str(first) if first else None,
            "more": first is not None and first != journal.first,
        }

    def _piece(self, journal: SessionJournal, at: Cursor, params: Payload) -> Payload:
        """Give a piece of one entry in full, as far as it may leave this machine."""
        offset = _number(params, "offset", 0, least=0)
        length = min(_number(params, "limit", PIECE_BYTES, least=4), PIECE_BYTES)
        name = (str(params.get("sessionId")), at)
        if self._whole is None or self._whole[0] != name:
            found = journal.whole(at)
            if found is None:
                raise NotFound(f"no entry {at} in the journal")
            is_question = entry.read(found).method in entry.QUESTIONS
            self._whole = name, found if is_question else self._of.redaction.text(found)
        piece = _part(self._whole[1], at, offset, length)
        if piece["next"] is None:
            self._whole = None
        return piece

    def _tell(self, method: str, params: object) -> None:
        if self.uplink is not None:
            self.uplink.tell(method, params)


def _carried(session_id: str, text: bytes) -> bytes:
    """Give an entry, or what takes its place when no frame can be sure to carry it."""
    return text if len(text) <= uplink.WINDOW_BYTES else too_big(session_id, text)


def _part(whole: bytes, at: Cursor, offset: int, length: int) -> Payload:
    """Give a part of an entry's text that begins and ends between two characters."""
    part, size = whole[offset : offset + length], len(whole)
    try:
        text, used = codecs.utf_8_decode(part, "strict", offset + len(part) >= size)
    except UnicodeDecodeError:
        raise InvalidParams(f"offset {offset} lies within a character") from None
    end = offset + used
    following = end if end < size else None
    return {"at": str(at), "offset": offset, "size": size, "text": text, "next": following}


def _number(params: Payload, name: str, default: int, *, least: int) -> int:
    given = params.get(name, default)
    if type(given) is not int or given < least:
        raise InvalidParams(f"{name} must be a whole number from {least} on")
    return given


def _system() -> str:
    return f"{platform.system()} {platform.release()}"


def _version() -> str:
    try:
        return metadata.version("chimera-bridge")
    except metadata.PackageNotFoundError:
        return "0"
