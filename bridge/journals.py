"""What connectors keep on their machines: asked for over whichever process holds their uplink.

A process asks another by a small entry of that one's post stream, and is answered on its own. The
other says at once that it has begun; silence means that it is gone, and is told within two seconds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from bridge import keys
from bridge.agents import AgentRecord, Agents
from bridge.inbox import Entries, Followed, Inbox
from bridge.protocol import errors, jsonrpc
from bridge.protocol.attachment import State
from bridge.protocol.errors import AgentUnavailable, BridgeError, Overloaded, StoreUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store
from bridge.tasks import Tasks
from bridge.uplinks import Uplinks

BEGIN_SECONDS = 2.0  # for the other process to say that it is there; a wake-up may cost one
ANSWER_SECONDS = 20.0  # for a connector on a slow line to give a piece
ASKED_AT_ONCE = 64  # by this process, over all who ask
POST_ENTRIES = 128  # of a post stream: answers are at most as many as were asked for
POST_SECONDS = 60

logger = logging.getLogger(__name__)


class Journals:
    """The way to the journals of all connectors."""

    def __init__(
        self, store: Store, inbox: Inbox, agents: Agents, uplinks: Uplinks, tasks: Tasks
    ) -> None:
        """Ask over the uplinks of this process, or through another one's post."""
        self._store = store
        self._inbox = inbox
        self._agents = agents
        self._uplinks = uplinks
        self._tasks = tasks
        self._posts: dict[str, Followed] = {}
        self._wanted: defaultdict[str, int] = defaultdict(int)  # tenants whose post is followed
        self._numbers = itertools.count(1)
        self._asked: dict[str, _Asked] = {}

    async def ask(self, tenant: str, agent: str, params: Payload) -> msgspec.Raw:
        """Give a connector's answer to ``uplink/history``; raises BridgeError."""
        if len(self._asked) >= ASKED_AT_ONCE:
            raise Overloaded("too many older pages are asked for at once; try again")
        record = await self._agents.get(tenant, agent)
        if record.attachment.state is not State.ATTACHED:
            raise _away(record)
        number = f"{self._inbox.node}-{next(self._numbers)}"
        asked = self._asked[number] = _Asked()
        try:
            if record.node == self._inbox.node:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._uplinks.ask(tenant, agent, params)
            with self.listening(tenant):
                return await self._ask_away(tenant, record, number, asked, params)
        except TimeoutError:
            raise _away(record, silent=True) from None
        finally:
            del self._asked[number]

    @contextmanager
    def listening(self, tenant: str) -> Iterator[None]:
        """Take this process's post of a tenant meanwhile."""
        self.listen(tenant)
        try:
            yield
        finally:
            self.stop_listening(tenant)

    def listen(self, tenant: str) -> None:
        """Take this process's post of a tenant, as often as is asked for."""
        self._wanted[tenant] += 1
        if tenant not in self._posts:
            post = keys.post(tenant, self._inbox.node)
            take = partial(self._on_post, tenant)
            self._posts[tenant] = self._inbox.follow(tenant, post, "0-0", take)

    def stop_listening(self, tenant: str) -> None:
        """Take a tenant's post no longer, when nobody else wants it."""
        self._wanted[tenant] -= 1
        if not self._wanted[tenant]:
            del self._wanted[tenant]
            self._posts.pop(tenant).stop()

    async def _ask_away(
        self, tenant: str, record: AgentRecord, number: str, asked: _Asked, params: Payload
    ) -> msgspec.Raw:
        body = {"ask": number, "agent": record.id, "body": jsonrpc.encode(params)}
        async with asyncio.timeout(BEGIN_SECONDS):
            await self._post(tenant, record.node, body)
            await asked.begun.wait()
        async with asyncio.timeout(ANSWER_SECONDS):
            return await asked.answer

    # The post.

    async def _post(self, tenant: str, node: str, fields: dict[str, Any]) -> None:
        stream = keys.post(tenant, node)
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.xadd(stream, {**fields, "from": self._inbox.node}, maxlen=POST_ENTRIES)
            pipe.expire(stream, POST_SECONDS)
            await pipe.execute()
        await self._inbox.wake([node], stream)

    def _on_post(self, tenant: str, entries: Entries) -> None:
        for _, fields in entries:
            if b"ask" in fields:
                self._tasks.start("a journal is asked", self._serve(tenant, fields))
            else:
                self._take_answer(fields)

    def _take_answer(self, fields: dict[bytes, bytes]) -> None:
        asked = self._asked.get(fields[b"of"].decode())
        if asked is None:
            return
        asked.begun.set()
        if asked.answer.done():
            return
        if b"result" in fields:
            asked.answer.set_result(msgspec.Raw(fields[b"result"]))
        elif b"error" in fields:
            asked.answer.set_exception(errors.read(msgspec.json.decode(fields[b"error"])))

    async def _serve(self, tenant: str, fields: dict[bytes, bytes]) -> None:
        try:
            await self._give(tenant, fields)
        except StoreUnavailable as error:
            logger.warning("an answer of a connector is lost: %s", error)

    async def _give(self, tenant: str, fields: dict[bytes, bytes]) -> None:
        """Ask the connector here, and post its answer to who wants it."""
        number, asker = fields[b"ask"].decode(), fields[b"from"].decode()
        await self._post(tenant, asker, {"of": number, "begun": "1"})
        params = msgspec.json.decode(fields[b"body"])
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                result = await self._uplinks.ask(tenant, fields[b"agent"].decode(), params)
            answer = {"of": number, "result": bytes(result)}
        except BridgeError as error:
            answer = {"of": number, "error": msgspec.json.encode(error.as_object())}
        except TimeoutError:
            return  # the asker has given up as well
        await self._post(tenant, asker, answer)


class _Asked:
    """What was asked of another process: whether it has begun, and its answer."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.answer: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()


def _away(record: AgentRecord, *, silent: bool = False) -> AgentUnavailable:
    host = record.connector.host or f"the machine of agent {record.id!r}"
    state = "silent" if silent else record.attachment.state.value
    reason = record.attachment.reason.value
    why = "" if silent else f" ({reason})"
    return AgentUnavailable(f"it is on {host}, which is {state}{why}", state=state, host=host)
