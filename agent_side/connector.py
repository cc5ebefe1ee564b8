"""The connector: one agent, its sessions, the doors on this machine and the way to the relay."""

from __future__ import annotations

import asyncio
import getpass
import logging
import platform
import secrets
import socket
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from agent_side.agents.process import AgentCommand, AgentStartError
from agent_side.door import Door
from agent_side.folder import AlreadyRunning, StateFolder
from agent_side.host import Ears, Host, Opened
from agent_side.journal import Journal
from agent_side.log import Log, Written
from agent_side.mailbox import Mailbox
from agent_side.orders import Orders
from agent_side.outbox import Outbox
from agent_side.policy import Policy
from agent_side.recovery import Recovery
from agent_side.round_trips import Question
from agent_side.sessions import Session
from agent_side.settings import ConnectorSettings, RelayTarget
from agent_side.status import Status, now_ms
from agent_side.turns import OnEnded, TurnEnd
from agent_side.uplink import FAULT, REPLACED, ExitReason, Uplink
from bridge.protocol import attachment, entry, jsonrpc, uplink
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Origin
from bridge.protocol.errors import InvalidParams, NotFound
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved
from bridge.protocol.uplink import (
    AgentCard,
    ConnectorCard,
    Hello,
    HelloResult,
    Mail,
    MailDone,
    MailPosition,
    Presence,
)

AGENT_DOES_NOT_START = 5
PAGE_ENTRIES = 500  # of one answer to uplink/history
PAGE_BYTES = 4 << 20

logger = logging.getLogger(__name__)

__all__ = [
    "Connector",
    "Door",
    "ExitReason",
    "Opened",
    "Question",
    "Session",
    "TurnEnd",
    "local_origin",
]


def local_origin(door: str) -> Origin:
    """Give the origin of whoever uses a door of this machine."""
    try:
        subject = getpass.getuser()
    except (KeyError, OSError):
        subject = "local"
    return Origin(subject=subject, device=socket.gethostname(), door=door)


