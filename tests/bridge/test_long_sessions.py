"""Sessions of a hundred thousand entries: coming to one costs what its newest part costs."""

import time

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.served import serving

from bridge.protocol.cursor import Cursor

LONG, SHORT = 200_000, 1_000


@pytest.fixture(scope="module")
async def house(redis_server):
    """A relay that keeps a long session and a short one."""
    limits = {"log_entries": 10**6, "log_bytes": 1 << 30}
    async with serving(redis_server, **limits) as served, UplinkPeer(served) as connector:
        await connector.hello("long", "short")
        await fill(connector, "short", SHORT)
        await fill(connector, "long", LONG)
        yield served


async def fill(connector, session, count):
    for first in range(1, count + 1, 2_000):
        last = first + min(2_000, count) - 1
        texts = [
            connector.update(n, "a few words ", session=session) for n in range(first, last + 1)
        ]
        for text in texts:
            await connector.say(text)
        await connector.acknowledged(last, session=session)
        connector.got.clear()


async def least(times, work):
    """The least seconds of several runs: what it costs when nothing else runs."""
    seconds = []
    for _ in range(times):
        begun = time.perf_counter()
        await work()
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


async def load(served, session, **bridge):
    async with ClientPeer(served) as client:
        await client.initialize()
        begun = time.perf_counter()
        meta = {"chimera.bridge": bridge}
        await client.call("session/load", sessionId=session, cwd="/", mcpServers=[], _meta=meta)
        return time.perf_counter() - begun, client.got


async def test_coming_to_a_long_session_takes_less_than_half_a_second(house):
    """F07."""
    seconds, got = await load(house, "long", limit=500, compact=True)
    updates = [m for m in got if m.get("method") == "session/update"]
    size = sum(len(str(m)) for m in updates)
    whole, _ = await load(house, "long")
    print(f"{LONG:,} entries: the page's attach {1000 * seconds:.0f} ms, {len(updates)} frames,")
    print(f"{size:,} bytes; a stock client's, 5,000 entries: {1000 * whole:.0f} ms")
    assert seconds < 0.5
    assert len(updates) == 1
    assert updates[0]["params"]["_meta"]["chimera.bridge"]["joined"] == 500


async def test_the_newest_page_of_a_long_session_costs_what_a_short_ones_costs(house):
    async with house.client() as client:
        costs = {}
        for session in ("short", "long"):
            path = f"/api/sessions/{session}/log?limit=200"
            costs[session] = await least(30, lambda path=path: client.get(path))
    print({session: f"{1000 * cost:.1f} ms" for session, cost in costs.items()})
    assert costs["long"] <= 2 * costs["short"]


async def test_pages_lead_from_the_end_to_the_beginning(house):
    before, numbers = "", []
    async with house.client() as client:
        while True:
            page = (
                await client.get(f"/api/sessions/short/log?limit=300&compact=true{before}")
            ).json()
            for message in reversed(page["entries"]):
                stamp = message["params"]["_meta"]["chimera.bridge"]
                last, count = stamp["seq"], stamp.get("joined", 1)
                numbers += range(last, last - count, -1)
            if not page["more"]:
                break
            before = f"&before={stamp['epoch']}:{numbers[-1]}"
    assert numbers == list(range(SHORT, 0, -1))


async def test_a_client_that_comes_back_far_behind_gets_little(house):
    async with house.client() as client:
        held = (await client.get("/api/sessions/long/log?limit=1")).json()["last"]
    epoch, last = Cursor.parse(held)
    costs = {}
    for compact in (False, True):
        async with ClientPeer(house) as client:
            await client.initialize()
            meta = {"chimera.bridge": {"cursor": f"{epoch}:{last - 3_000}", "compact": compact}}
            await client.call(
                "session/resume", sessionId="long", cwd="/", mcpServers=[], _meta=meta
            )
            await client.until(lambda m: stamp_of(m).get("seq") == last)
            costs[compact] = (len(client.got), sum(len(str(m)) for m in client.got))
    print(f"3,000 pieces behind: {costs[False]} frames and bytes, compact {costs[True]}")
    assert costs[True][1] < costs[False][1] / 10


def stamp_of(message):
    meta = (message.get("params") or {}).get("_meta") or {}
    return meta.get("chimera.bridge", {})
