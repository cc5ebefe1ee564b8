"""How a relay process ends while people and connectors are there, and how they come back."""

import asyncio
import contextlib
import json
import urllib.error
import urllib.request
from bisect import bisect_left
from collections import Counter

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.processes import RelayProcess
from websockets.exceptions import InvalidStatus

from agent_side.outbox import Outbox
from agent_side.settings import RelayTarget
from agent_side.status import Status
from agent_side.uplink import Uplink
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello, MailPosition

COUNT = 300  # connectors; more would measure how fast this one process is
RATE = 50  # a second


@pytest.fixture
async def relay(tmp_path, redis_url):
    async with RelayProcess(tmp_path / "relay", redis_url) as process:
        yield process


def readiness(port: int) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]["reason"]


async def test_a_process_that_ends_sends_its_clients_away_in_waves(relay, figure):
    """R24."""
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ClientPeer(relay)) for _ in range(180)]
        connectors = [
            await stack.enter_async_context(UplinkPeer(relay, f"a{n}")) for n in range(20)
        ]
        for number, one in enumerate(connectors):
            await one.hello(f"s{number}")
        for one in clients:
            await one.initialize()

        async def closed_at(one):
            assert await one.closed() == 1012
            return loop.time()

        ending = asyncio.create_task(relay.ends())
        times = await asyncio.gather(*(closed_at(one) for one in (*clients, *connectors)))
        took = await ending
    spread = max(times) - min(times)
    waves = Counter(int((one - min(times)) / 0.1) for one in times)
    figure(
        f"R24: 200 sockets closed over {spread:.2f} s, at most {max(waves.values())} in 0.1 s; "
        f"exit after {took:.2f} s"
    )
    assert took < 5
    assert max(waves.values()) < 100
    for number in range(20):
        assert (await last_seen(relay, f"a{number}")) == b"relay_restarting"


async def last_seen(relay, agent):
    from redis.asyncio import Redis

    async with Redis.from_url(relay._redis_url) as redis:
        return await redis.hget(f"b:{{acme}}:claim:{agent}", "close_reason")


async def test_it_is_not_ready_and_lets_nobody_in_before_the_first_is_sent_away(relay):
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(ClientPeer(relay)) for _ in range(60)]
        ending = asyncio.create_task(relay.ends())
        gone = [asyncio.create_task(one.closed()) for one in clients]
        await asyncio.wait(gone, return_when=asyncio.FIRST_COMPLETED)
        assert await asyncio.to_thread(readiness, relay.port) == (503, "relay_restarting")
        with pytest.raises(InvalidStatus) as refused:
            async with ClientPeer(relay):
                pass
        await ending
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["Retry-After"] == "1"


async def test_clients_that_never_answer_do_not_hold_up_the_end(relay, figure):
    """R24."""
    asked = (
        "GET /acp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Authorization: Bearer {relay.token()}\r\n\r\n"
    ).encode()
    lines = [await asyncio.open_connection("127.0.0.1", relay.port) for _ in range(100)]
    for reader, writer in lines:
        writer.write(asked)
        assert (await reader.readline()).startswith(b"HTTP/1.1 101")
    took = await relay.ends()
    for _, writer in lines:
        writer.close()
    figure(f"R24: exit after {took:.2f} s with 100 clients that do nothing")
    assert took < 5


class Crowd:
    """Connectors of one machine: as many real uplinks, and when each was greeted."""

    def __init__(self, relay: RelayProcess, count: int) -> None:
        self.relay, self.count = relay, count
        self.greeted: list[tuple[float, int]] = []
        self._changed = asyncio.Event()
        token = relay.token(kind="agent", subject="box")
        target = RelayTarget(f"ws://127.0.0.1:{relay.port}", token=token)
        self.uplinks = [
            Uplink(target, Member(self, n), Outbox(), Status(None, lambda: None))
            for n in range(count)
        ]

    def came(self, number: int) -> None:
        self.greeted.append((asyncio.get_running_loop().time(), number))
        self._changed.set()

    async def all_are_there(self, since: int) -> list[float]:
        """Wait until all were greeted behind the first so many greetings; gives when each was."""
        while len({number for _, number in self.greeted[since:]}) < self.count:
            self._changed.clear()
            await self._changed.wait()
        return [at for at, _ in self.greeted[since:]]


class Member:
    """What one of them says of itself."""

    def __init__(self, crowd: Crowd, number: int) -> None:
        self._crowd, self._number = crowd, number
        agent = AgentCard(f"a{number}", "crowd")
        at = MailPosition(0)
        self._hello = Hello(1, "w", ConnectorCard("0.1.0", "box"), [agent], mail=at)

    def hello(self) -> Hello:
        return self._hello

    def raise_epoch(self, at_least: int) -> None:
        raise AssertionError(at_least)

    def welcomed(self, _result: object) -> None:
        self._crowd.came(self._number)

    def mail(self, _mail: object) -> None:
        pass

    def presence(self, _presence: object) -> None:
        pass

    def history(self, params: object) -> dict[str, object]:
        raise AssertionError(params)


def peak_and_mean(times: list[float]) -> tuple[int, float]:
    """Give the most in a tenth of the time, and the mean of a tenth while the middle 90 % came.

    The first and last few say when the relay was there and who waited longest, not how evenly the
    others came; and on a slow machine a second is short for so few. A tenth is at least a second.
    """
    times = sorted(times)
    few = len(times) // 20
    middle = times[few : len(times) - few]
    took = middle[-1] - middle[0]
    tenth = max(1.0, took / 10)
    peak = max(bisect_left(times, at + tenth) - n for n, at in enumerate(times))
    return peak, len(middle) * tenth / max(tenth, took)


async def test_connectors_come_back_one_after_the_other(tmp_path, redis_url, figure):
    """F04: the most in any tenth of the time is at most three times the mean."""
    relay = RelayProcess(tmp_path / "relay", redis_url)
    async with relay:
        crowd = Crowd(relay, COUNT)
        running = [asyncio.create_task(one.run()) for one in crowd.uplinks]
        try:
            async with asyncio.timeout(120):
                await crowd.all_are_there(0)
                before = len(crowd.greeted)
                await relay.ends()
                relay.settings["BRIDGE_MAX_NEW_SOCKETS_PER_SECOND"] = str(RATE)
                await relay.start()
                times = await crowd.all_are_there(before)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
    peak, mean = peak_and_mean(times)
    figure(
        f"F04: {len(times)} of {COUNT} back within {max(times) - min(times):.1f} s; at most "
        f"{peak} in a tenth of it, {peak / mean:.1f} times the mean"
    )
    assert peak <= 3 * mean
