"""The store: Redis as this process uses it, its deadlines, and the way scripts are run.

A frozen Redis may give no error, and redis-py repeats a command whose reply was lost. So every
operation here has an overall deadline, and every write is idempotent by a key of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError, RedisError

from bridge import fitness, keys
from bridge.address import Address
from bridge.clients import COMMANDS, NAME, PROBER, READER, close_client, open_client
from bridge.cluster import Cluster
from bridge.fitness import NotReplicated
from bridge.protocol.errors import StoreUnavailable

OPERATION_SECONDS = 3.0  # a frozen Redis behind a unix socket gives no error by itself
FENCE_MS = 60_000
NO_REPLICAS = 0
WAIT_MS = 1000  # shorter than the time to read a reply

Argument = str | int | bytes

_SCRIPTS = Path(__file__).parent / "scripts"


class Script(NamedTuple):
    """A Lua script with the name Redis knows it by."""

    sha: str
    text: str


@cache
def script(name: str) -> Script:
    """Load ``scripts/<name>.lua``, with the prelude before it."""
    text = (_SCRIPTS / "prelude.lua").read_text() + (_SCRIPTS / f"{name}.lua").read_text()
    return Script(sha1(text.encode(), usedforsecurity=False).hexdigest(), text)


class Store:
    """Redis as this process sees it: clients for commands, for the reader and for probes."""

    # Each is a redis.asyncio.Redis, whose stubs type every reply as text or bytes or nothing, or a
    # Cluster, which is used alike.
    commands: Any
    reader: Any
    prober: Any

    def __init__(self, address: Address, replicas: int, wait_ms: int, name: str = NAME) -> None:
        """Take how many replicas must have what is acknowledged."""
        self.commands = open_client(address, COMMANDS, name)
        self.reader = open_client(address, READER, name)
        self.prober = open_client(address, PROBER, name)  # waits for none of those that hang
        self.failures = 0  # operations, since the start
        self.in_doubt = asyncio.Event()  # one has failed
        self.form = address.form
        self.address = address.shown  # may be shown to people
        self.replicas = replicas
        self._wait_ms = wait_ms

    @classmethod
    def open(
        cls, url: str, replicas: int = NO_REPLICAS, wait_ms: int = WAIT_MS, *, node: str = ""
    ) -> Store:
        """Make the clients for a URL (``address.py``), which connect when first used.

        ``node``: the relay process whose they are; others see by them whether it is there.
        """
        return cls(Address.parse(url), replicas, wait_ms, client_name(node) if node else NAME)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (self.commands, self.reader, self.prober):
            await close_client(client)

    async def check(self) -> None:
        """Refuse a Redis that cannot keep what we give it; raises StoreUnavailable."""
        await fitness.check(self)

    async def masters(self) -> dict[str, Any]:
        """Give the client of each master, by what it may be called; raises RedisError, OSError."""
        if isinstance(self.commands, Cluster):
            return {str(node): client for node, client in await self.commands.masters()}
        return {self.address: self.commands}

    # Using it.

    @asynccontextmanager
    async def operation(self, seconds: float = OPERATION_SECONDS) -> AsyncIterator[None]:
        """Bound what happens inside and translate its failures; raises StoreUnavailable."""
        task = asyncio.current_task()
        assert task is not None
        cancelled_before = task.cancelling()
        try:
            async with asyncio.timeout(seconds):
                yield
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            self.failures += 1
            self.in_doubt.set()
            again = "; send the same again" if isinstance(error, NotReplicated) else ""
            raise StoreUnavailable(
                f"redis at {self.address} {fitness.said(error)}{again}"
            ) from error
        # redis-py sends under wait_for, which loses a cancellation that comes as the sending ends
        # (Python 3.11). A task that runs for ever would then never end.
        if task.cancelling() > cancelled_before:
            raise asyncio.CancelledError

    async def run(
        self,
        name: str,
        names: Sequence[str],
        arguments: Sequence[Argument],
        *,
        replicated: bool = False,
    ) -> Any:
        """Run ``scripts/<name>.lua``; it must be safe to run twice, for a lost reply repeats it.

        ``replicated``: give its reply only when as many replicas have it as are asked for; else it
        raises StoreUnavailable, and the same call may be made again.
        """
        wanted = script(name)
        async with self.operation():
            try:
                return await self._evaluate("EVALSHA", wanted.sha, names, arguments, replicated)
            except NoScriptError:  # Redis has restarted, or never had it
                return await self._evaluate("EVAL", wanted.text, names, arguments, replicated)

    async def _evaluate(
        self,
        command: str,
        what: str,
        names: Sequence[str],
        arguments: Sequence[Argument],
        replicated: bool,  # noqa: FBT001 (handed on)
    ) -> Any:
        run = (command, what, len(names), *names, *arguments)
        if not (replicated and self.replicas):
            return await self.commands.execute_command(*run)
        pipe = self.commands.pipeline(transaction=False)
        pipe.execute_command(*run)
        reply = (await self.execute(pipe, names[:1]))[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def execute(self, pipe: Any, names: Sequence[str]) -> list[Any]:
        """Send a pipeline of one command for each key; gives replies and exceptions, in order.

        What too few replicas have within their time is a NotReplicated. Each master is asked behind
        a write of its own: one that had nothing to write would answer for what went before.
        """
        if not self.replicas:
            replies: list[Any] = await pipe.execute(raise_on_error=False)
            return replies
        if isinstance(self.commands, Cluster):
            await self.commands.ready()
        moves = self.moves()
        waits: dict[Any, int] = {}  # master → place of its reply
        for name in names:
            master = self._master(name)
            if master not in waits:
                pipe.set(keys.fence(name), 1, px=FENCE_MS)
                pipe.execute_command("WAIT", self.replicas, self._wait_ms)
                waits[master] = len(names) + 2 * len(waits) + 1
        masters = [self._master(name) for name in names]
        found = await pipe.execute(raise_on_error=False)
        is_steady = moves == self.moves()  # else an answer may be another master's
        return [
            self._replicated(reply, found[waits[master]] if is_steady else 0)
            for reply, master in zip(found, masters, strict=False)
        ]

    def _replicated(self, reply: Any, copies: Any) -> Any:
        if isinstance(reply, Exception):
            return reply
        if isinstance(copies, int) and copies >= self.replicas:
            return reply
        count = copies if isinstance(copies, int) else 0
        return NotReplicated(
            f"{count} of {self.replicas} replicas confirmed it within {self._wait_ms} ms"
        )

    def _master(self, name: str) -> Any:
        return self.commands.owner(name) if isinstance(self.commands, Cluster) else None

    def moves(self) -> int:
        """Count how often a master changed or came back, as far as one can be told of it."""
        return self.commands.moves if isinstance(self.commands, Cluster) else 0

    async def time_ms(self) -> int:
        """Give Redis's clock in Unix milliseconds."""
        async with self.operation():
            return as_ms(await self.commands.time())


def client_name(node: str) -> str:
    """Give what Redis shows a relay process's connections as."""
    return f"{NAME}-{node}"


def as_ms(time: tuple[int, int] | Sequence[int | bytes]) -> int:
    """Turn the reply of TIME into Unix milliseconds."""
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000
