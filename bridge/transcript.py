"""A session's log as a text to take away: Markdown, a page of HTML, or the entries themselves.

It is read and written piece by piece, so a long log costs no more memory than a short one. What the
relay no longer keeps is said where the text begins, never left out in silence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Literal, TypeAlias

import msgspec

from bridge.history import begins_session
from bridge.log import Log
from bridge.passages import Passage, passages
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.jsonrpc import Payload
from bridge.sessions import SessionRecord
from bridge.transcript_forms import Html, Markdown

Form: TypeAlias = Literal["md", "html", "json"]
MEDIA_TYPES: dict[Form, str] = {
    "md": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "json": "application/json",
}
READ_AT_ONCE = 500  # entries

Entries: TypeAlias = AsyncIterator[list[bytes]]


class Transcripts:
    """The transcripts of all sessions."""

    def __init__(self, log: Log) -> None:
        """Read from ``log``."""
        self._log = log

    async def write(self, tenant: str, session: SessionRecord, form: Form) -> AsyncIterator[bytes]:
        """Give a session's text in pieces, the oldest entry first; raises StoreUnavailable."""
        begins = await self._log.read(tenant, session.session_id, START, 1)
        facts = _facts(session, begins[0] if begins else None)
        entries = self._entries(tenant, session)
        if form == "json":
            async for piece in _as_json(facts, entries):
                yield piece
            return
        writer = Html(facts) if form == "html" else Markdown(facts)
        yield writer.head().encode()
        async for some in entries:
            yield "".join(writer.passage(one) for text in some for one in _read(text)).encode()
        yield writer.end().encode()

    async def _entries(self, tenant: str, session: SessionRecord) -> Entries:
        """Read up to what the session held when it was asked for: a running one has no end."""
        cursor, last = START, session.cursor
        while cursor < last:
            found = await self._log.read(tenant, session.session_id, cursor, READ_AT_ONCE)
            if not found:
                return
            cursor = found[-1][0]
            yield [text for at, text in found if at <= last]


async def _as_json(facts: Payload, entries: Entries) -> AsyncIterator[bytes]:
    yield msgspec.json.encode(facts)[:-1] + b',"entries":['
    is_first = True
    async for some in entries:
        yield (b"" if is_first else b",\n") + b",\n".join(some)
        is_first = False
    yield b"]}\n"


def _read(text: bytes) -> Iterator[Passage]:
    return passages(msgspec.json.decode(text))


def _facts(session: SessionRecord, first: tuple[Cursor, bytes] | None) -> Payload:
    shown = session.as_json()
    wanted = ("sessionId", "title", "cwd", "agent", "createdAt", "updatedAt")
    facts: Payload = {name: shown[name] for name in wanted}
    if first is None:
        # Nothing was ever said, or nothing of it is kept.
        return {**facts, "first": None, "complete": session.cursor == START}
    return {**facts, "first": str(first[0]), "complete": begins_session(first[1])}
