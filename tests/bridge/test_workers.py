"""Several relay processes at one address, and the one that starts them."""

import asyncio
import contextlib
import os
import signal
from collections import Counter

import httpx
import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.processes import RelayProcess


@pytest.fixture
async def four(tmp_path, redis_url):
    async with RelayProcess(tmp_path / "relay", redis_url, "--workers", "4") as process:
        yield process


async def nodes(relay, count: int = 100) -> Counter:
    """Ask on so many new connections who answers."""
    found: Counter = Counter()
    for _ in range(count):
        async with httpx.AsyncClient(timeout=10) as client:
            answer = await client.get(f"http://127.0.0.1:{relay.port}/readyz")
        found[answer.json()["node"]] += 1
    return found


def children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]


async def test_connections_are_spread_over_all_of_them(four, figure):
    found = await nodes(four)
    figure(f"100 connections on 4 processes: {sorted(found.values())}")
    assert len(found) == 4
    assert max(found.values()) <= 60


async def test_one_that_dies_is_started_again_and_nobody_is_refused_meanwhile(four, figure):
    before = children(four.process.pid)
    assert len(before) == 4
    os.kill(before[0], signal.SIGKILL)
    loop = asyncio.get_running_loop()
    began = loop.time()
    found = await nodes(four)
    assert len(found) >= 4
    while len(set(children(four.process.pid)) - set(before)) < 1:  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    figure(f"100 requests around the death of a worker: all answered, {loop.time() - began:.1f} s")


async def test_a_rolling_restart_refuses_nobody(four):
    """R24."""
    before = await nodes(four, 40)
    pids = children(four.process.pid)
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ClientPeer(four)) for _ in range(40)]
        four.process.send_signal(signal.SIGHUP)
        while set(children(four.process.pid)) & set(pids):
            async with httpx.AsyncClient(timeout=10) as client:
                answer = await client.get(f"http://127.0.0.1:{four.port}/healthz")
            assert answer.status_code == 200
        assert {await one.closed() for one in clients} == {1012}
    after = await nodes(four, 40)
    assert not set(before) & set(after)
    assert len(after) == 4


async def test_all_of_them_end_within_five_seconds(four, figure):
    """R24."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ClientPeer(four)) for _ in range(40)]
        for one in clients:
            await one.initialize()
        took = await four.ends()
        assert {await one.closed() for one in clients} == {1012}
    figure(f"R24: 4 processes with 40 dashboards exit after {took:.1f} s")
    assert took < 6


async def test_they_end_when_the_one_that_started_them_is_killed(four):
    pids = children(four.process.pid)
    four.process.kill()
    await four.process.wait()
    async with asyncio.timeout(10):
        while any(alive(pid) for pid in pids):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_they_share_the_store_that_comes_with_the_relay(tmp_path):
    async with RelayProcess(tmp_path / "relay", None, "--workers", "2") as two:
        async with UplinkPeer(two) as connector:
            await connector.hello("s1")
            await connector.store(connector.update(1))
            for _ in range(8):  # on both of them
                async with ClientPeer(two) as client:
                    await client.initialize()
                    await client.load()
                    assert await client.told("session/update", sessionId="s1")
        await two.ends()
