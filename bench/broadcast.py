"""The `websockets` library's own server and ``broadcast``: ``python -m bench.broadcast PORT``."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

import uvloop
from websockets.asyncio.server import ServerConnection, broadcast, serve

_subscribers: defaultdict[str, set[ServerConnection]] = defaultdict(set)


async def serve_one(connection: ServerConnection) -> None:
    """Publish what comes on ``/pub/…``; subscribe on ``/sub/…``."""
    path = connection.request.path if connection.request else ""
    channel = _subscribers[path.removeprefix("/pub").removeprefix("/sub")]
    if path.startswith("/pub"):
        async for message in connection:
            broadcast(channel, message)
        return
    channel.add(connection)
    try:
        await connection.wait_closed()
    finally:
        channel.discard(connection)


async def main(port: int) -> None:
    options = {"backlog": 2048, "max_size": None, "compression": None}
    async with serve(serve_one, "127.0.0.1", port, **options) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(main(int(sys.argv[1])))
