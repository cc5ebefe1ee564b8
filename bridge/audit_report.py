"""What people take away from an audit: figures of a time, and tables for other programs."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import TextIO

import msgspec

from bridge.audit import Audit, as_json
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Store
from bridge.running import running_store_url
from bridge.seals import Record
from bridge.settings import Settings
from bridge.tokens import Tokens, check_tenant

COLUMNS = (
    "at",
    "event",
    "subject",
    "device",
    "door",
    "from",
    "roundTrip",
    "sessionId",
    "agent",
    "title",
    "risk",
    "hash",
    "meaning",
    "answer",
    "result",
    "reason",
    "askedAt",
    "decidedAt",
    "decisionId",
    "rule",
    "words",
    "id",
)


class Figures:
    """How a tenant's questions ended, counted record by record."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counts = dict.fromkeys(("held", "approved", "denied", "byRule", "expired"), 0)
        self._waits: list[int] = []  # milliseconds from question to decision

    def add(self, record: Record) -> None:
        """Count one record; only how a question ended counts."""
        fields = record.fields
        if fields.get("event") != "closed":
            return
        self._counts["held"] += 1
        word = _ending(fields)
        if word:
            self._counts[word] += 1
        asked, decided = fields.get("askedAt"), fields.get("decidedAt")
        if asked and decided:
            self._waits.append(int(decided) - int(asked))

    def as_json(self) -> Payload:
        """Give the wire shape; the median is None where nothing was decided."""
        wait = median(self._waits) / 1000 if self._waits else None
        return {**self._counts, "medianSecondsToDecide": wait}


def _ending(fields: dict[str, str]) -> str:
    if fields.get("reason") == "expired":
        return "expired"
    if fields.get("reason") == "rule":
        return "byRule"
    return {"allow": "approved", "reject": "denied"}.get(fields.get("meaning", ""), "")


def as_jsonl(record: Record) -> bytes:
    """Give a record as one line of JSON."""
    return msgspec.json.encode(as_json(record)) + b"\n"


def csv_head() -> bytes:
    """Give the line that names the columns."""
    return _row(COLUMNS)


def as_csv(record: Record) -> bytes:
    """Give a record as one line of CSV."""
    shown = as_json(record)
    by = shown.pop("by", None) or {}
    shown |= {name: by.get(name, "") for name in ("subject", "device", "door")}
    if "answer" in shown:
        shown["answer"] = msgspec.json.encode(shown["answer"]).decode()
    return _row([_harmless(str(shown.get(name, ""))) for name in COLUMNS])


# What ``chimera-relay audit`` does, beside a running relay or without one.


async def verify(settings: Settings, tenant: str, output: TextIO) -> bool:
    """Print whether a tenant's records are as they were written; raises StoreUnavailable."""
    async with _opened(settings) as audit:
        found = await audit.check(check_tenant(tenant))
    if found.fault:
        print(f"{tenant}: not as it was written: {found.fault}", file=output)
        return False
    print(f"{tenant}: unbroken; records: {found.records}, seals: {found.seals}", file=output)
    if found.unsealed:
        print(f"not sealed yet: the newest {found.unsealed}", file=output)
    if found.newest_link:
        print(f"newest seal: {found.newest_link}", file=output)
    return True


async def export(settings: Settings, tenant: str, output: TextIO) -> bool:
    """Print every record of a tenant as JSON lines; raises StoreUnavailable."""
    async with _opened(settings) as audit:
        async for record in audit.all(check_tenant(tenant)):
            output.write(as_jsonl(record).decode())
    return True


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[Audit]:
    store = Store.open(running_store_url(settings))
    try:
        yield Audit(store, Tokens(settings.keys_folder))
    finally:
        await store.aclose()


def _harmless(text: str) -> str:
    """Keep a spreadsheet from taking an agent's text for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _row(cells: tuple[str, ...] | list[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()
