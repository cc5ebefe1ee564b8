"""Redis is killed, frozen, cut off, filled or failed over while sessions stream."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from contextlib import ExitStack

import httpx
import pytest
from e2e.asking import is_changed, opened_question
from fakes.cable import Cable
from fakes.redises import Redises, until
from fakes.running import asks
from faults.house import opening
from faults.lag import Lag
from faults.oracle import NOTHING_WRONG, judge

SECONDS = 240
RATE = 50
DISK = 24 << 20


class Outage:
    """A stream through a time without Redis, and what was noticed of it."""

    def __init__(self, at, sessions: int, seconds: float) -> None:
        self.at, self.sessions = at, sessions
        self.chunks = int(RATE * (seconds + 6))
        self.detect = self.recover = 0.0

    async def begin(self) -> None:
        at = self.at
        opened = await at.sessions(self.sessions, self.chunks, RATE)
        self.watchers = await at.watch(opened, *(site.url for site in at.relays))
        self.alice = await at.dashboard()
        await self.alice.call("_bridge/watch")
        await at.stream(self.watchers)
        for watcher in self.watchers:
            await watcher.has(RATE)

    async def shown(self, since: float) -> None:
        """Wait until people are told."""
        await self.alice.until(is_changed("store", state="degraded"))
        self.detect = time.monotonic() - since

    async def over(self, since: float) -> None:
        """Wait until entries are acknowledged again and people are told so."""
        await self.at.acknowledged.more_than(self.at.acknowledged.count)
        self.recover = time.monotonic() - since
        degraded = is_changed("store", state="degraded")
        told = next(n for n, m in enumerate(self.alice.got) if degraded(m))
        await self.alice.until(is_changed("store", state="ok"), after=told)

    async def end(self, row, name: str, what: str, **more) -> None:
        """Wait for all that was sent, note the figures and insist on them."""
        for watcher in self.watchers:
            await watcher.has(self.chunks, SECONDS)
        faults, lost_acks = judge(self.watchers, self.chunks), self.at.acked_lost()
        sent = self.sessions * self.chunks
        row(
            *(name, what),
            sent=sent,
            acked=self.at.acknowledged.count,
            **faults,
            detect=self.detect,
            recover=self.recover,
            acked_lost=lost_acks,
            **more,
            **await self.at.left(),
        )
        seen = {"seen": sent * len(self.watchers)}
        assert (faults, lost_acks) == (NOTHING_WRONG | seen, 0)


@pytest.mark.parametrize("away", [2, 15])
async def test_a_killed_redis_that_starts_again_has_all_that_was_acknowledged(
    house, row, length, bar, away
):
    """R03."""
    away = length(min(away, 4), away)
    async with house(relays=2) as at:
        outage = Outage(at, length(3, 10), away)
        await outage.begin()
        killed = time.monotonic()
        at.redis.kill()
        await outage.shown(killed)
        await asyncio.sleep(max(0, killed + away - time.monotonic()))
        at.redis.start()
        await asyncio.to_thread(until, lambda: at.redis.call("PING"))
        await outage.over(time.monotonic())
        await outage.end(row, "R03", f"kill -9 of Redis, started again {away} s later")
        assert outage.detect < bar(2)
        assert outage.recover < bar(2)


async def test_a_frozen_redis_records_nothing_and_hangs_nobody(house, row, length, bar):
    """R04."""
    away = length(5, 10)
    async with house(relays=2) as at:
        await at.connect(turns=[[asks()]])
        alice = await at.dashboard()
        session = await alice.open("stamped", at.relays[0].work)
        await alice.call("_bridge/watch")
        turn = alice.prompt(session, "go")
        question = await opened_question(alice, session)
        answer = {"hash": question["hash"], "answer": {"optionId": "yes"}}
        calls = []
        async with Lag() as lag:
            at.redis.kill(signal.SIGSTOP)
            frozen = time.monotonic()
            try:
                for n in range(1000):
                    if time.monotonic() > frozen + away:
                        break
                    client = await at.rest(n % 2)
                    calls += await asyncio.gather(
                        timed(client.get("/api/sessions")),
                        timed(
                            client.post(
                                f"/api/round-trips/{question['id']}/decision",
                                json={**answer, "decisionId": f"d-{n}"},
                            )
                        ),
                    )
            finally:
                at.redis.kill(signal.SIGCONT)
        statuses = {reply.status_code for _, reply in calls}
        slowest = max(seconds for seconds, _ in calls)
        client = await at.rest()
        last = await decide(client, question["id"], answer)
        await alice.answer(turn)
        applied = len([m for m in at.agent.lines("in") if "method" not in m])
        told = {"recorded": sum(r.json().get("state") == "recorded" for _, r in calls)}
        row(
            *("R04", f"SIGSTOP of Redis for {away} s, answers and lists asked for meanwhile"),
            **told,
            applied=applied,
            calls=len(calls),
            slowest_call=slowest,
            **await at.left(),
        )
        assert (statuses, told["recorded"], applied) == ({503}, 0, 1)
        assert last.json()["state"] in {"recorded", "late", "closed"}
        assert slowest < bar(3.5) + lag.worst


async def decide(client, id_, answer) -> httpx.Response:
    return await client.post(
        f"/api/round-trips/{id_}/decision", json={**answer, "decisionId": "d-last"}
    )


async def timed(call):
    begun = time.monotonic()
    reply = await call
    return time.monotonic() - begun, reply


async def test_a_black_hole_on_the_way_to_redis_is_noticed_and_loses_nothing(
    house, row, length, bar
):
    """R06."""
    away = length(7, 20)
    async with house(relays=2) as at:
        outage = Outage(at, length(3, 10), away)
        await outage.begin()
        held = time.monotonic()
        at.ways[0].hold()
        await outage.shown(held)
        await asyncio.sleep(max(0, held + away - time.monotonic()))
        at.ways[0].mend()
        await outage.over(time.monotonic())
        await outage.end(row, "R06", f"black hole between one node and Redis for {away} s")
        assert outage.detect <= bar(5)


@contextlib.contextmanager
def small_disk(folder):
    """A disk of a few megabytes; needs root."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    subprocess.run(["mount", *options], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_full_disk_is_shown_and_what_was_refused_comes_later(row, length, tmp_path):
    """R27."""
    if os.geteuid() != 0:
        row("R27", "the disk of Redis is full", cannot_run="needs root, to mount a small disk")
        return
    away = length(4, 15)
    with ExitStack() as stack:
        disk = stack.enter_context(small_disk(tmp_path / "disk"))
        servers = Redises(disk)
        stack.callback(servers.stop)
        server = servers.server("--appendfsync", "everysec")  # with "always" it would end itself
        async with opening(tmp_path, server, 2) as at:
            outage = Outage(at, 3, away)
            await outage.begin()
            filled = time.monotonic()
            filler = disk / "filler"
            await asyncio.to_thread(fill, filler)
            await outage.shown(filled)
            await asyncio.sleep(max(0, filled + away - time.monotonic()))
            refused = (await (await at.rest()).get("/readyz")).status_code
            filler.unlink()
            await outage.over(time.monotonic())
            await outage.end(row, "R27", f"the disk of Redis is full for {away} s", readyz=refused)
            at.redis.kill()
            at.redis.start()
            await asyncio.to_thread(until, lambda: at.redis.call("PING"))
            assert at.acked_lost() == 0
            assert refused == 503


