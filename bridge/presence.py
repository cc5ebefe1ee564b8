"""Who is watching a session, through whichever relay process."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridge import keys
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol.uplink import Watcher
from bridge.redis import Store, as_ms

LIFE_MS = 60_000  # without renewal; a relay process that died watches no more
RENEW_SECONDS = 20.0


class Presence:
    """Notes the watchers of this node and reads those of all."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        """Write for the inbox's node."""
        self._store = store
        self._inbox = inbox

    async def put(
        self, tenant: str, session_id: str, watching: Sequence[Watcher], *, changed: bool
    ) -> None:
        """Note this node's watchers of a session; ``changed`` tells everybody."""
        told = notice(Change("presence", session_id, session_id=session_id)) if changed else b""
        changes = keys.changes(tenant)
        nodes = await self._store.run(
            "presence",
            [keys.presence(tenant, session_id), changes, keys.watch(changes)],
            [
                self._inbox.node,
                msgspec.json.encode(watching) if watching else b"",
                LIFE_MS,
                told,
            ],
        )
        await self._inbox.wake(nodes, changes)

    async def of(self, tenant: str, session_ids: Sequence[str]) -> list[list[Watcher]]:
        """Give who watches each of the sessions."""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.time()
            for session_id in session_ids:
                pipe.hvals(keys.presence(tenant, session_id))
            time, *found = await pipe.execute()
        now = as_ms(time)
        return [[w for value in values for w in _living(value, now)] for values in found]


def _living(value: bytes, now: int) -> list[Watcher]:
    until, _, watching = value.partition(b" ")
    return msgspec.json.decode(watching, type=list[Watcher]) if int(until) > now else []
