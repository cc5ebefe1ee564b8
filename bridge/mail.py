"""Messages on their way down to an agent: durable, at least once, each id taken once.

A mail waits in the agent's stream until its connector has it on disk. Numbers rise but have holes:
they follow Redis's clock, so that they go on rising even if Redis forgot the last ones.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from bridge import keys
from bridge.agents import SEEN_FIELDS, Claim, seen_of
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol import acp, attachment
from bridge.protocol.attachment import State
from bridge.protocol.entry import Origin
from bridge.protocol.errors import (
    AgentUnavailable,
    InvalidParams,
    Overloaded,
    Replaced,
    SignatureRequired,
)
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import Mail, MailDone
from bridge.redis import Store, as_ms

DONE_SECONDS = 600  # how long a sender may come back for the outcome
# From a remote client only these fields go down; the connector checks them again.
MAIL_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # needed, optional
    acp.PROMPT: (("prompt",), ()),
    acp.CANCEL: ((), ()),
    acp.SET_MODE: (("modeId",), ()),
    acp.SET_CONFIG_OPTION: (("configId", "value"), ("type",)),
    acp.SET_APPROVAL: (("preset",), ()),
    acp.UNDO: (("turn",), ("force",)),
    acp.UNDO_PREVIEW: (("turn",), ()),
}
UNSIGNED = (
    "this machine takes messages only from paired devices: run chimera-bridge pair there and open "
    "what it shows with this device"
)
_LIFE_MS = keys.AGENT_SECONDS * 1000
_AWAY = frozenset({State.DETACHED, State.ENDED})


class Letter(NamedTuple):
    """A message on its way to an agent."""

    agent: str
    mail_id: str
    message: Payload
    signature: str | None


class Mailbox:
    """The mail of all agents."""

    def __init__(self, store: Store, inbox: Inbox) -> None:
        """Write through ``store`` and wake through ``inbox``."""
        self._store = store
        self._inbox = inbox

    async def send(  # noqa: PLR0917 (each is of its own type)
        self,
        tenant: str,
        agent: str,
        mail_id: str,
        origin: Origin,
        message: Payload,
        not_after: int | None,
        signature: str | None = None,
    ) -> int:
        """Take a message for an agent and give its number.

        Raises AgentUnavailable, Overloaded, or SignatureRequired.
        """
        keys.check_id(mail_id, "mail id")
        await self._check_there(tenant, agent, mail_id)
        mail = keys.mail(tenant, agent)
        state, n, nodes = await self._store.run(
            "mail",
            [mail, keys.mailed(tenant, agent), keys.claim(tenant, agent), keys.watch(mail)],
            [
                mail_id,
                msgspec.json.encode(origin),
                msgspec.json.encode(message),
                "" if not_after is None else not_after,
                _LIFE_MS,
                signature or "",
            ],
            replicated=True,
        )
        if state == b"unsigned":
            raise SignatureRequired(UNSIGNED)
        if state == b"full":
            raise Overloaded(f"the mail of agent {agent!r} is full; try again when it is back")
        await self._inbox.wake(nodes, mail)
        return int(n)

    async def acknowledge(self, claim: Claim, up_to: int) -> None:
        """Forget mail that is on the connector's disk; raises Replaced."""
        tenant, agent = claim.tenant, claim.agent
        there = await self._store.run(
            "acknowledge",
            [keys.claim(tenant, agent), keys.mail(tenant, agent), keys.mailed(tenant, agent)],
            [claim.epoch, claim.writer, up_to],
        )
        if not there:
            raise Replaced("another connector process holds the agent")

    async def done(self, claim: Claim, done: MailDone) -> None:
        """Keep what became of a mail for ten minutes; the first word stays; raises Replaced."""
        tenant, agent = claim.tenant, claim.agent
        state, held, nodes = await self._store.run(
            "done",
            [
                keys.claim(tenant, agent),
                keys.mailed(tenant, agent),
                keys.done(tenant, done.mail_id),
                keys.changes(tenant),
                keys.watch(keys.changes(tenant)),
            ],
            [
                claim.epoch,
                claim.writer,
                done.mail_id,
                msgspec.json.encode(done),
                DONE_SECONDS * 1000,
                notice(Change("mail", done.mail_id, agent=agent, state="done")),
            ],
        )
        if state == b"fenced":
            raise Replaced("another connector process holds the agent", epoch=int(held))
        await self._inbox.wake(nodes, keys.changes(tenant))

    async def outcome(self, tenant: str, mail_id: str) -> MailDone | None:
        """Give what became of a mail, if it is done."""
        name = keys.done(tenant, mail_id)
        async with self._store.operation():
            found = await self._store.commands.get(name)
        return msgspec.json.decode(found, type=MailDone) if found else None

    async def _check_there(self, tenant: str, agent: str, mail_id: str) -> None:
        """Refuse an agent that is not coming back, but not a mail that was taken before."""
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=False)
            pipe.time()
            pipe.hmget(keys.claim(tenant, agent), SEEN_FIELDS)
            pipe.zscore(keys.mailed(tenant, agent), mail_id)
            time, fields, n = await pipe.execute()
        if n is not None:
            return
        found = attachment.reduce(seen_of(fields), as_ms(time))
        if found.state in _AWAY:
            raise AgentUnavailable(
                f"agent {agent!r} is {found.state.value} ({found.reason.value}); "
                "start its connector again",
                state=found.state.value,
            )


def message_for(method: str, session_id: str, params: Payload) -> Payload:
    """Give the message that goes down; raises InvalidParams naming what is missing."""
    needed, optional = MAIL_FIELDS[method]
    for name in needed:
        if name not in params:
            raise InvalidParams(f"{method} needs {name} in params")
    taken = {name: params[name] for name in (*needed, *optional) if name in params}
    return {"method": method, "params": {"sessionId": session_id, **taken}}


def parse_mail(stream_id: str, fields: dict[bytes, bytes]) -> Mail:
    """Read a mail from the agent's stream."""
    not_after = fields[b"notAfter"]
    return Mail(
        n=int(stream_id.split("-", 1)[0]),
        mail_id=fields[b"id"].decode(),
        origin=msgspec.json.decode(fields[b"origin"], type=Origin),
        message=msgspec.json.decode(fields[b"message"]),
        not_after=int(not_after) if not_after else None,
        signature=fields[b"signature"].decode() or None,
    )
