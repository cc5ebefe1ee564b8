"""Who did what: written in the same step as what was done, searched, and sealed."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from typing import NoReturn, TypeAlias

import msgspec

from bridge import keys
from bridge.outage import Outage
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.errors import StoreUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store
from bridge.seals import Finding, Record, Seal, Walk, beginning, link, sealed_text
from bridge.tokens import Tokens

KEPT_MS = 400 * 86_400_000  # as the scripts cut it
CUT_EARLY_MS = 86_400_000  # one more day: clocks, and time since the last cut
READ_AT_ONCE = 1000
SEARCHED = 20_000  # records that one search looks at; the next one goes on from there
EVENTS = (
    "decided",
    "closed",
    "first_approval",
    "escalated",
    "rule_added",
    "rule_removed",
    "approval_changed",
    "sandbox_violation",
    "sign_in",
    "sign_out",
    "device_paired",
    "device_revoked",
    "token_made",
    "token_bound",
    "token_refreshed",
    "token_reused",
    "token_revoked",
)
_JSON = frozenset({"answer", "by"})
_TIMES = frozenset({"at", "askedAt", "decidedAt"})

Fields: TypeAlias = dict[bytes, bytes]


class Search(msgspec.Struct, frozen=True):
    """What records to give; an empty field matches all."""

    event: str = ""
    subject: str = ""  # of who did it
    session_id: str = ""
    text: str = ""  # anywhere in the record, whatever its case
    since: int = 0  # Unix milliseconds
    until: int = 0

    def matches(self, record: Record) -> bool:
        """Say whether a record is wanted; its time is not looked at."""
        fields = record.fields
        if self.event and fields.get("event") != self.event:
            return False
        if self.session_id and fields.get("sessionId") != self.session_id:
            return False
        if self.subject and _subject(fields) != self.subject:
            return False
        return not self.text or self.text.lower() in "\n".join(fields.values()).lower()


class Page(msgspec.Struct, frozen=True):
    """Records, the newest first, and where to go on; no ``next``, no more."""

    records: list[Record]
    next: str | None


class Audit:
    """The audit of all tenants."""

    def __init__(self, store: Store, tokens: Tokens) -> None:
        """Write to ``store``, seal with the newest key of ``tokens``; ``run`` does the sealing."""
        self._store = store
        self._tokens = tokens
        self._unsealed: set[str] = set()
        self._wanted = asyncio.Event()

    # Writing.

    async def write(self, tenant: str, event: str, by: Origin | None = None, **facts: str) -> None:
        """Record that something was done; raises StoreUnavailable when it is not recorded."""
        fields = {"event": event, **facts}
        if by is not None:
            fields["by"] = msgspec.json.encode(by).decode()
        flat = [text for pair in fields.items() for text in pair]
        record = keys.audited(tenant, secrets.token_hex(16))
        await self._store.run("audit", [keys.audit(tenant), record], flat)
        self.written(tenant)

    def written(self, tenant: str) -> None:
        """Note that a tenant has records to be sealed."""
        self._unsealed.add(tenant)
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Seal what is written until cancelled."""
        outage = Outage("the audit's seals")
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self.seal_all()
                outage.over()
            except StoreUnavailable as error:
                self._wanted.set()
                await outage.wait(error)

    async def seal_all(self) -> None:
        """Seal what was written here; raises StoreUnavailable, and the rest is still noted."""
        while self._unsealed:
            tenant = next(iter(self._unsealed))
            await self.seal(tenant)
            self._unsealed.discard(tenant)

    async def seal(self, tenant: str) -> None:
        """Seal all that a tenant's audit has; another process may do so at the same time."""
        newest = await self._newest_seal(tenant)
        while True:
            upto = newest.upto if newest else "-"
            records = await self._after(tenant, upto, READ_AT_ONCE)
            if not records:
                return
            newest = await self._seal(tenant, newest, records)

    async def _seal(self, tenant: str, newest: Seal | None, records: list[Record]) -> Seal | None:
        chain = bytes.fromhex(newest.link) if newest else beginning(tenant)
        for record in records:
            chain = link(chain, record)
        count = (newest.count if newest else 0) + len(records)
        upto = records[-1].id
        kid, signature = self._tokens.sign(sealed_text(tenant, upto, count, chain.hex()))
        seal = Seal(upto, count, chain.hex(), kid, base64.b64encode(signature).decode())
        before = newest.upto if newest else ""
        if await self._store.run(
            "seal",
            [keys.seals(tenant)],
            [before, *(str(part) for part in msgspec.structs.astuple(seal))],
        ):
            return seal
        return await self._newest_seal(
            tenant
        )  # another process was first, or this one's reply lost

    # Reading.

    async def search(self, tenant: str, wanted: Search, before: str | None, limit: int) -> Page:
        """Give the newest records that match, before a record's id where one is named."""
        found: list[Record] = []
        end = f"({before}" if before else (str(wanted.until) if wanted.until else "+")
        searched = 0
        while True:
            records = await self._before(tenant, end, wanted.since)
            for record in records:
                if wanted.matches(record):
                    found.append(record)
                if len(found) == limit:
                    return Page(found, record.id)
            searched += len(records)
            if len(records) < READ_AT_ONCE:
                return Page(found, None)
            if searched >= SEARCHED:
                return Page(found, records[-1].id)
            end = f"({records[-1].id}"

    async def all(self, tenant: str, since: int = 0, until: int = 0) -> AsyncIterator[Record]:
        """Give every record of a time, the oldest first."""
        start = str(since) if since else "-"
        while True:
            records = await self._range(tenant, start, str(until) if until else "+")
            for record in records:
                yield record
            if len(records) < READ_AT_ONCE:
                return
            start = f"({records[-1].id}"

    async def check(self, tenant: str) -> Finding:
        """Find out whether a tenant's records are as they were written."""
        async with self._store.operation():
            found = await self._store.commands.xrange(keys.seals(tenant))
        seals = [_seal(fields) for _, fields in found]
        cut_before = await self._store.time_ms() - KEPT_MS + CUT_EARLY_MS
        walk = Walk(tenant, seals, self._tokens.public_keys(), cut_before)
        async for record in self.all(tenant):
            if not walk.step(record):
                break
        return walk.finding()

    async def _newest_seal(self, tenant: str) -> Seal | None:
        async with self._store.operation():
            found = await self._store.commands.xrevrange(keys.seals(tenant), count=1)
        return _seal(found[0][1]) if found else None

    async def _after(self, tenant: str, upto: str, count: int) -> list[Record]:
        start = upto if upto == "-" else f"({upto}"
        return await self._range(tenant, start, "+", count)

    async def _range(
        self, tenant: str, start: str, end: str, count: int = READ_AT_ONCE
    ) -> list[Record]:
        async with self._store.operation():
            found = await self._store.commands.xrange(keys.audit(tenant), start, end, count)
        return [_record(*each) for each in found]

    async def _before(self, tenant: str, end: str, since: int) -> list[Record]:
        name = keys.audit(tenant)
        start = str(since) if since else "-"
        async with self._store.operation():
            found = await self._store.commands.xrevrange(name, end, start, READ_AT_ONCE)
        return [_record(*each) for each in found]


def as_json(record: Record) -> Payload:
    """Give a record's wire shape; what is empty is left out."""
    shown: Payload = {"id": record.id}
    for name, text in record.fields.items():
        if not text:
            continue
        if name in _JSON:
            shown[name] = msgspec.json.decode(text)
        elif name in _TIMES:
            shown[name] = timestamp(int(text))
        else:
            shown[name] = text
    return shown


def _subject(fields: dict[str, str]) -> str:
    by = fields.get("by")
    return str(msgspec.json.decode(by).get("subject", "")) if by else ""


def _record(stream_id: bytes, fields: Fields) -> Record:
    return Record(
        stream_id.decode(),
        {name.decode(): text.decode("utf-8", "replace") for name, text in fields.items()},
    )


def _seal(fields: Fields) -> Seal:
    text = {name.decode(): value.decode() for name, value in fields.items()}
    return Seal(text["upto"], int(text["count"]), text["link"], text["kid"], text["signature"])
