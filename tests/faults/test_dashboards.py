"""Dashboards that lose their connection again and again, and many that are sent away at once."""

import asyncio
import random
import time

from faults.oracle import NOTHING_WRONG, judge, percentile

SECONDS = 240


async def test_a_dashboard_that_comes_back_a_hundred_times_sees_each_entry_once(house, row, length):
    """R14."""
    chunks, times, chance = length(3_000, 10_000), length(30, 100), random.Random(14)
    async with house(relays=2) as at:
        opened = await at.sessions(1, chunks, rate=length(600, 300))
        watchers = await at.watch(opened, at.relays[1].url, at.relays[0].url)
        await at.stream(watchers)
        restless, steady = watchers
        caught_up = []
        for n in range(times):
            await restless.has(min(chunks, chunks * n // times + chance.randrange(1, 20)), SECONDS)
            dropped, held, back = time.monotonic(), steady.seen, len(restless.back_at)
            restless.drop()
            await restless.until(lambda b=back: len(restless.back_at) > b, SECONDS)
            await restless.has(held, SECONDS)
            caught_up.append(time.monotonic() - dropped)
        for watcher in watchers:
            await watcher.has(chunks, SECONDS)
        faults = judge(watchers, chunks)
        row(
            *("R14", f"a dashboard reconnects {times} times at random"),
            sent=chunks,
            acked=at.acknowledged.count,
            **faults,
            recover=percentile(caught_up, 0.99),
            **await at.left(),
        )
        assert faults == NOTHING_WRONG | {"seen": 2 * chunks}
        assert len(restless.codes) >= times


async def test_a_node_that_is_told_to_end_sends_everybody_to_the_other(house, row, length, bar):
    """R24."""
    sockets, chunks = length(60, 200), length(300, 1_000)
    async with house(relays=2) as at:
        opened = await at.sessions(2, chunks, rate=50)
        watchers = await at.watch(opened, *[at.door.url] * sockets)
        await at.stream(watchers[:1])
        for watcher in watchers:
            await watcher.has(20, SECONDS)
            watcher.mark()
        begun = time.monotonic()
        at.relays[0].relay.process.terminate()
        async with asyncio.timeout(SECONDS):
            await at.relays[0].relay.process.wait()
        ended = time.monotonic() - begun
        for watcher in watchers:
            await watcher.has(chunks, SECONDS)
        faults = judge(watchers, chunks)
        codes = {code for watcher in watchers for code in watcher.codes}
        silences = [s for watcher in watchers for s in watcher.longest.values()]
        recover = percentile(silences, 0.99)
        row(
            *("R24", f"SIGTERM of one of 2 nodes with {sockets} dashboards and a connector"),
            sent=2 * chunks,
            acked=at.acknowledged.count,
            **faults,
            recover=recover,
            ended_after=ended,
            close_codes=" ".join(map(str, codes)),
            **await at.left(),
        )
        assert faults == NOTHING_WRONG | {"seen": 2 * chunks * sockets}
        assert codes == {1012}
        assert ended < bar(5)
