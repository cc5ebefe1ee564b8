"""A relay process dies or is stopped while sessions stream; another one is there."""

from faults.oracle import NOTHING_WRONG, judge, percentile

SECONDS = 300


async def test_a_killed_node_loses_nothing_of_what_streams_through_it(house, row, length, bar):
    """R01."""
    sessions, chunks, rate = length(10, 20), length(400, 4000), length(100, 200)
    async with house(relays=2) as at:
        opened = await at.sessions(sessions, chunks, rate)
        watchers = await at.watch(opened, at.relays[1].url, at.door.url)
        await at.stream(watchers)
        for watcher in watchers:
            await watcher.has(chunks // 4, SECONDS)
            watcher.mark()
        await at.relays[0].kill_relay()
        for watcher in watchers:
            await watcher.has(chunks, SECONDS)
        silences = [s for watcher in watchers for s in watcher.longest.values()]
        recover = percentile(silences, 0.99)
        faults = judge(watchers, chunks)
        lost_acks = at.acked_lost()
        row(
            *("R01", f"kill -9 of one of 2 nodes, {sessions} sessions at {rate}/s each"),
            sent=sessions * chunks,
            acked=at.acknowledged.count,
            **faults,
            recover=recover,
            acked_lost=lost_acks,
            **await at.left(),
        )
        assert (faults, lost_acks) == (NOTHING_WRONG | {"seen": 2 * sessions * chunks}, 0)
        assert recover < bar(3)
