"""A client for a Redis Cluster, used as a ``redis.asyncio.Redis`` is.

It holds one plain client for each master, so every master has the same bounds as a single Redis.
(redis-py's own cluster client has no bound that waits, and sends ASKING on another connection than
the command it is for.) A command without a key goes where the command before it in the pipeline
went. What is redirected, or came to a master that was replaced, is sent again; so every command
must be safe to repeat, as everywhere here.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.commands import AsyncCoreCommands
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 (redis-py's is another than Python's)
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from bridge.address import Node

LOOK_SECONDS = 1.0  # for every node to say who holds which slots
LOOK_AGAIN_SECONDS = 0.25
PAUSES = (0.0, 0.0, 0.05, 0.1, 0.2, 0.4, 0.4, 0.4, 0.4)  # before a command is sent again
_KEYLESS = frozenset(
    {"CLIENT", "CLUSTER", "CONFIG", "INFO", "PING", "ROLE", "SCRIPT", "TIME", "WAIT"}
)

Slots = tuple[tuple[int, int, Node], ...]


class Call(NamedTuple):
    """One command."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    slot: int | None


class Cluster(AsyncCoreCommands):
    """The masters of a Cluster as one client."""

    _event_dispatcher: Any = None  # of redis-py's clients; they tell of their own connections

    def __init__(self, seeds: Sequence[Node], open_client: Callable[[Node], Redis]) -> None:
        """Ask these nodes who the masters are, when first used."""
        self.moves = 0  # rises when a command went elsewhere, or a master changed or came back
        self._seeds = seeds
        self._open_client = open_client
        self._clients: dict[Node, Redis] = {}
        self._owners: list[Node] = []
        self._down: set[Node] = set()
        self._is_stale = True
        self._looked_at = 0.0
        self._looking = asyncio.Lock()

    # Commands, one or many.

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command; raises what Redis or the connection raised."""
        reply = (await self.send([call(args, options)]))[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, transaction: bool = False) -> ClusterPipeline:  # noqa: FBT001, FBT002
        """Gather commands; they are sent to each master at once."""
        assert not transaction
        return ClusterPipeline(self)

    async def script_load(self, script: Any) -> Any:  # type: ignore[override]
        """Load a script on every master."""
        clients = [client for _, client in await self.masters()]
        return (await asyncio.gather(*(client.script_load(script) for client in clients)))[0]

    async def send(self, calls: Sequence[Call]) -> list[Any]:
        """Run commands; gives each one's reply or its exception."""
        sending = _Sending(calls)
        for pause in PAUSES:
            if pause:
                await asyncio.sleep(pause)
            if self._is_in_doubt(sending):
                await self._look()
            groups = self._grouped(sending)
            if len(groups) == 1:
                await self._send_to(*groups.popitem(), sending)
            else:
                await asyncio.gather(*(self._send_to(*group, sending) for group in groups.items()))
            self._find_again(sending)
            if not sending.left:
                break
            self.moves += 1
        return list(sending.replies.values())

    # Who holds what.

    async def ready(self) -> None:
        """Know who the masters are; raises RedisError, OSError."""
        if self._is_stale:
            await self._look()

    async def masters(self) -> list[tuple[Node, Redis]]:
        """Give every master with its client."""
        await self.ready()
        return [(node, self._client(node)) for node in sorted(set(self._owners))]

    def owner(self, key: str) -> Node | None:
        """Give the master that holds a key, as far as it is known."""
        return self._owners[slot_of(key)] if self._owners else None

    async def aclose(self) -> None:
        """Close all connections."""
        clients, self._clients = self._clients, {}
        self._is_stale = True
        for client in clients.values():
            await client.aclose()
            await client.connection_pool.disconnect()

    # Sending.

    def _grouped(self, sending: _Sending) -> dict[Node, list[int]]:
        """Give what is left to each master; what waits for one that is away keeps its failure."""
        groups: defaultdict[Node, list[int]] = defaultdict(list)
        place = self._any(sending)
        for i in sending.left:
            slot, reply = sending.calls[i].slot, sending.replies[i]
            if isinstance(reply, AskError):
                place = Node(reply.host, reply.port)
            elif slot is not None:
                place = self._owners[slot]
            if place in self._down and not isinstance(reply, AskError):
                sending.replies[i] = ConnectionError(f"the master {place} does not answer")
            elif sending.tried.get(i) != place or not is_lost(reply):
                sending.tried[i] = place
                groups[place].append(i)
        sending.left = sorted(i for wanted in groups.values() for i in wanted)
        return groups

    async def _send_to(self, node: Node, wanted: list[int], sending: _Sending) -> None:
        pipe = self._client(node).pipeline(transaction=False)
        asking = [isinstance(sending.replies[i], AskError) for i in wanted]
        for i, is_asking in zip(wanted, asking, strict=True):
            if is_asking:
                pipe.execute_command("ASKING")
            args, options, _ = sending.calls[i]
            pipe.execute_command(*args, **options)
        try:
            found = iter(await pipe.execute(raise_on_error=False))
        except (RedisError, OSError) as error:
            self._lose(node)
            sending.replies.update(dict.fromkeys(wanted, error))
            return
        except BaseException:  # no answer within the time that the caller had
            self._lose(node)
            raise
        for i, is_asking in zip(wanted, asking, strict=True):
            if is_asking:
                next(found)
            sending.replies[i] = next(found)

    def _find_again(self, sending: _Sending) -> None:
        """Keep what has to be sent again; what has no key follows the command before it."""
        again: list[int] = []
        for i in sending.left:
            slot, reply = sending.calls[i].slot, sending.replies[i]
            follows = slot is None and again and again[-1] == i - 1
            if follows or self._is_redirected(slot, reply):
                again.append(i)
        sending.left = again

    def _is_redirected(self, slot: int | None, reply: Any) -> bool:
        if isinstance(reply, MovedError):
            if slot is not None:
                self._owners[slot] = Node(reply.host, reply.port)
            return True
        if isinstance(reply, ClusterDownError | ReadOnlyError):
            self._is_stale = True
            return True
        return isinstance(reply, AskError | TryAgainError) or is_lost(reply)

    def _client(self, node: Node) -> Any:
        client = self._clients.get(node)
        if client is None:
            client = self._clients[node] = self._open_client(node)
        return client

    def _any(self, sending: _Sending) -> Node:
        """Give where a command without a key goes: with the first that has one, else anywhere."""
        for i in sending.left:
            slot = sending.calls[i].slot
            if slot is not None:
                return self._owners[slot]
        return next((node for node in self._owners if node not in self._down), self._owners[0])

    # Looking.

    def _lose(self, node: Node) -> None:
        self._down.add(node)
        self._is_stale = True

    async def _look(self) -> None:
        """Ask who holds which slots when that is in doubt; raises when nobody says.

        What most of them say counts: a master that was away does not know yet that it is none.
        """
        async with self._looking:
            if self._owners and time.monotonic() - self._looked_at < LOOK_AGAIN_SECONDS:
                return
            nodes = list(dict.fromkeys((*self._owners, *self._seeds)))
            found = await asyncio.gather(*map(self._ask, nodes), return_exceptions=True)
            self._looked_at = time.monotonic()
            away = {
                node
                for node, slots in zip(nodes, found, strict=True)
                if isinstance(slots, BaseException)
            }
            self.moves += bool(self._down - away)
            self._down = away
            said = Counter(slots for slots in found if not isinstance(slots, BaseException))
            if not said:
                raise next(reply for reply in found if isinstance(reply, BaseException))
            owners = _spread(said.most_common(1)[0][0])
            self.moves += owners != self._owners
            self._owners, self._is_stale = owners, False

    def _is_in_doubt(self, sending: _Sending) -> bool:
        if self._is_stale or not self._owners:
            return True
        slots = (sending.calls[i].slot for i in sending.left)
        return bool(self._down) and any(
            self._owners[slot] in self._down for slot in slots if slot is not None
        )

    async def _ask(self, node: Node) -> Slots:
        async with asyncio.timeout(LOOK_SECONDS):
            reply = await self._client(node).execute_command("CLUSTER", "SLOTS")
        return tuple(
            (int(first), int(last), Node((master[0] or b"").decode() or node.host, int(master[1])))
            for first, last, master, *_ in reply
        )


