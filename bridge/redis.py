"""The clients for Redis, with bounds that were measured, and the way scripts are run.

redis-py waits 59 s for a frozen server by default and repeats a command whose reply was lost. So
every operation here has an overall deadline, and every write is idempotent by a key of its own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from bridge import keys
from bridge.protocol.errors import StoreUnavailable

OPERATION_SECONDS = 3.0  # a frozen Redis behind a unix socket gives no error by itself
CONNECT_SECONDS = 1.0
READ_SECONDS = 2.0
READER_READ_SECONDS = 3.0  # longer than any XREAD BLOCK
CONNECTIONS = 8
POOL_WAIT_SECONDS = 1.0
SCHEMES = frozenset({"redis", "rediss", "unix"})
OLDEST = (7, 0)

Argument = str | int | bytes

_SCRIPTS = Path(__file__).parent / "scripts"
_logger = logging.getLogger(__name__)


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
    """Redis as this process sees it: one client for commands, one for the reader that blocks."""

    # Each is a redis.asyncio.Redis, whose stubs type every reply as text or bytes or nothing.
    commands: Any
    reader: Any

    def __init__(self, commands: Redis, reader: Redis, address: str) -> None:
        """Take the two clients and the address that may be shown to people."""
        self.commands = commands
        self.reader = reader
        self.address = address

    @classmethod
    def open(cls, url: str) -> Store:
        """Make the clients for a redis://, rediss:// or unix:// URL; connects when first used."""
        address = shown(url)
        bounds = {
            "socket_connect_timeout": CONNECT_SECONDS,
            "protocol": 2,  # XREAD answers a list here, a dictionary in 3
            "socket_keepalive": False,
            "client_name": "chimera-relay",
        }
        if address.startswith("unix:"):
            del bounds["socket_keepalive"]
        try:
            commands = BlockingConnectionPool.from_url(
                url,
                max_connections=CONNECTIONS,
                timeout=POOL_WAIT_SECONDS,
                socket_timeout=READ_SECONDS,
                retry=Retry(ExponentialBackoff(cap=0.2, base=0.02), 2),
                **bounds,
            )
            reader = BlockingConnectionPool.from_url(
                url,
                max_connections=1,
                timeout=POOL_WAIT_SECONDS,
                socket_timeout=READER_READ_SECONDS,
                retry=Retry(NoBackoff(), 0),
                **bounds,
            )
        except ValueError:  # its text may hold the password
            raise StoreUnavailable(f"{address} is no Redis URL; set BRIDGE_REDIS_URL") from None
        return cls(Redis(connection_pool=commands), Redis(connection_pool=reader), address)

    async def aclose(self) -> None:
        """Close all connections."""
        for client in (self.commands, self.reader):
            await client.aclose()
            await client.connection_pool.disconnect()

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
        except ResponseError as error:
            raise StoreUnavailable(f"redis at {self.address} refuses: {error}") from error
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            raise StoreUnavailable(
                f"redis at {self.address} does not answer: {_cause(error)}"
            ) from error
        # redis-py sends under wait_for, which loses a cancellation that comes as the sending ends
        # (Python 3.11). A task that runs for ever would then never end.
        if task.cancelling() > cancelled_before:
            raise asyncio.CancelledError

    async def run(self, name: str, names: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run ``scripts/<name>.lua``; it must be safe to run twice, for a lost reply repeats it."""
        wanted = script(name)
        async with self.operation():
            try:
                return await self._evaluate("EVALSHA", wanted.sha, names, arguments)
            except NoScriptError:  # Redis has restarted, or never had it
                return await self._evaluate("EVAL", wanted.text, names, arguments)

    async def _evaluate(
        self, command: str, what: str, names: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        return await self.commands.execute_command(command, what, len(names), *names, *arguments)

    async def time_ms(self) -> int:
        """Give Redis's clock in Unix milliseconds."""
        async with self.operation():
            return as_ms(await self.commands.time())

    # Checking it.

    async def check(self) -> None:
        """Refuse a Redis that cannot keep what we give it; raises StoreUnavailable."""
        try:
            async with asyncio.timeout(OPERATION_SECONDS):
                await self._check_version()
                await self._check_writable()
                await self._check_policy()
        except (RedisError, OSError) as error:
            raise StoreUnavailable(self._explain(error)) from error

    async def _check_version(self) -> None:
        await self.commands.ping()
        try:
            about = await self.commands.info("server")
        except NoPermissionError:
            return
        version = str(about["redis_version"])
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
            raise StoreUnavailable(
                f"redis at {self.address} is version {version}; 7.0 or later is needed"
            )

    async def _check_writable(self) -> None:
        try:
            role = (await self.commands.execute_command("ROLE"))[0]
        except NoPermissionError:
            role = b"master"
        if role != b"master":
            raise StoreUnavailable(self._replica())
        await self.commands.set(keys.PROBE, 1, px=1000)

    async def _check_policy(self) -> None:
        try:
            found = await self.commands.config_get("maxmemory-policy")
        except ResponseError:  # hosted ones forbid or rename it
            _logger.warning(
                "redis at %s does not say its maxmemory-policy; it must be noeviction", self.address
            )
            return
        policy = found.get("maxmemory-policy", "noeviction")
        if policy != "noeviction":
            raise StoreUnavailable(
                f"redis at {self.address} may drop what it holds: maxmemory-policy is {policy}; "
                "set it to noeviction"
            )

    def _explain(self, error: Exception) -> str:
        if isinstance(error, ReadOnlyError):
            return self._replica()
        causes = list(_causes(error))  # redis-py wraps what happens while it connects
        if any(isinstance(cause, AuthenticationError) for cause in causes):
            return (
                f"redis at {self.address} refuses the user or password; "
                "set both in BRIDGE_REDIS_URL (redis://user:password@host:port/0)"
            )
        if isinstance(error, NoPermissionError | ResponseError):
            return f"redis at {self.address} refuses to be written: {error}"
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            return f"there is no host of redis at {self.address}; correct BRIDGE_REDIS_URL"
        return (
            f"redis is not reachable at {self.address} ({_cause(error)}); is it running? "
            "set BRIDGE_REDIS_URL"
        )

    def _replica(self) -> str:
        return (
            f"redis at {self.address} is a read-only replica; point BRIDGE_REDIS_URL at the primary"
        )


def shown(url: str) -> str:
    """Give a Redis URL without user, password and query; raises StoreUnavailable."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StoreUnavailable("BRIDGE_REDIS_URL is no URL; write redis://host:port/0") from None
    if parts.scheme not in SCHEMES:
        raise StoreUnavailable(
            f"BRIDGE_REDIS_URL begins with {parts.scheme or 'no scheme'!r}; "
            "use redis://, rediss:// or unix://"
        )
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def as_ms(time: tuple[int, int] | Sequence[int | bytes]) -> int:
    """Turn the reply of TIME into Unix milliseconds."""
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _cause(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__
