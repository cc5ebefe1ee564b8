"""A real Redis Cluster on loopback: three masters, and what a relay does on it."""

import asyncio
import signal
import time

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.redises import (
    Redises,
    begin_move,
    cluster_url,
    move_keys,
    move_slot,
    name_of,
    redises,
)
from fakes.served import serving
from redis.exceptions import MovedError, ResponseError

from bridge import fitness, keys
from bridge.address import Address, Node
from bridge.clients import COMMANDS, close_client, open_client
from bridge.cluster import slot_of
from bridge.protocol.cursor import START
from bridge.protocol.errors import StoreUnavailable
from bridge.protocol.uplink import MailDone

TENANTS = ("acme", "globex", "initech", "umbrella", "hooli", "vandelay")


@pytest.fixture(scope="module")
def masters():
    """The masters of a Cluster that the tests of this file share."""
    with redises() as made:
        yield made.cluster(3)


@pytest.fixture
async def url(masters):
    Redises.whole(masters)
    for master in masters:
        master.call("FLUSHALL")
    return cluster_url(masters[:2])


@pytest.fixture
async def client(url):
    found = open_client(Address.parse(url), COMMANDS)
    yield found
    await close_client(found)


def holder(masters, tenant: str):
    """The master on which a tenant lives."""
    return _owner(masters, keys.audit(tenant))


class Seen:
    """What a node is shown of a stream."""

    def __init__(self, inbox, tenant: str, stream: str) -> None:
        self.ids: list[str] = []
        self._more = asyncio.Event()
        self.place = inbox.follow(tenant, stream, "0-0", self._take)

    async def until(self, count: int) -> list[int]:
        while len(self.ids) < count:
            self._more.clear()
            await self._more.wait()
        return [int(id_.split("-")[1]) for id_ in self.ids]

    def _take(self, entries) -> None:
        self.ids += [id_ for id_, _ in entries]
        self._more.set()


# The client.


def test_the_tenants_of_these_tests_live_on_all_masters(masters):
    assert {holder(masters, tenant) for tenant in TENANTS} == set(masters)


async def test_commands_of_all_masters_go_in_one_pipeline_and_come_back_in_order(client):
    pipe = client.pipeline(transaction=False)
    for n, tenant in enumerate(TENANTS):
        pipe.set(keys.fence(keys.audit(tenant)), n)
    pipe.time()
    for tenant in TENANTS:
        pipe.get(keys.fence(keys.audit(tenant)))
    replies = await pipe.execute()
    assert replies[:6] == [True] * 6
    assert replies[7:] == [b"%d" % n for n in range(6)]


async def test_an_error_of_one_command_is_given_in_its_place_or_raised(client):
    pipe = client.pipeline(transaction=False)
    pipe.set("{a}1", "x").get("{b}1").hget("{a}1", "f")
    *_, error = await pipe.execute(raise_on_error=False)
    assert isinstance(error, ResponseError)
    assert not isinstance(error, MovedError)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        await client.hget("{a}1", "f")
    assert await client.pipeline().execute() == []


async def test_a_slot_that_moved_is_followed(client, masters):
    key = "{moving}x"
    slot = slot_of(key)
    await client.set(key, "kept")
    source, target, _ = sorted(masters, key=lambda m: (client.owner(key).port != m.port, m.port))
    move_slot(slot, source, target, masters)
    assert await client.get(key) == b"kept"
    assert client.owner(key) == Node("127.0.0.1", target.port)
    begin_move(slot, target, source)
    move_keys([key.encode()], target, source)
    assert await client.get(key) == b"kept"  # by ASKING, on the connection of the command
    assert client.owner(key) == Node("127.0.0.1", target.port)
    for master in masters:
        master.call("CLUSTER", "SETSLOT", slot, "NODE", name_of(source))


async def test_more_callers_than_connections_all_get_through(client):
    got = await asyncio.gather(*(client.set(f"{{k{n}}}", n) for n in range(300)))
    assert got == [True] * 300


# The store.


async def test_a_cluster_is_found_fit_and_described(url, masters, writer_at):
    async with writer_at(url) as writer:
        await writer.store.check()
        said = await fitness.describe(writer.store)
    assert said.startswith("a Redis Cluster of 3 masters (127.0.0.1:")
    assert said.endswith("replicas 0; maxmemory-policy noeviction; append-only file on")


@pytest.mark.parametrize("tenant", TENANTS)
async def test_log_mail_questions_and_notices_work_on_whichever_master(url, writer_at, tenant):
    async with writer_at(url, tenant) as writer, writer_at(url, "elsewhere") as other:
        log = Seen(other.inbox, tenant, keys.log(tenant, "s1"))
        mail = Seen(other.inbox, tenant, keys.mail(tenant, "a1"))
        await log.place.ready()
        await writer.append(writer.update(1), writer.question(2))
        assert (await writer.decide()).state == "recorded"
        n = await writer.send()
        await mail.until(2)
        await writer.mailbox.acknowledge(writer.claim, n)
        await writer.mailbox.done(writer.claim, MailDone("m-1"))
        await writer.append(writer.resolved(3))
        assert await log.until(3) == [1, 2, 3]
        record = await writer.round_trips.get(tenant, "rt-1")
        assert (record.result, record.decision.decision_id) == ("applied", "d-1")
        assert [s.session_id for s in await writer.sessions.list(tenant)] == ["s1"]
        assert [a.id for a in await other.agents.list(tenant)] == ["a1"]
        assert await writer.agents.renew(writer.claim, 0)