class Connector:
    """Runs until it is stopped, replaced or refused; everything on it is called in its loop."""

    def __init__(
        self,
        settings: ConnectorSettings,
        command: AgentCommand,
        *,
        relay: RelayTarget | None,
    ) -> None:
        """Take what to run and where to attach; nothing is opened before ``run``."""
        self._settings = settings
        self._policy = Policy(settings, command.ask_mode)
        self._folder = StateFolder(settings.folder)
        self._journal = Journal(self._folder.sessions)
        self._mailbox = Mailbox(self._folder.mail)
        self._log = Log(self._journal, 0, self._deliver, self._disk_failed)
        self._outbox = Outbox()
        self._status = Status(relay.url if relay else None, self._status_changed)
        self._uplink = Uplink(relay, self, self._outbox, self._status) if relay else None
        self._host = Host(
            command,
            journal=self._journal,
            log=self._log,
            mailbox=self._mailbox,
            ears=Ears(
                asked=self._asked,
                closed=self._closed,
                session_changed=self._session_changed,
                agent_changed=self._agent_changed,
                notification=self._passed_on,
            ),
            spawn=self._spawn,
        )
        self._orders: Orders | None = None
        self._doors: list[Door] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed: dict[str, Session] = {}
        self._kept: dict[str, bytes] = {}  # per session, the facts that are on disk
        self._writer = secrets.token_hex(8)
        self._ended: asyncio.Future[ExitReason] | None = None
        self._ending: ExitReason | None = None
        self._ready = asyncio.Event()

    # Life.

    async def run(self) -> ExitReason:
        """Run to the end; gives the exit code and a sentence."""
        self._ended = asyncio.get_running_loop().create_future()
        if self._ending is not None:
            return self._ending
        try:
            self._open()
        except AlreadyRunning as error:
            return ExitReason(REPLACED, str(error))
        except OSError as error:
            return ExitReason(FAULT, f"the state folder cannot be used: {error}")
        try:
            await self._start()
            reason = await self._ended
        finally:
            await self._close()
        return reason

    def stop(self, reason: str) -> None:
        """End in order, with exit code 0."""
        self._end(ExitReason(0, reason))

    async def ready(self) -> None:
        """Wait until the agent runs and sessions can be opened."""
        await self._ready.wait()

    def open_door(self, door: Door) -> None:
        """Tell a door everything from now on; what is open already stands in ``questions``."""
        self._doors.append(door)

    def close_door(self, door: Door) -> None:
        """Tell a door nothing more."""
        if door in self._doors:
            self._doors.remove(door)

    # What is there.

    @property
    def agent(self) -> AgentCard:
        """The agent as people see it."""
        agent = self._host.agent
        return AgentCard(
            id=self._folder.agent_id,
            name=self._settings.name,
            title=agent.title,
            version=agent.version,
            roots=[str(root) for root in self._policy.roots],
            capabilities=agent.capabilities,
            modes=self._policy.modes(self._offered_modes()),
            alive=agent.alive,
            login=agent.login,
        )

    @property
    def initialized(self) -> Payload:
        """The agent's own answer to initialize."""
        return self._host.agent.initialized

    @property
    def sessions(self) -> Mapping[str, Session]:
        """All sessions by their public id, the oldest first."""
        return self._host.sessions

    @property
    def questions(self) -> Mapping[str, Question]:
        """The open questions by their id, in the order they were asked."""
        return self._host.questions.open

    def entries(self, session_id: str, after: Cursor = START) -> Iterator[tuple[Cursor, bytes]]:
        """Give a session's entries after a cursor, in full, up to what doors were told."""
        self._host.session(session_id)
        journal = self._journal.sessions[session_id]
        last = self._log.delivered.get(session_id)
        for cursor, text in journal.read_after(after, full=True):
            if cursor.epoch == self._log.epoch and (last is None or cursor > last):
                return
            yield cursor, text

    def status(self, session_id: str | None = None) -> Payload:
        """Answer ``_bridge/status``; raises NotFound for an unknown session."""
        if session_id is not None:
            self._host.session(session_id)
        open_ids = [
            question.id
            for question in self.questions.values()
            if session_id in (None, question.session_id)
        ]
        return self._status.as_json(open_ids, session_id)

    # What doors do.

    async def new_session(
        self, cwd: Path, origin: Origin, *, mcp_servers: Sequence[Payload] = ()
    ) -> Opened:
        """Open a session; raises AgentUnavailable, AuthRequired or AgentError.

        No entry of it reaches a door before the caller had a chance to answer: what the caller
        does right after this returns, without awaiting, comes first.
        """
        logger.debug("%s opens a session in %s", origin.subject, cwd)
        return await self._host.new_session(cwd, mcp_servers)

    async def load_session(self, session_id: str, origin: Origin) -> Opened:
        """Have the agent know a session; raises NotFound, AgentUnavailable or AgentError."""
        logger.debug("%s loads session %s", origin.subject, session_id)
        return await self._host.load_session(session_id)

    def prompt(
        self,
        session_id: str,
        prompt: list[Payload],
        origin: Origin,
        mail_id: str | None,
        on_ended: OnEnded,
    ) -> None:
        """Run a prompt when its turn comes; ``on_ended`` comes after the turn's last entry."""
        self._host.prompt(session_id, prompt, origin, mail_id=mail_id, on_ended=on_ended)

    def cancel(self, session_id: str, origin: Origin) -> None:
        """Stop the running prompt and the caller's waiting ones; raises NotFound."""
        self._host.cancel(session_id, origin)

    async def set_mode(self, session_id: str, mode_id: str, origin: Origin) -> Payload:
        """Set a session's mode, any that the agent takes: this is its own machine."""
        logger.debug("%s sets mode %s", origin.subject, mode_id)
        return await self._host.set_mode(session_id, mode_id)

    async def set_config_option(self, session_id: str, params: Payload, origin: Origin) -> Payload:
        """Set a config option, any that the agent takes."""
        logger.debug("%s sets option %s", origin.subject, params.get("configId"))
        return await self._host.set_config_option(session_id, params)

    def answer(self, round_trip_id: str, answer: Payload | None, origin: Origin) -> Resolved:
        """Answer a question here (None: cancelled); a late answer gets the one that won."""
        return self._host.questions.answer(round_trip_id, answer, origin)

    # Starting and ending.

    def _open(self) -> None:
        self._folder.open()
        recovery = Recovery()
        self._journal.load(recovery.read)
        self._mailbox.open()
        self._log.epoch = self._folder.epoch
        self._orders = Orders(
            self._folder.agent_id,
            self._host,
            policy=self._policy,
            mailbox=self._mailbox,
            on_done=self._mail_done,
            spawn=self._spawn,
        )
        waiting = set(self._mailbox.pending) - self._mailbox.handed
        for session_id, journal in self._journal.sessions.items():
            self._outbox.add(session_id, journal)
            if journal.facts is not None:
                self._host.restore(journal.facts, recovery.of(session_id), waiting)
        self._turn_ids = {
            turn.mail_id: turn.id
            for left in recovery.sessions.values()
            for turn in left.turns.values()
            if turn.mail_id in waiting and turn.state == "queued" and turn.mail_id
        }
        self._log.flush()

    async def _start(self) -> None:
        assert self._orders is not None
        try:
            await self._host.agent.ensure()
        except AgentStartError as error:
            self._end(ExitReason(AGENT_DOES_NOT_START, str(error)))
            return
        self._host.end_what_cannot_be_loaded()
        self._ready.set()
        self._orders.resume(self._turn_ids)
        if self._uplink is not None:
            self._spawn(self._stay_attached(self._uplink))

    async def _stay_attached(self, way: Uplink) -> None:
        self._end(await way.run())

    async def _close(self) -> None:
        await self._host.stop()
        self._flush_cards()
        self._log.flush()
        if self._uplink is not None:
            await self._uplink.say_goodbye(attachment.Reason.SAID_GOODBYE)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._journal.close()
        self._mailbox.close()
        self._folder.close()

    def _end(self, reason: ExitReason) -> None:
        self._ending = self._ending or reason
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(self._ending)

    def _disk_failed(self, error: OSError) -> None:
        self._end(ExitReason(FAULT, f"{self._folder.path} cannot be written: {error.strerror}"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("a task of the connector failed")

    # What happens inside.

    def _deliver(self, written: Written) -> None:
        self._outbox.add(written.session_id, self._journal.sessions[written.session_id])
        self._outbox.put(written.session_id)
        if self._uplink is not None:
            self._uplink.poke()
        if self._doors:
            envelope = entry.read(written.text)
            self._tell_doors(lambda d: d.entry(written.session_id, written.text, envelope))

    def _asked(self, question: Question) -> None:
        self._tell_doors(lambda door: door.ask(question))

    def _closed(self, question: Question, resolved: Resolved) -> None:
        self._tell_doors(lambda door: door.withdraw(question, resolved))

    def _passed_on(self, session_id: str | None, method: str, params: Payload) -> None:
        self._tell_doors(lambda door: door.notification(session_id, method, params))

    def _status_changed(self) -> None:
        self._tell_doors(lambda door: door.status_changed())

    def _tell_doors(self, tell: Any) -> None:
        for door in list(self._doors):
            try:
                tell(door)
            except Exception:
                logger.exception("the door %s failed", door.name)

    def _agent_changed(self) -> None:
        if self._uplink is not None:
            self._uplink.tell(uplink.AGENT, self.agent)
        self._status_changed()

    def _session_changed(self, session: Session) -> None:
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._flush_cards)
        self._changed[session.id] = session

    def _flush_cards(self) -> None:
        """Send the cards that changed in this turn of the loop, and keep their facts."""
        changed, self._changed = self._changed, {}
        for session in changed.values():
            facts = session.facts
            facts.counter = max(facts.counter + 1, now_ms())
            lasting = jsonrpc.encode(msgspec.structs.replace(facts, counter=0, usage=None))
            if self._kept.get(session.id) != lasting:
                self._kept[session.id] = lasting
                self._journal.keep_facts(facts)
            if self._uplink is not None:
                self._uplink.tell(uplink.SESSION, self._card(session, in_full=True))
        if changed:
            self._log.write()
            self._status_changed()

    def _card(self, session: Session, *, in_full: bool) -> uplink.SessionCard:
        seq = self._journal.sessions[session.id].last.seq
        return session.card(self._folder.agent_id, seq, in_full=in_full)

    def _offered_modes(self) -> list[str]:
        for session in reversed(self._host.sessions.values()):
            modes = (session.facts.modes or {}).get("availableModes")
            if isinstance(modes, list):
                ids = [mode.get("id") for mode in modes if isinstance(mode, dict)]
                return [id_ for id_ in ids if isinstance(id_, str)]
        return []

    # What the uplink asks and brings (link.Party).

    def hello(self) -> Hello:
        """Greet the relay."""
        sessions = [
            self._card(session, in_full=self._host.live(session))
            for session in self._host.sessions.values()
        ]
        return Hello(
            epoch=self._folder.epoch,
            writer=self._writer,
            connector=ConnectorCard(_version(), socket.gethostname(), platform.platform()),
            agents=[self.agent],
            sessions=sessions,
            open=list(self.questions),
            mail=MailPosition(self._mailbox.journaled),
        )

    def welcomed(self, result: HelloResult) -> None:
        """Take what the relay knows, and say again what it may have missed."""
        assert self._uplink is not None
        self._host.questions.renew(result.closed)
        for done in self._mailbox.outcomes():
            self._uplink.tell(uplink.MAIL_DONE, done)
        self._uplink.poke()

    def mail(self, mail: Mail) -> None:
        """Take a mail: on disk, acknowledged, then carried out."""
        assert self._orders is not None
        try:
            self._orders.take(mail)
        except OSError as error:
            self._disk_failed(error)

    def presence(self, presence: Presence) -> None:
        """Take who watches a session."""
        self._status.watch(presence)

    def history(self, params: Payload) -> Payload:
        """Give a page of a session's journal: ``{sessionId, before?, limit?, full?}``."""
        session_id = params.get("sessionId")
        if session_id not in self._journal.sessions:
            raise NotFound(f"no session {str(session_id)[:80]!r}")
        before, limit = params.get("before"), params.get("limit", PAGE_ENTRIES)
        if not isinstance(limit, int) or limit < 1:
            raise InvalidParams("limit must be a positive number")
        cursor = Cursor.parse(before) if isinstance(before, str) else None
        journal = self._journal.sessions[session_id]
        page = list(
            journal.read_before(cursor, min(limit, PAGE_ENTRIES), full=params.get("full") is True)
        )
        return _page(session_id, page)

    def _mail_done(self, done: MailDone) -> None:
        if self._uplink is not None:
            self._uplink.tell(uplink.MAIL_DONE, done)


def _page(session_id: str, page: list[tuple[Cursor, bytes]]) -> Payload:
    """Keep of a page the newest part that fits into one message."""
    kept: list[msgspec.Raw] = []
    size = 0
    for _, text in reversed(page):
        size += len(text)
        if size > PAGE_BYTES and kept:
            break
        kept.append(msgspec.Raw(text))
    first = page[len(page) - len(kept)][0] if kept else None
    more = first is not None and (len(kept) < len(page) or first.seq > 1)
    return {
        "sessionId": session_id,
        "entries": kept[::-1],
        "first": str(first) if first else None,
        "more": more,
    }


def _version() -> str:
    try:
        return metadata.version("chimera-bridge")
    except metadata.PackageNotFoundError:
        return "0"
