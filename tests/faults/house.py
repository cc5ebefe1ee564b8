"""Relay processes over one Redis, cables to both, a connector with a scripted agent, watchers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from fakes.agent import FakeAgent
from fakes.cable import Cable
from fakes.dashboard import FakeDashboard
from fakes.peers import UplinkPeer
from fakes.redises import Server
from fakes.site import Address, Program, Site
from faults.taps import Acknowledgements, Commands
from faults.watcher import Watcher

from bridge import keys
from bridge.protocol.acp import Role
from bridge.tokens import Tokens

TENANT = "default"
STAMPED = "{i} "
LEFT = {"tasks": "bridge_tasks", "fds": "bridge_open_files"}
SETTLE_SECONDS = 10
TOKEN_SECONDS = 86_400  # runs of an hour are not about tokens that end


class House:
    """All that a row needs; ``opening`` makes one."""

    def __init__(self, folder: Path, redis: Server, stack: AsyncExitStack) -> None:
        self.folder, self.redis, self.stack = folder, redis, stack
        self.people = AsyncExitStack()
        self.acknowledged = Acknowledgements()
        self.commands = Commands()
        self.relays: list[Site] = []
        self.ways: list[Cable] = []  # from each relay to Redis
        self.door: Cable  # from connectors to the relays, the first that answers
        self.connector: Program | None = None
        self.agent: FakeAgent | None = None
        self._tokens = Tokens(folder / "keys" / "keys")

    # Its parts.

    async def add_relays(self, count: int, **settings: str) -> None:
        redis = f"redis://127.0.0.1:{self.redis.port}"
        for n in range(count):
            way = await self.stack.enter_async_context(Cable(redis, tap=self.commands.tap))
            site = Site(self.folder / f"relay-{n}", redis_url=way.url, keys=self.folder / "keys")
            site.env |= settings
            self.ways.append(way)
            self.relays.append(site)
        await asyncio.gather(*(site.start_relay() for site in self.relays))
        urls = [site.url for site in self.relays]
        self.door = await self.stack.enter_async_context(Cable(*urls, tap=self.acknowledged.tap))
        for site in self.relays:
            site.token = self.token  # every relay has the same keys
        self._first = [await metrics(site) for site in self.relays]

    async def write_once(self) -> None:
        """Have every relay store something, so that what it keeps open for that is there."""
        for n, site in enumerate(self.relays):
            box, session = Address(site.url, await self.token("agent", "box")), f"s-first-{n}"
            async with UplinkPeer(box, f"a-first-{n}") as peer:
                await peer.hello(session)
                await peer.store(peer.update(1, session=session), session=session)
        await self.quiet(most=1)  # the pool's first connection
        self._first = [await metrics(site) for site in self.relays]

    async def token(self, kind: str = "person", subject: str = "alice", **more: Any) -> str:
        role = Role.parse(more.get("role", "operator"))
        return self._tokens.issue(kind, subject, more.get("tenant", TENANT), role, TOKEN_SECONDS)

    async def connect(self, **script: Any) -> Program:
        """Start a connector with an agent of that script, through the door."""
        self.agent = self.agent or FakeAgent(self.folder / "agent", **script)
        self.connector = await self.relays[0].connect("stamped", self.agent, relay=self.door.url)
        return self.connector

    async def dashboard(self, relay: int = 0, subject: str = "alice") -> FakeDashboard:
        made = await self.relays[relay].dashboard(subject)
        return await self.people.enter_async_context(made)

    async def rest(self, relay: int = 0) -> httpx.AsyncClient:
        """Give an approver's way to a relay's REST."""
        headers = {"Authorization": f"Bearer {await self.token()}"}
        url = self.relays[relay].url
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=30)
        return await self.people.enter_async_context(client)

    async def watch(self, sessions: list[str], *urls: str) -> list[Watcher]:
        """Have a watcher come at each address."""
        token = await self.token(subject="watcher", role="viewer")
        return [
            await self.people.enter_async_context(Watcher(url, token, sessions)) for url in urls
        ]

    async def sessions(self, count: int, chunks: int, rate: float, **script: Any) -> list[str]:
        """Have an agent with sessions that will stream stamps when they are prompted."""
        steps = [{"chunks": chunks, "every": 1 / rate, "text": STAMPED}]
        await self.connect(turns_by_text={"stream": steps}, **{"record": None, **script})
        async with await self.relays[-1].dashboard("opener") as opener:
            return [await opener.open("stamped", self.relays[0].work) for _ in range(count)]

    async def stream(self, watchers: list[Watcher]) -> None:
        """Begin all that the watchers see, and leave: a person's own dashboard would be slow."""
        async with await self.relays[-1].dashboard("opener") as opener:
            for session in watchers[0].stamps:
                opener.prompt(session, "stream")
            for watcher in watchers:
                await watcher.has(1)

    # What is left.

    def stored(self) -> dict[str, tuple[int, int]]:
        """How far each session is in Redis: the (epoch, seq) of its last entry."""
        found = {}
        prefix = keys.log(TENANT, "x")[:-1]
        for name in self.redis.call("KEYS", f"{prefix}*"):
            last = self.redis.call("XREVRANGE", name, "+", "-", "COUNT", 1)
            epoch, seq = last[0][0].decode().split("-")
            found[name.decode().removeprefix(prefix)] = (int(epoch), int(seq))
        return found

    def acked_lost(self) -> int:
        """How many entries that were acknowledged are not in Redis."""
        held = self.stored()
        return sum(
            place[1] if held.get(session, (0, 0))[0] < place[0] else place[1] - held[session][1]
            for session, place in self.acknowledged.upto.items()
            if held.get(session, (0, 0)) < place
        )

    async def left(self) -> dict[str, int]:
        """Have everybody leave; give the relays' peak of memory and what stayed behind in them."""
        await self.people.aclose()
        if self.connector is not None and self.connector.process.returncode is None:
            await self.connector.end()
        peaks = [_peak_of(site.relay.process.pid) for site, _ in self._lived()]
        return {"RSS_MB": max(peaks), **await self.quiet()}

    async def quiet(self, most: int = 0) -> dict[str, int]:
        """Wait until no relay has more than that above what it began with; give what they have."""
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            now = [(await metrics(site), before) for site, before in self._lived()]
            more = {n: [int(a[m] - b[m]) for a, b in now] for n, m in LEFT.items()}
            settled = all(count <= most for counts in more.values() for count in counts)
            if settled or time.monotonic() > end:
                return {name: sum(max(0, n) for n in counts) for name, counts in more.items()}
            await asyncio.sleep(0.1)

    def _lived(self) -> list[tuple[Site, dict[str, float]]]:
        """The relays that run since the beginning, and how they began."""
        return [(s, b) for s, b in zip(self.relays, self._first, strict=True) if is_same(s, b)]


async def metrics(site: Site) -> dict[str, float]:
    """What a relay process says of itself, and which process said it."""
    async with httpx.AsyncClient(base_url=site.url, timeout=10) as client:
        await client.get("/readyz")  # its connections to Redis are there
        text = (await client.get("/metrics")).text
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    pid = site.relay.process.pid
    return {"pid": pid} | {name: float(value) for name, _, value in lines}


def is_same(site: Site, before: dict[str, float]) -> bool:
    """Whether the process that was there before still lives."""
    process = site.relay.process
    return process.returncode is None and process.pid == before["pid"]


def _peak_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


@asynccontextmanager
async def opening(
    folder: Path, redis: Server, relays: int = 1, **settings: str
) -> AsyncIterator[House]:
    """Open a house; everybody leaves before the relays end, and they before Redis."""
    async with AsyncExitStack() as stack:
        house = House(folder, redis, stack)
        try:
            await house.add_relays(relays, **settings)
            yield house
        finally:
            await house.people.aclose()
            for program in (house.connector, *(site.relay for site in house.relays)):
                if program is not None and program.process.returncode is None:
                    await program.end()
