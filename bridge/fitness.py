"""Whether a Redis can keep what the relay gives it, and how it is set up."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AuthenticationError,
    NoPermissionError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from bridge import keys
from bridge.cluster import Cluster
from bridge.protocol.errors import StoreUnavailable

if TYPE_CHECKING:
    from bridge.redis import Store

CHECK_SECONDS = 3.0
PROBE_MS = 60_000
OLDEST = (7, 0)
_KINDS = {"single": "one server", "cluster": "a Redis Cluster", "sentinel": "under Sentinels"}

_logger = logging.getLogger(__name__)


class NotReplicated(RedisError):
    """What was written is not yet with as many replicas as it must be."""


async def check(store: Store) -> None:
    """Refuse a Redis that cannot keep what we give it; raises StoreUnavailable."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            for name, master in (await store.masters()).items():
                await _check_kind(store, master)
                await _check_is_master(name, master)
                await _check_policy(name, master)
            await probe(store)
    except (RedisError, OSError) as error:
        raise StoreUnavailable(_explain(store, error)) from error


async def probe(store: Store) -> None:
    """Write to each master, and have its replicas confirm it; raises RedisError, OSError."""
    names = _probes(store, len(await store.masters()))
    pipe = store.prober.pipeline(transaction=False)
    for name in names:
        pipe.set(name, 1, px=PROBE_MS)
    for reply in await store.execute(pipe, names):
        if isinstance(reply, Exception):
            raise reply


async def describe(store: Store) -> str:
    """Say how the Redis is set up; raises StoreUnavailable."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            masters = await store.masters()
            facts = [await _facts(client) for client in masters.values()]
    except (RedisError, OSError) as error:
        raise StoreUnavailable(_explain(store, error)) from error
    kind = _KINDS[store.form]
    if store.form == "cluster":
        kind += f" of {len(masters)} masters ({', '.join(masters)})"
    parts = [f"{kind}", *(_alike(fact) for fact in zip(*facts, strict=True))]
    if store.replicas:
        parts.append(f"acknowledged when {store.replicas} of them confirmed")
    return "; ".join(parts)


def said(error: Exception) -> str:
    """Say what a Redis does that gave this error."""
    if isinstance(error, NotReplicated):
        return f"has too few replicas: {error}"
    if isinstance(error, ResponseError):
        return f"refuses: {error}"
    return f"does not answer: {cause(error)}"


def cause(error: Exception) -> str:
    """Give an error's words, also of one that has none."""
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__


async def _check_kind(store: Store, master: Any) -> None:
    await master.ping()
    try:
        about = await master.info("server")
    except NoPermissionError:
        return
    version, mode = str(about["redis_version"]), about.get("redis_mode")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise StoreUnavailable(
            f"redis at {store.address} is version {version}; 7.0 or later is needed"
        )
    if mode == "sentinel":
        raise StoreUnavailable(
            f"{store.address} is a Sentinel; write redis+sentinel://host:port,host:port/service"
        )
    if mode == "cluster" and store.form != "cluster":
        raise StoreUnavailable(
            f"redis at {store.address} is a node of a Cluster; "
            "write redis+cluster://host:port,host:port"
        )


async def _check_is_master(name: str, master: Any) -> None:
    try:
        role = (await master.execute_command("ROLE"))[0]
    except NoPermissionError:
        return
    if role != b"master":
        raise StoreUnavailable(_replica(name))


async def _check_policy(name: str, master: Any) -> None:
    try:
        found = await master.config_get("maxmemory-policy")
    except ResponseError:  # hosted ones forbid or rename it
        _logger.warning(
            "redis at %s does not say its maxmemory-policy; it must be noeviction", name
        )
        return
    policy = found.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        raise StoreUnavailable(
            f"redis at {name} may drop what it holds: maxmemory-policy is {policy}; "
            "set it to noeviction"
        )


async def _facts(master: Any) -> tuple[str, ...]:
    try:
        replicas = (await master.info("replication"))["connected_slaves"]
        shown = await master.config_get("maxmemory-policy", "appendonly")
    except ResponseError:
        return ("it does not say its settings",)
    aof = "on" if shown.get("appendonly") == "yes" else "OFF: a crash loses what it held"
    return (
        f"replicas {replicas}",
        f"maxmemory-policy {shown.get('maxmemory-policy')}",
        f"append-only file {aof}",
    )


def _alike(facts: tuple[str, ...]) -> str:
    """Say once what every master says."""
    return " / ".join(dict.fromkeys(facts))


def _probes(store: Store, masters: int) -> list[str]:
    """Name one key on each master."""
    if not isinstance(store.commands, Cluster):
        return [keys.probe(0)]
    found: dict[Any, str] = {}
    n = 0
    while len(found) < masters:
        found.setdefault(store.commands.owner(keys.probe(n)), keys.probe(n))
        n += 1
    return list(found.values())


def _explain(store: Store, error: Exception) -> str:
    address, causes = store.address, list(_causes(error))  # redis-py wraps those of connecting
    if isinstance(error, ReadOnlyError):
        return _replica(address)
    if isinstance(error, NotReplicated):
        return f"redis at {address} has too few replicas: {error}; BRIDGE_REDIS_WAIT_REPLICAS"
    if any(isinstance(one, AuthenticationError) for one in causes):
        return (
            f"redis at {address} refuses the user or password; "
            "set both in BRIDGE_REDIS_URL (redis://user:password@host:port/0)"
        )
    if any(isinstance(one, NoPermissionError | ResponseError) for one in causes):
        return _refusal(store, error)
    return _absence(address, error, causes)


def _refusal(store: Store, error: Exception) -> str:
    said = str(error)
    if "cluster support disabled" in said:
        return f"{store.address} is no Redis Cluster; write redis://host:port/0"
    if store.form == "sentinel" and "unknown command" in said:
        return f"{store.address} names servers that are no Sentinels; write redis://host:port/0"
    return f"redis at {store.address} refuses to be written: {error}"


def _absence(address: str, error: Exception, causes: list[BaseException]) -> str:
    if isinstance(error, MasterNotFoundError):
        return f"no Sentinel of {address} answers and knows its master; correct BRIDGE_REDIS_URL"
    if any(isinstance(one, socket.gaierror) for one in causes):
        return f"there is no host of redis at {address}; correct BRIDGE_REDIS_URL"
    return (
        f"redis is not reachable at {address} ({cause(error)}); is it running? set BRIDGE_REDIS_URL"
    )


def _replica(address: str) -> str:
    return f"redis at {address} is a read-only replica; point BRIDGE_REDIS_URL at the primary"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
