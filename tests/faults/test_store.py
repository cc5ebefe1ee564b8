"""Redis is killed, frozen, cut off, filled or failed over while sessions stream."""

import asyncio
import contextlib
import os
import subprocess
import time
from contextlib import ExitStack

import pytest
from e2e.asking import is_changed
from fakes.redises import Redises, until
from faults.house import opening
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
