"""The store on a real, empty Redis, a node's inbox running on it, and a connector that writes."""

import asyncio
import contextlib
import json
import logging
import re
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.redises import Redises, redises
from fakes.served import Served, serving

from bridge.agents import Agents, Claim
from bridge.embedded import EmbeddedValkey
from bridge.inbox import Inbox
from bridge.log import Appended, Log, LogLimits
from bridge.mail import Mailbox
from bridge.protocol import entry, round_trip
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Meta, Origin, RoundTrip
from bridge.protocol.round_trip import Decision
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello, MailPosition
from bridge.redis import Store
from bridge.round_trips import RoundTrips
from bridge.sessions import Sessions

QUIET = re.compile(rb"XREAD|EXPIRE|XREVRANGE|CLIENT|b:inbox:")
OPTIONS = [["allow", "Allow once", "allow_once"], ["no", "Reject", "reject_once"]]


@pytest.fixture(scope="module")
async def relay_process(redis_server: str):
    """A relay for all tests of a file."""
    async with serving(redis_server) as started:
        yield started


@pytest.fixture
async def process(relay_process: Served, redis_url: str) -> Served:
    """A relay to which nobody is connected, on an empty Redis."""
    del redis_url
    async with asyncio.timeout(10):
        while len(relay_process.relay.uplinks) or len(relay_process.relay.dashboards):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    return relay_process


@pytest.fixture
async def connector(process: Served):
    """A connector that is attached to it with session s1."""
    async with UplinkPeer(process) as peer:
        await peer.hello("s1")
        yield peer


@pytest.fixture
async def client(process: Served, connector: UplinkPeer):
    """An operator whose client has said hello, while the connector is attached."""
    async with ClientPeer(process) as peer:
        await peer.initialize()
        yield peer


@pytest.fixture
async def other(process: Served, connector: UplinkPeer):
    """A second one, of another person."""
    async with ClientPeer(process, subject="bob") as peer:
        await peer.initialize()
        yield peer


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """A store on an empty Redis."""
    async with opened(redis_url) as fresh:
        yield fresh


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[Inbox]:
    """A node's inbox, running."""
    async with running(Inbox(store, f"node-{secrets.token_hex(4)}")) as started:
        yield started


@pytest.fixture
async def writer(store: Store, inbox: Inbox):
    """A connector that holds the claim of agent a1 in tenant acme."""
    async with writing(store, inbox) as claimed:
        await claimed.take_claim()
        yield claimed


@pytest.fixture
def writer_with(store: Store, inbox: Inbox):
    """Like ``writer``, with limits of the test's own."""

    @contextlib.asynccontextmanager
    async def make(limits: LogLimits):
        async with writing(store, inbox, limits) as claimed:
            await claimed.take_claim()
            yield claimed

    return make


@pytest.fixture
async def on_own_server(own_server: EmbeddedValkey):
    """A connector like ``writer`` and the server that it writes to."""
    async with (
        opened(own_server.start()) as own,
        running(Inbox(own, "own")) as started,
        writing(own, started) as claimed,
    ):
        await claimed.take_claim()
        yield claimed, own_server


@pytest.fixture
async def other_node(redis_url: str) -> AsyncIterator[Inbox]:
    """A second relay process's inbox, on connections of its own."""
    async with opened(redis_url) as second, running(Inbox(second, "other")) as started:
        yield started


@pytest.fixture
async def proxy(redis_url: str, store: Store):
    """A way to Redis that can lose replies; ``proxy.url`` is its address."""
    async with proxied(urlsplit(redis_url).path) as way:
        yield way


@pytest.fixture
def lossy_way():
    """Makes a way to a Redis that listens on a unix socket."""
    return proxied


@pytest.fixture
async def on_lossy_way(proxy, store: Store):
    """A connector like ``writer`` whose commands go through the proxy."""
    async with (
        opened(proxy.url) as lossy,
        running(Inbox(lossy, "lossy")) as started,
        writing(lossy, started) as claimed,
    ):
        await claimed.take_claim()
        yield claimed


