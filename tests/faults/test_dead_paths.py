"""Lines that die without a word, each in a network namespace of its own."""

import asyncio
import time
from pathlib import Path

import psutil
from e2e.asking import is_changed
from fakes.redises import Server, free_port, until
from fakes.site import ATTACHED, Program
from faults.house import opening
from faults.lag import Lag
from faults.netns import NEEDS, Namespace, can_make

PROBES_SECONDS = 0.02


async def test_a_connector_whose_line_is_dead_is_shown_to_be_away(house, row, length):
    """R10."""
    if not can_make():
        row("R10", "a connector half open", cannot_run=NEEDS)
        return
    with Namespace(1) as there:
        async with house(BRIDGE_HOST=there.outside) as at:
            command = at.relays[0].connect_command("stamped", "demo")
            env = {**at.relays[0].env, **await at.relays[0].agent_env()}
            command.insert(command.index("connect") + 1, "--insecure")
            at.connector = await Program.start(there.command(command), env)
            await at.connector.said(ATTACHED)
            alice = await at.dashboard()
            there.cut()
            cut = time.monotonic()
            while (await attachment(alice))["state"] == "attached":  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            detect, found = time.monotonic() - cut, await attachment(alice)
            await at.connector.kill()
            row(
                *("R10", "a connector half open, its interface down"),
                detect=detect,
                state=f"{found['state']}, {found['reason']}",
                **await at.left(),
            )
    assert found["reason"] in {"pong_missed", "socket_closed"}
    assert detect <= length(30, 20)


async def attachment(alice) -> dict[str, str]:
    return (await alice.agent("stamped"))["attachment"]


class Distant(Server):
    """A Redis in a namespace."""

    def __init__(self, there: Namespace, folder: Path) -> None:
        port = free_port()
        options = ["--port", str(port), "--protected-mode", "no", "--save", ""]
        super().__init__(folder, port, options)
        self.host = there.inside
        self._command = there.command(self._command)


async def test_a_relay_whose_path_to_redis_is_dead_goes_on_serving(row, length, bar, tmp_path):
    """R31."""
    if not can_make():
        row("R31", "the path to Redis is dead", cannot_run=NEEDS)
        return
    away = length(6, 60)
    with Namespace(2) as there:
        redis = Distant(there, tmp_path)
        redis.start()
        await asyncio.to_thread(until, lambda: redis.call("PING"))
        url = f"redis://{redis.host}:{redis.port}"
        try:
            async with opening(tmp_path, redis, BRIDGE_REDIS_URL=url) as at, Lag() as lag:
                alice = await at.dashboard()
                await alice.call("_bridge/watch")
                process = psutil.Process(at.relays[0].relay.process.pid)
                there.cut()
                cut, before = time.monotonic(), sum(process.cpu_times()[:2])
                told = asyncio.create_task(alice.until(is_changed("store", state="degraded")))
                told.add_done_callback(lambda _: seen.append(time.monotonic() - cut))
                seen: list[float] = []
                gap = await longest_answer(await at.rest(), cut + away)
                await told
                busy = (sum(process.cpu_times()[:2]) - before) / away
                there.mend()
                await alice.until(is_changed("store", state="ok"), after=len(alice.got) - 1)
                row(
                    *("R31", f"the path to Redis is dead for {away} s"),
                    detect=seen[0],
                    longest_answer=gap,
                    share_of_a_core=f"{busy:.2f}",
                    **await at.left(),
                )
                assert seen[0] <= bar(5)
                assert gap < bar(0.5) + lag.worst
        finally:
            redis.stop()


async def longest_answer(client, end: float) -> float:
    """Ask every few milliseconds whether the process answers; gives the longest wait."""
    longest = 0.0
    while time.monotonic() < end:
        begun = time.monotonic()
        (await client.get("/healthz")).raise_for_status()
        longest = max(longest, time.monotonic() - begun)
        await asyncio.sleep(PROBES_SECONDS)
    return longest