def fill(filler) -> None:
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)


@pytest.mark.parametrize("replicas", [0, 1])
async def test_a_failover_to_a_replica_that_was_cut_off(house, row, own_redises, length, replicas):
    """R25."""
    master = own_redises.server()
    async with Cable(f"tcp://127.0.0.1:{master.port}") as link:
        replica = await asyncio.to_thread(own_redises.following, link.port)
        async with house(2, master, BRIDGE_REDIS_WAIT_REPLICAS=str(replicas)) as at:
            await at.write_once()  # a WAIT has a connection of its own, which is kept
            outage = Outage(at, length(3, 10), 4)
            await outage.begin()
            link.cut()
            await asyncio.sleep(2)
            replica.call("REPLICAOF", "NO", "ONE")
            if replicas:  # the new master needs one as well before anything counts
                await asyncio.to_thread(own_redises.following, replica.port)
            for way in at.ways:
                way.urls = [f"tcp://127.0.0.1:{replica.port}"]
            at.redis, acked = replica, at.acknowledged.count
            master.kill()
            lost_then, failed_over = at.acked_lost(), time.monotonic()
            await at.acknowledged.more_than(acked)
            outage.recover = time.monotonic() - failed_over
            what = f"failover to a replica that was cut off, WAIT {replicas}"
            await outage.end(row, "R25", what, acked_lost_at_failover=lost_then)
            assert (lost_then == 0) == bool(replicas)
