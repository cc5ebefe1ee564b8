"""What is acknowledged only when replicas have it, and a failover by real Sentinels."""

import asyncio
import contextlib
import signal
import time
from functools import partial

import pytest
from fakes.cable import Cable
from fakes.redises import sentinel_url, until

from bridge import fitness, keys
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store


def at(server) -> str:
    return f"redis://127.0.0.1:{server.port}"


async def surely(work):
    """Do it again until replicas confirm it: one that was away takes a while to follow."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(StoreUnavailable):
                return await work()


@pytest.fixture
def pair(own_redises):
    """A master and its replica."""
    return own_redises.replicated(1)


@pytest.fixture
async def confirmed(pair, writer_at):
    """A connector whose entries count when the replica has them."""
    async with writer_at(at(pair[0]), replicas=1, wait_ms=200) as writer:
        yield writer


# Waiting for replicas.


async def test_what_the_replica_has_is_acknowledged(confirmed, pair):
    assert (await confirmed.append(confirmed.update(1))).state == "ok"
    assert pair[1].call("XLEN", keys.log("acme", "s1")) == 1


async def test_an_entry_is_not_acknowledged_before_the_replica_has_it(confirmed, pair, heard):
    missing = heard("0 of 1 replicas confirmed it within 200 ms")
    pair[1].kill(signal.SIGSTOP)
    try:
        waiting = asyncio.create_task(confirmed.append(confirmed.update(1)))
        await missing.wait()
        for _ in range(3):  # a batch that is stored already must not count at once
            await confirmed.store.time_ms()
        assert not waiting.done()
    finally:
        pair[1].kill(signal.SIGCONT)
    assert (await waiting).state == "ok"
    assert [c.seq for c in await confirmed.texts()] == [1]


async def test_a_decision_is_told_only_when_replicated_and_is_the_same_then(confirmed, pair):
    await confirmed.append(confirmed.question(1))
    pair[1].kill(signal.SIGSTOP)
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="send the same again"):
                await confirmed.decide()
    finally:
        pair[1].kill(signal.SIGCONT)
    assert (await surely(confirmed.decide)).state == "recorded"
    second = partial(confirmed.decide, decision_id="d-2", who="bob")
    assert (await surely(second)).state == "late"
    assert await confirmed.store.commands.xlen(keys.mail("acme", "a1")) == 1


async def test_mail_is_taken_only_when_replicated_and_once(confirmed, pair):
    pair[1].kill(signal.SIGSTOP)
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="send the same again"):
                await confirmed.send()
    finally:
        pair[1].kill(signal.SIGCONT)
    n = await surely(confirmed.send)
    assert await surely(confirmed.send) == n
    assert await confirmed.store.commands.xlen(keys.mail("acme", "a1")) == 1


async def test_too_few_replicas_are_told_by_the_check(pair):
    store = Store.open(at(pair[0]), replicas=2, wait_ms=1000)
    try:
        with pytest.raises(StoreUnavailable, match="1 of 2 replicas .* BRIDGE_REDIS_WAIT_REPLICAS"):
            await store.check()
        assert "acknowledged when 2 of them confirmed" in await fitness.describe(store)
    finally:
        await store.aclose()


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_failover_while_the_replica_is_cut_off(own_redises, writer_at, figure, replicas):
    """R25: with WAIT nothing acknowledged is lost; without it, as much as the figure says."""
    master = own_redises.server()
    async with Cable(f"tcp://127.0.0.1:{master.port}") as link:
        replica = await asyncio.to_thread(own_redises.following, link.port)
        acknowledged = 0
        async with writer_at(at(master), replicas=replicas, wait_ms=100) as writer:
            for seq in range(1, 101):
                acknowledged = (await writer.append(writer.update(seq))).cursor.seq
            log = keys.log("acme", "s1")
            await asyncio.to_thread(until, lambda: replica.call("XLEN", log) == 100)
            link.cut()
            for seq in range(101, 1101):
                try:
                    async with asyncio.timeout(2):
                        acknowledged = (await writer.append(writer.update(seq))).cursor.seq
                except TimeoutError:
                    break
        replica.call("REPLICAOF", "NO", "ONE")
        master.kill()
        held = replica.call("XLEN", log)
    lost = acknowledged - held
    figure(f"R25 failover with a cut, WAIT {replicas}: {lost} of {acknowledged} lost")
    assert (lost == 0) == bool(replicas)


# Sentinels.


async def test_a_failover_by_sentinels_loses_nothing_that_was_acknowledged(
    own_redises, writer_at, figure
):
    """R25: kill -9 of the master under load, two replicas, three Sentinels, WAIT 1."""
    master, *replicas = own_redises.replicated(2)
    url = sentinel_url(own_redises.sentinels(master))
    acknowledged = 0
    async with writer_at(url, replicas=1) as writer:
        await writer.store.check()
        writing = [asyncio.create_task(writer.append(writer.update(seq))) for seq in range(1, 1001)]
        await writing[200]
        master.kill()
        killed_at = time.monotonic()
        acknowledged = sum(task.done() for task in writing)
        for task in writing:
            assert (await task).state == "ok"
        await writer.append(writer.update(1001))
        figure(
            f"Sentinel failover: {acknowledged} acknowledged before the kill, 0 lost; "
            f"all 1,001 stored after {time.monotonic() - killed_at:.1f} s"
        )
        assert [c.seq for c in await writer.texts()] == list(range(1, 1002))
        await writer.store.check()
    new = next(r for r in replicas if r.info("replication", "role") == "master")
    assert new.call("XLEN", keys.log("acme", "s1")) == 1001


async def test_a_master_that_sentinels_demote_is_left_at_once(own_redises, writer_at):
    master, replica = own_redises.replicated(1)
    sentinels = own_redises.sentinels(master)
    async with writer_at(sentinel_url(sentinels)) as writer:
        await writer.append(writer.update(1))
        sentinels[0].call("SENTINEL", "FAILOVER", "bridge")
        await asyncio.to_thread(until, lambda: master.info("replication", "role") == "slave")
        assert (await writer.append(writer.update(2))).state == "ok"
        assert [c.seq for c in await writer.texts()] == [1, 2]
    assert replica.call("XLEN", keys.log("acme", "s1")) == 2