class ClusterPipeline(AsyncCoreCommands):
    """Commands that are sent together."""

    _event_dispatcher: Any = None

    def __init__(self, cluster: Cluster) -> None:
        """Begin with none."""
        self._cluster = cluster
        self._calls: list[Call] = []

    def execute_command(self, *args: Any, **options: Any) -> ClusterPipeline:
        """Add a command."""
        self._calls.append(call(args, options))
        return self

    async def execute(self, raise_on_error: bool = True) -> list[Any]:  # noqa: FBT001, FBT002
        """Send them and give their replies, in order."""
        calls, self._calls = self._calls, []
        if not calls:
            return []
        replies = await self._cluster.send(calls)
        if raise_on_error:
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return replies


class _Sending:
    """Commands on their way, by their place."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.replies: dict[int, Any] = dict.fromkeys(range(len(calls)))
        self.left = list(range(len(calls)))
        self.tried: dict[int, Node] = {}  # where each was sent last


def call(args: tuple[Any, ...], options: dict[str, Any]) -> Call:
    """Find the slot of a command's first key; one script or read has keys of one slot only."""
    name = str(args[0]).split(" ", 1)[0].upper()
    if name in _KEYLESS:
        return Call(args, options, None)
    if name in {"EVAL", "EVALSHA"}:
        place = 3
    elif name == "XREAD":
        place = args.index(b"STREAMS") + 1
    else:
        place = 1
    return Call(args, options, slot_of(args[place]))


@lru_cache(maxsize=65_536)
def slot_of(key: str) -> int:
    """Give the slot that a key lies in."""
    return int(key_slot(key.encode()))


def is_lost(reply: Any) -> bool:
    """Whether a command may not have come to its master, or its reply not back."""
    return isinstance(reply, RedisError | OSError) and not isinstance(reply, ResponseError)


def _spread(slots: Slots) -> list[Node]:
    """Give the owner of every slot; raises ClusterDownError when one has none."""
    owners: dict[int, Node] = {}
    for first, last, node in slots:
        owners.update(dict.fromkeys(range(first, last + 1), node))
    if len(owners) < REDIS_CLUSTER_HASH_SLOTS:
        raise ClusterDownError("CLUSTERDOWN some slots have no master")
    return [owners[slot] for slot in range(REDIS_CLUSTER_HASH_SLOTS)]