@pytest.fixture
def heard(caplog):
    """Gives an event that is set when the relay logs some text, however unimportant."""
    ears = []
    caplog.set_level(logging.DEBUG, "bridge")

    def listen(text: str) -> asyncio.Event:
        ears.append(Ear(text))
        logging.getLogger("bridge").addHandler(ears[-1])
        return ears[-1].event

    yield listen
    for ear in ears:
        logging.getLogger("bridge").removeHandler(ear)


class Ear(logging.Handler):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self.text in record.getMessage():
            self.event.set()


@pytest.fixture
def own_server() -> Iterator[EmbeddedValkey]:
    """A server that a test may stop, kill and start again; its state is on disk."""
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        server = EmbeddedValkey(Path(folder))
        yield server
        server.stop()


@pytest.fixture
def own_redises() -> Iterator[Redises]:
    """Makes real servers of the test's own: a Cluster, replicas, Sentinels."""
    with redises() as made:
        yield made


@pytest.fixture
def writer_at():
    """Like ``writer``, at any address: ``async with writer_at(url, tenant, replicas=1)``."""

    @contextlib.asynccontextmanager
    async def make(url: str, tenant: str = "acme", *, node: str = "", **how: int):
        node = node or f"node-{secrets.token_hex(4)}"
        async with (
            opened(url, node=node, **how) as own,
            running(Inbox(own, node)) as started,
            writing(own, started) as claimed,
        ):
            await claimed.take_claim(tenant=tenant)
            yield claimed

    return make


@contextlib.asynccontextmanager
async def opened(url: str, **how: int | str) -> AsyncIterator[Store]:
    fresh = Store.open(url, **how)
    try:
        yield fresh
    finally:
        await fresh.aclose()


@contextlib.asynccontextmanager
async def running(subject):
    """Run an Inbox or a Log beside the test; its failure is the test's."""
    task = asyncio.create_task(subject.run())
    try:
        yield subject
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def writing(store: Store, inbox: Inbox, limits: LogLimits | None = None):
    async with running(Log(store, inbox, limits or LogLimits())) as log:
        yield Writer(store, inbox, log)


