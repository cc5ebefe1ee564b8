"""Pairings that wait for their device: one answer each, two minutes, five wrong codes.

The relay carries what machine and device say to each other; it can read it and cannot change it
unseen (``protocol/pairing.py``).
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridge import keys
from bridge.changes import Change
from bridge.devices import Devices, tell
from bridge.identity import Identity
from bridge.inbox import Inbox
from bridge.protocol import pairing
from bridge.protocol.entry import timestamp
from bridge.protocol.errors import InvalidParams, NotFound, PairingRefused
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.pairing import Step
from bridge.protocol.uplink import DeviceCard, Invited, PairingEnd, PairingNews
from bridge.redis import Store

KEPT_SECONDS = 2 * pairing.LIFE_SECONDS  # so that both sides learn the end
_MAC_LIMIT = 128
_GONE = "no pairing waits with this code: it was wrong, is older than two minutes, or is over"


class _Pairing(msgspec.Struct, frozen=True):
    agent: str
    offer: str
    mac: str
    expires_at: int
    guessed: int  # wrong codes of the tenant when it began
    step: Step
    answer: str | None = None
    proof: str | None = None
    token_id: str | None = None
    number: str | None = None
    end_mac: str | None = None


class Pairings:
    """The pairings of all tenants."""

    def __init__(self, store: Store, inbox: Inbox, devices: Devices) -> None:
        """Keep them in this store."""
        self._store = store
        self._inbox = inbox
        self._devices = devices

    # Of the machine.

    async def begin(self, tenant: str, invited: Invited) -> PairingNews:
        """Have a device find this invitation by its code."""
        code = pairing.read_code(invited.code)
        if len(invited.offer) > pairing.TEXT_LIMIT or len(invited.mac) > _MAC_LIMIT:
            raise InvalidParams("the offer is too long")
        if (news := await self._again(tenant, code, invited)) is not None:
            return news
        name = keys.pairing(tenant, code)
        ends = await self._store.time_ms() + pairing.LIFE_SECONDS * 1000
        async with self._store.operation():
            guessed = int(await self._store.commands.get(keys.guesses(tenant)) or 0)
            fields = {
                "agent": invited.agent,
                "offer": invited.offer,
                "mac": invited.mac,
                "expires_at": ends,
                "guessed": guessed,
                "step": Step.OPEN.value,
            }
            pipe = self._store.commands.pipeline(transaction=True)
            pipe.hset(name, mapping=fields)
            pipe.expire(name, KEPT_SECONDS)
            await pipe.execute()
        return PairingNews(code, invited.agent, Step.OPEN)

    async def _again(self, tenant: str, code: str, invited: Invited) -> PairingNews | None:
        """Give how far an invitation is that is told again after a reconnect."""
        found = await self._read(tenant, code)
        if found is None or (found.agent, found.offer) != (invited.agent, invited.offer):
            return None
        return await self.news(tenant, code) or PairingNews(code, found.agent, found.step)

    async def news(self, tenant: str, code: str) -> PairingNews | None:
        """Give what a machine must learn of its pairing; None when it is over."""
        found = await self._read(tenant, code)
        if found is None or found.step is not Step.ANSWERED:
            return None
        return PairingNews(code, found.agent, found.step, found.answer, found.proof)

    async def end(self, tenant: str, end: PairingEnd) -> None:
        """Take what the machine says: compare these words, or how it ended."""
        code = pairing.read_code(end.code)
        found, step = await self._read(tenant, code), end.step
        if found is None or found.agent != end.agent:
            raise NotFound(_GONE)
        if step in (Step.OPEN, Step.ANSWERED):
            raise InvalidParams(f"{step.value} is no word of a machine that was answered")
        fields = {"step": step.value, "number": end.number or "", "end_mac": end.mac or ""}
        if step is Step.PAIRED and found.answer is not None:
            answer = pairing.read_answer(found.answer)
            id_ = pairing.device_of(answer)
            card = DeviceCard(id_, answer.key, answer.name, answer.subject)
            await self._devices.paired(tenant, card, found.token_id or "")
        await self._put(tenant, code, fields)

    # Of the device.

    async def look(self, identity: Identity, typed: str) -> Payload:
        """Give the offer of an open pairing; raises NotFound, and counts that."""
        _, found = await self._find(identity, typed)
        if found.step is not Step.OPEN:
            raise NotFound(_GONE)
        return {
            "offer": found.offer,
            "mac": found.mac,
            "expiresAt": timestamp(found.expires_at),
        }

    async def answer(self, identity: Identity, typed: str, text: str, proof: str | None) -> None:
        """Bring a device's answer to its machine, once; raises NotFound or PairingRefused."""
        code, found = await self._find(identity, typed)
        answer = pairing.read_answer(text)
        if answer.subject != identity.subject:
            raise PairingRefused("a device is paired for whoever is signed in on it")
        name = keys.pairing(identity.tenant, code)
        async with self._store.operation():
            mine = f"{identity.token_id} {text}"
            await self._store.commands.hsetnx(name, "answered", mine)
            first = await self._store.commands.hget(name, "answered")
        if found.step is not Step.OPEN or first is None or first.decode() != mine:
            raise NotFound(_GONE)
        fields = {"step": Step.ANSWERED.value, "answer": text, "token_id": identity.token_id}
        if proof is not None:
            fields["proof"] = proof
        await self._put(identity.tenant, code, fields)
        change = Change("pairing", code, agent=found.agent)
        await tell(self._store, self._inbox, identity.tenant, name, change)

    async def outcome(self, identity: Identity, typed: str) -> Payload:
        """Tell the device that answered how far its pairing is; raises NotFound."""
        _, found = await self._find(identity, typed)
        if found.token_id != identity.token_id:
            raise NotFound(_GONE)
        shown = {"step": found.step.value, "number": found.number, "mac": found.end_mac}
        return {name: value for name, value in shown.items() if value}

    # Inside.

    async def _find(self, identity: Identity, typed: str) -> tuple[str, _Pairing]:
        """Give the pairing with this code: each try counts as wrong until it was right."""
        code, tenant = pairing.read_code(typed), identity.tenant
        guesses = keys.guesses(tenant)
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=True)
            pipe.incr(guesses)
            pipe.expire(guesses, KEPT_SECONDS)
            tries, _ = await pipe.execute()
        found = await self._read(tenant, code)
        if found is None or tries - found.guessed > pairing.WRONG_CODES:
            raise NotFound(_GONE)
        async with self._store.operation():
            await self._store.commands.decr(guesses)
        return code, found

    async def _read(self, tenant: str, code: str) -> _Pairing | None:
        async with self._store.operation():
            raw = await self._store.commands.hgetall(keys.pairing(tenant, code))
        fields: dict[str, Any] = {name.decode(): value.decode() for name, value in raw.items()}
        if "offer" not in fields:
            return None
        found = msgspec.convert(fields, _Pairing, strict=False)
        over = found.step is Step.OPEN and await self._store.time_ms() >= found.expires_at
        return None if over else found

    async def _put(self, tenant: str, code: str, fields: dict[Any, Any]) -> None:
        name = keys.pairing(tenant, code)
        async with self._store.operation():
            pipe = self._store.commands.pipeline(transaction=True)
            pipe.hset(name, mapping=fields)
            pipe.expire(name, KEPT_SECONDS)
            await pipe.execute()
