"""A session's history in pages: from the log, and what the log has no more from its connector.

Entries are given byte for byte. An entry that was shortened on its way is given in full in pieces.
"""

from __future__ import annotations

import msgspec

from bridge.batch import items_of
from bridge.compact import joined
from bridge.journals import Journals
from bridge.log import Log
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.jsonrpc import Payload
from bridge.sessions import SessionRecord
from bridge.viewer import Reading

PAGE_LIMIT = 1000  # entries of one page


class _JournalPage(msgspec.Struct):
    entries: list[msgspec.Raw]
    more: bool


class History:
    """What has been said in the sessions, as far back as anybody keeps it."""

    def __init__(self, log: Log, journals: Journals) -> None:
        """Read here first, then ask the connectors."""
        self._log = log
        self._journals = journals

    async def after(self, tenant: str, session_id: str, cursor: Cursor, reading: Reading) -> bytes:
        """Give a page of what the log has after a cursor."""
        entries = await self._log.read(tenant, session_id, cursor, reading.entries or PAGE_LIMIT)
        last = await self._log.last(tenant, session_id)
        more = bool(entries) and entries[-1][0] < last
        return await self._page(tenant, session_id, _texts(entries, reading), last, more=more)

    async def before(
        self, tenant: str, record: SessionRecord, cursor: Cursor | None, reading: Reading
    ) -> bytes:
        """Give the page right before a cursor, the newest without one; raises AgentUnavailable."""
        session_id, limit = record.session_id, reading.entries or PAGE_LIMIT
        entries = await self._log.read_before(tenant, session_id, cursor, limit)
        last = await self._log.last(tenant, session_id)
        if entries:
            more = not begins_session(entries[0][1])
            return await self._page(tenant, session_id, _texts(entries, reading), last, more=more)
        if last == START:
            return await self._page(tenant, session_id, b"[]", last, more=False)
        asked = {"sessionId": session_id, "limit": limit}
        if cursor is not None:
            asked["before"] = str(cursor)
        answer = await self._journals.ask(tenant, record.agent, asked)
        page = msgspec.json.decode(answer, type=_JournalPage)
        entries = [(entry.read(text).cursor, bytes(text)) for text in page.entries]
        text = _texts(entries, reading)
        return await self._page(tenant, session_id, text, last, more=page.more)

    async def piece(
        self, tenant: str, record: SessionRecord, at: Cursor, offset: int, limit: int | None
    ) -> msgspec.Raw:
        """Give a part of an entry's whole text; raises AgentUnavailable, NotFound."""
        asked: Payload = {"sessionId": record.session_id, "at": str(at), "offset": offset}
        if limit is not None:
            asked["limit"] = limit
        return await self._journals.ask(tenant, record.agent, asked)

    async def _page(
        self, tenant: str, session_id: str, entries: bytes, last: Cursor, *, more: bool
    ) -> bytes:
        first = await self._log.first(tenant, session_id)
        facts = {"first": None if first is None else str(first), "last": str(last), "more": more}
        return b'{"entries":' + entries + b"," + msgspec.json.encode(facts)[1:]


def _texts(entries: list[tuple[Cursor, bytes]], reading: Reading) -> bytes:
    if reading.compact:
        entries = [(item.cursor, item.text) for item in joined(items_of(entries))]
    return b"[" + b",".join(text for _, text in entries) + b"]"


def begins_session(text: bytes) -> bool:
    """Whether an entry is the first of its session."""
    meta = entry.read(text).meta
    return meta.seq == 1 and meta.prev in {None, str(START)}