class Writer:
    """A connector as the store sees it: it claims an agent and numbers its entries."""

    def __init__(self, store: Store, inbox: Inbox, log: Log) -> None:
        self.store = store
        self.inbox = inbox
        self.log = log
        self.agents = Agents(store, inbox)
        self.sessions = Sessions(store, inbox)
        self.round_trips = RoundTrips(store, inbox)
        self.mailbox = Mailbox(store, inbox)
        self.epoch = 0
        self.claim: Claim

    async def take_claim(
        self,
        agent: str = "a1",
        *,
        tenant: str = "acme",
        epoch: int | None = None,
        writer: str = "w1",
        journaled: int = 0,
        card: AgentCard | None = None,
    ) -> Claim:
        self.epoch = await self.store.time_ms() if epoch is None else epoch
        card = card or AgentCard(agent, "claude", title="Claude")
        mail = MailPosition(journaled)
        hello = Hello(self.epoch, writer, ConnectorCard("0.1.0", "mbp"), [card], mail=mail)
        self.claim = await self.agents.claim(tenant, hello, card, self.inbox.node)
        return self.claim

    async def append(self, *entries, session: str = "s1", claim: Claim | None = None) -> Appended:
        stored: asyncio.Queue[Appended] = asyncio.Queue()
        self.log.append(claim or self.claim, session, list(entries), stored.put_nowait)
        return await stored.get()

    async def texts(self, session: str = "s1", tenant: str = "acme") -> list[Cursor]:
        return [cursor for cursor, _ in await self.log.read(tenant, session, Cursor(0, 0), 10**6)]

    # Entries.

    def update(self, seq: int, *, epoch: int = 0, session: str = "s1", text="", prev=None):
        meta = Meta(epoch or self.epoch, seq, prev=str(prev) if prev else None)
        return _entry(entry.UPDATE, session, meta, {"update": {"text": text or f"update {seq}"}})

    def question(
        self,
        seq: int,
        id_: str = "rt-1",
        *,
        subject: str = "",
        kind="permission",
        expires_at: int | None = None,
        session: str = "s1",
        epoch: int = 0,
        at: int = 1_790_000_000_000,
    ):
        subject = subject or self.subject()
        asked = RoundTrip(
            id_,
            kind,
            subject,
            round_trip.hash_of(subject),
            ["allow", "no"] if kind == "permission" else [],
            expires_at=None if expires_at is None else entry.timestamp(expires_at),
        )
        meta = Meta(epoch or self.epoch, seq, entry.timestamp(at), round_trip=asked)
        method = entry.PERMISSION if kind == "permission" else entry.ELICITATION
        return _entry(method, session, meta, {"toolCall": {"toolCallId": "c1"}}, id_)

    @staticmethod
    def subject(command: str = "git push") -> str:
        return json.dumps({"v": 1, "command": command, "options": OPTIONS})

    def resolved(self, seq: int, id_: str = "rt-1", *, session: str = "s1", epoch: int = 0, **end):
        fields = {"id": id_, "result": "applied", "reason": "decided", **end}
        return _entry(entry.RESOLVED, session, Meta(epoch or self.epoch, seq), fields)

    # People.

    async def decide(
        self, option: str = "allow", *, id_="rt-1", decision_id="d-1", hash_="", who="alice"
    ):
        hash_ = hash_ or round_trip.hash_of(self.subject())
        answer = {"optionId": option}
        decision = Decision(id_, hash_, answer, decision_id)
        return await self.round_trips.decide(self.claim.tenant, decision, Origin(who))

    async def send(self, mail_id: str = "m-1", *, agent: str = "a1", not_after=None) -> int:
        message = {"method": "session/cancel", "params": {"sessionId": "s1"}}
        tenant = self.claim.tenant
        return await self.mailbox.send(tenant, agent, mail_id, Origin("alice"), message, not_after)


def _entry(method: str, session: str, meta: Meta, fields, id_=None):
    text = entry.stamp(method, session, meta, fields, id_=id_)
    return Cursor(meta.epoch, meta.seq), text, entry.read(text)


@contextlib.asynccontextmanager
async def proxied(target: str):
    """Stand between a client and a Redis that listens on a unix socket."""
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        way = LossyWay(target)
        path = f"{folder}/way.sock"
        server = await asyncio.start_unix_server(way.carry, path)
        way.url = f"unix://{path}"
        try:
            yield way
        finally:
            server.close()
            way.cut()
            await server.wait_closed()


class LossyWay:
    """Carries bytes both ways; may lose the reply to a command that contains some text."""

    def __init__(self, target: str) -> None:
        self.url = ""
        self.lost = asyncio.Event()  # a reply was lost
        self._target = target
        self._wanted, self._left = b"", 0
        self._writers: set[asyncio.StreamWriter] = set()

    def lose_reply_to(self, text: str, nth: int = 1) -> None:
        """Let the nth command with this text be done, and cut the line instead of its reply."""
        self._wanted, self._left = text.encode(), nth
        self.lost.clear()

    def _is_lost(self, sent: bytes) -> bool:
        # What the inbox reads and what a connection says of itself is no matter of the test.
        if self._left == 0 or self._wanted not in sent or QUIET.search(sent):
            return False
        self._left -= 1
        return self._left == 0

    def cut(self) -> None:
        for writer in self._writers:
            writer.close()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        redis_reader, redis_writer = await asyncio.open_unix_connection(self._target)
        self._writers |= {writer, redis_writer}
        try:
            while sent := await reader.read(1 << 20):
                redis_writer.write(sent)
                reply = await redis_reader.read(1 << 20)
                if self._is_lost(sent):
                    self.lost.set()
                    return
                writer.write(reply)
        except OSError:
            pass
        finally:
            self._writers -= {writer, redis_writer}
            writer.close()
            redis_writer.close()