async def test_streams_on_all_masters_are_followed_by_one_node(url, writer_at):
    async with writer_at(url) as reader, writer_at(url) as writer:
        seen = {t: Seen(reader.inbox, t, keys.log(t, "s1")) for t in TENANTS}
        for tenant in TENANTS:
            claim = await writer.take_claim(tenant=tenant)
            await asyncio.gather(
                *(writer.append(writer.update(seq), claim=claim) for seq in range(1, 51))
            )
        for each in seen.values():
            assert await each.until(50) == list(range(1, 51))


async def test_a_slot_that_moves_under_a_stream_loses_and_doubles_nothing(url, masters, writer_at):
    slot = slot_of(keys.audit("acme"))
    source = holder(masters, "acme")
    target = next(master for master in masters if master is not source)
    async with writer_at(url) as writer, writer_at(url, "elsewhere") as other:
        seen = Seen(other.inbox, "acme", keys.log("acme", "s1"))
        await seen.place.ready()

        async def move() -> None:
            await writer.append(writer.update(1))
            begin_move(slot, source, target)
            while found := source.call("CLUSTER", "GETKEYSINSLOT", slot, 1):
                move_keys(found, source, target)
                await asyncio.sleep(0.01)
            for master in (target, *masters):
                master.call("CLUSTER", "SETSLOT", slot, "NODE", name_of(target))

        moving = asyncio.create_task(move())
        for seq in range(1, 200):
            assert (await writer.append(writer.update(seq))).state == "ok"
        await moving
        assert await seen.until(199) == list(range(1, 200))
        assert [c.seq for c in await writer.texts()] == list(range(1, 200))
        assert holder(masters, "acme") is target


async def test_a_master_that_is_killed_stops_only_its_tenants_and_goes_on(
    masters, url, writer_at, figure
):
    gone = holder(masters, "acme")
    spared = next(t for t in TENANTS if holder(masters, t) is not gone)
    async with writer_at(url) as writer, writer_at(url, spared) as other:
        await writer.append(writer.update(1))
        gone.kill(signal.SIGKILL)
        with pytest.raises(StoreUnavailable):
            await writer.send()
        waiting = asyncio.create_task(writer.append(writer.update(2)))
        longest = 0.0
        for seq in range(1, 50):
            began = time.monotonic()
            claim = other.claim
            await other.append(other.update(seq), claim=claim)
            longest = max(longest, time.monotonic() - began)
        assert not waiting.done()
        gone.start()
        assert (await waiting).state == "ok"
        assert [c.seq for c in await writer.texts()] == [1, 2]
        assert await writer.send()
    figure(f"one master killed: a tenant on another waited at most {longest * 1000:.0f} ms")


# The relay.


@pytest.mark.parametrize("tenant", TENANTS[:3])
async def test_two_relays_on_a_cluster_carry_a_stream_a_question_and_mail(url, tmp_path, tenant):
    async with (
        serving(url, keys_dir=tmp_path) as a,
        serving(url, keys_dir=tmp_path) as b,
        UplinkPeer(a, tenant=tenant) as connector,
        ClientPeer(b, tenant=tenant) as person,
    ):
        await connector.hello("s1")
        await person.initialize()
        for seq in range(1, 20):
            await connector.say(connector.update(seq))
        await person.load()
        await connector.say(connector.question(20))
        asked = await person.question()
        await person.choose(asked)
        mail = await connector.told("uplink/mail")
        assert mail["message"]["params"]["answer"] == {"optionId": "allow"}
        await connector.told("uplink/ack", seq=20)
        assert await a.relay.log.read(tenant, "s1", START, 1)
        async with a.client(tenant=tenant) as http:
            assert (await http.get("/readyz")).status_code == 200


async def test_a_replica_takes_over_and_nothing_acknowledged_is_lost(
    own_redises, writer_at, figure
):
    servers = own_redises.cluster(3, 1)
    url = cluster_url(servers[:3])
    gone = holder(servers[:3], "acme")
    async with writer_at(url, replicas=1) as writer, writer_at(url, "elsewhere") as other:
        seen = Seen(other.inbox, "acme", keys.log("acme", "s1"))
        recovered = asyncio.Event()
        writer.inbox.recovered.add(recovered.set)
        for seq in range(1, 101):
            await writer.append(writer.update(seq))
        gone.kill()
        began = time.monotonic()
        waiting = asyncio.create_task(writer.append(writer.update(101)))
        await recovered.wait()  # though the inbox may lie on a master that was never away
        figure(f"Cluster failover: another master after {time.monotonic() - began:.1f} s")
        assert not waiting.done()  # the new master has no replica that could confirm it
        gone.start()  # as one
        assert (await waiting).state == "ok"
        for seq in range(102, 201):
            assert (await writer.append(writer.update(seq))).state == "ok"
        assert await seen.until(200) == list(range(1, 201))
        assert [c.seq for c in await writer.texts()] == list(range(1, 201))


async def test_a_master_that_comes_back_with_less_is_told_of(masters, url, writer_at):
    gone = holder(masters, "acme")
    node = next(f"n{n}" for n in range(99) if _owner(masters, keys.inbox(f"n{n}")) is not gone)
    async with writer_at(url, node=node) as writer:
        recovered = asyncio.Event()
        writer.inbox.recovered.add(recovered.set)
        gone.kill()
        with pytest.raises(StoreUnavailable):
            await writer.send()
        gone.start()
        await recovered.wait()


def _owner(masters, key: str):
    slot = slot_of(key)
    port = next(
        port
        for first, last, (_, port, *_), *_ in masters[0].call("CLUSTER", "SLOTS")
        if first <= slot <= last
    )
    return next(master for master in masters if master.port == port)
