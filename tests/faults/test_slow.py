"""Dashboards that take their bytes slowly or not at all, and one that wants to see everything."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from fakes.cable import Cable
from fakes.peers import ClientPeer, Refused, UplinkPeer
from faults.ground import until
from faults.house import House, metrics
from faults.memory import MIB, Memory
from faults.oracle import percentile
from faults.place import Place
from faults.reader import Broadcast, Reader

SLOW_BYTES_A_SECOND = 1_000
PIECE = 32 << 10  # bytes of an entry
AWAY_SECONDS = 120
RATE = 60.0  # entries a second
EASE_SECONDS = (1.0, 0.005)  # what a machine may add to a time: shared with the suite, and not


async def readers(stack: AsyncExitStack, place: Place, count: int) -> list[Reader]:
    """Dashboards that have loaded the session."""
    made = []
    for n in range(count):
        made.append(await stack.enter_async_context(Reader(place, subject=f"p{n}")))
        await made[-1].initialize()
        await made[-1].load()
    return made


async def has(dashboards: list[Reader], count: int) -> None:
    await until(lambda: all(len(one.seconds) >= count for one in dashboards))


async def only_so_many(at: House, sockets: int) -> None:
    """Wait until the relay has no more than so many left."""
    async with asyncio.timeout(AWAY_SECONDS):
        while (await metrics(at.relays[0]))["bridge_sockets"] > sockets:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def rounds(
    broadcast: Broadcast, dashboards: list[Reader], entries: int, rate: float
) -> float:
    """Send timed entries and give the p99 of how long they were under way."""
    await broadcast.send(entries, rate)
    await has(dashboards, entries)
    return percentile([s for one in dashboards for s in one.take()], 0.99)


async def test_a_slow_and_a_deaf_dashboard_cost_the_others_nothing(house, row, length):
    """R16."""
    fast, entries, times = length(15, 50), length(600, 1_200), length(1, 3)
    calm, beside, rises, sent_away = [], [], [], []
    async with house() as at, AsyncExitStack() as stack:
        place, pid = Place(at), at.relays[0].relay.process.pid
        connector = await stack.enter_async_context(UplinkPeer(place))
        await connector.hello("s1")
        broadcast = Broadcast(connector, PIECE)
        dashboards = await readers(stack, place, fast)
        await rounds(broadcast, dashboards, entries // 4, RATE)  # everything has been used once
        for _ in range(times):
            calm.append(await rounds(broadcast, dashboards, entries, RATE))
            async with slow_and_deaf(at):
                with Memory(pid) as memory:
                    beside.append(await rounds(broadcast, dashboards, entries, RATE))
                rises.append(memory.rise)
                begun = time.monotonic()
                await only_so_many(at, fast + 1)
                sent_away.append(time.monotonic() - begun)
        await stack.aclose()
        row(
            *("R16", f"one at 1 kB/s and one that never reads among {fast} fast dashboards"),
            sent=broadcast.seq,
            seen=fast * broadcast.seq,
            p99=f"{1000 * min(beside):.1f} ms; without them {1000 * min(calm):.1f} ms",
            memory=f"+{max(rises) / MIB:.1f} MiB",
            sent_away_after=max(sent_away),
            **await at.left(),
        )
        assert max(rises) <= 16 * MIB
        assert min(beside) <= 1.1 * min(calm) + length(*EASE_SECONDS)


@asynccontextmanager
async def slow_and_deaf(at: House) -> AsyncIterator[None]:
    """Have one dashboard that takes its bytes slowly and one that takes none."""
    async with Cable(at.relays[0].url) as cable, AsyncExitStack() as stack:
        cable.piece = SLOW_BYTES_A_SECOND
        through = Place(at)
        through.port = cable.port
        await readers(stack, through, 1)
        (deaf,) = await readers(stack, Place(at), 1)
        cable.rate = SLOW_BYTES_A_SECOND
        deaf.stop_reading()
        yield
        deaf.socket.transport.abort()
        cable.cut()


async def test_a_dashboard_that_stops_reading_costs_no_memory(house, row, length):
    """F02."""
    entries = length(60, 200) * 16
    async with house() as at, AsyncExitStack() as stack:
        place, pid = Place(at), at.relays[0].relay.process.pid
        connector = await stack.enter_async_context(UplinkPeer(place))
        await connector.hello("s1")
        broadcast = Broadcast(connector, 64 << 10)
        good, deaf = await readers(stack, place, 2)
        await broadcast.send(32)
        deaf.stop_reading()
        with Memory(pid) as memory:
            await broadcast.send(entries)
            await has([good], entries + 32)
        deaf.socket.transport.abort()
        await stack.aclose()
        row(
            *("F02", f"a dashboard stops reading while {entries // 16} MiB are broadcast"),
            sent=broadcast.seq,
            seen=len(good.seconds),
            memory=f"+{memory.rise / MIB:.1f} MiB",
            **await at.left(),
        )
        assert len(good.seconds) == broadcast.seq
        assert memory.rise < 20 * MIB


async def test_one_dashboard_cannot_take_every_session(house, row, length):
    """R30."""
    asked, most = length(2_000, 100_000), 200
    async with (
        house(BRIDGE_MAX_SESSIONS_PER_DASHBOARD=str(most)) as at,
        AsyncExitStack() as stack,
    ):
        place, pid = Place(at), at.relays[0].relay.process.pid
        connector = await stack.enter_async_context(UplinkPeer(place))
        greedy = await stack.enter_async_context(ClientPeer(place, subject="greedy"))
        names = [f"s{n}" for n in range(1, most + 51)]
        await connector.hello(*names)
        for name in names:
            await connector.store(connector.update(1, session=name), session=name)
        await greedy.initialize()
        for name in names[:most]:
            await greedy.load(name)
        broadcast = Broadcast(connector, 300)
        broadcast.seq = 1
        others = await readers(stack, place, 5)
        calm = await rounds(broadcast, others, 300, 100)
        with Memory(pid) as memory:
            refusing = asyncio.create_task(refusals(greedy, names[most:], asked))
            beside = await rounds(broadcast, others, 300, 100)
            reasons = await refusing
        await stack.aclose()
        row(
            *("R30", f"one dashboard asks {asked} times for more than its {most} sessions"),
            refused=sum(reasons.values()),
            p99=f"{1000 * beside:.1f} ms; without it {1000 * calm:.1f} ms",
            memory=f"+{memory.rise / MIB:.1f} MiB",
            **await at.left(),
        )
        assert reasons == {"too_many_sessions": asked}
        assert memory.rise < 5 * MIB


async def refusals(greedy: ClientPeer, names: list[str], count: int) -> Counter[str]:
    """Ask for other sessions, one after the other, and count what is said."""
    said: Counter[str] = Counter()
    for n in range(count):
        greedy.got.clear()
        with pytest.raises(Refused) as refused:
            await greedy.load(names[n % len(names)])
        said[refused.value.data["reason"]] += 1
    return said
