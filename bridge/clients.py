"""The clients for Redis in each of its forms, with bounds that were measured.

redis-py waits 59 s for a frozen server by default; a pool of its Sentinel client has no bound that
waits. So every connection here has times of its own and every pool a size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import ExponentialBackoff, NoBackoff

from bridge.address import Address, Node
from bridge.cluster import Cluster
from bridge.line import LineClient
from bridge.protocol.errors import StoreUnavailable

CONNECT_SECONDS = 1.0
READ_SECONDS = 2.0
READER_READ_SECONDS = 3.0  # longer than any XREAD BLOCK
CONNECTIONS = 8
POOL_WAIT_SECONDS = 1.0
NAME = "chimera-relay"
SENTINEL_SECONDS = 0.5  # for one Sentinel to answer, before the next is asked


@dataclass(frozen=True)
class Bounds:
    """What a client may take."""

    connections: int
    read_seconds: float
    retries: int

    def of_connection(self, address: Address, name: str) -> dict[str, Any]:
        """Give the options of each connection, by redis-py's names."""
        backoff = ExponentialBackoff(cap=0.2, base=0.02) if self.retries else NoBackoff()
        bounds = {
            "socket_connect_timeout": CONNECT_SECONDS,
            "socket_timeout": self.read_seconds,
            "retry": Retry(backoff, self.retries),
            "protocol": 2,  # XREAD answers a list here, a dictionary in 3
            "client_name": name,
        }
        if not address.shown.startswith("unix:"):
            bounds["socket_keepalive"] = False
        return bounds

    def of_pool(self) -> dict[str, Any]:
        """Give the options of each pool."""
        return {"max_connections": self.connections, "timeout": POOL_WAIT_SECONDS}


COMMANDS = Bounds(CONNECTIONS, READ_SECONDS, 2)
READER = Bounds(1, READER_READ_SECONDS, 0)
PROBER = Bounds(1, READ_SECONDS, 1)


class SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to whom the Sentinels call master; whoever finds none free waits."""


def open_client(address: Address, bounds: Bounds, name: str = NAME) -> Any:
    """Make a client that connects when first used: a Redis, or a Cluster that is used as one.

    ``name``: what Redis shows its connections as.
    """
    if address.form == "cluster":
        return Cluster(address.nodes, partial(_node_client, address, bounds, name))
    if address.form == "sentinel":
        return LineClient(connection_pool=_sentinel_pool(address, bounds, name))
    options = bounds.of_pool() | bounds.of_connection(address, name)
    try:
        return LineClient(connection_pool=BlockingConnectionPool.from_url(address.url, **options))
    except ValueError:  # its text may hold the password
        raise StoreUnavailable(f"{address.shown} is no Redis URL; set BRIDGE_REDIS_URL") from None


async def close_client(client: Any) -> None:
    """Close all connections of a client."""
    await client.aclose()
    if isinstance(client, Cluster):
        return
    pool = client.connection_pool
    await pool.disconnect()
    if isinstance(pool, SentinelPool):
        for sentinel in pool.sentinel_manager.sentinels:
            await sentinel.aclose()


def _node_client(address: Address, bounds: Bounds, name: str, node: Node) -> Redis:
    pool = BlockingConnectionPool(
        connection_class=SSLConnection if address.is_tls else Connection,
        host=node.host,
        port=node.port,
        **bounds.of_pool(),
        **bounds.of_connection(address, name),
        **address.options,
    )
    return LineClient(connection_pool=pool)


def _sentinel_pool(address: Address, bounds: Bounds, name: str) -> SentinelPool:
    asking = {
        "socket_connect_timeout": SENTINEL_SECONDS,
        "socket_timeout": SENTINEL_SECONDS,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "ssl": address.is_tls,
        **address.sentinel_options,
    }
    return SentinelPool(
        address.service,
        Sentinel(address.nodes, sentinel_kwargs=asking),
        ssl=address.is_tls,
        **bounds.of_pool(),
        **bounds.of_connection(address, name),
        **address.options,
    )
