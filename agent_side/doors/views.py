"""The sessions one client has open: each shown from the journal to its end, and live from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import islice

from agent_side.connector import Connector
from bridge.protocol import entry
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Envelope

PAGE = 500  # entries of a replay, between which others get their turn


@dataclass
class _View:
    last: Cursor  # the newest entry the client was shown, or need not be
    live: bool = False  # false while it is still shown from the journal
    in_pieces: bool = False  # it was shown all pieces of the entry that comes next


class Views:
    """How far one client has each session; ``write`` takes each message for it."""

    def __init__(
        self, connector: Connector, write: Callable[[bytes], None], own: Container[str]
    ) -> None:
        """Begin with no session open; ``own``: mail ids of prompts that are not echoed."""
        self.aware = False  # the client asked for our own messages too
        self._connector = connector
        self._write = write
        self._own = own
        self._open: dict[str, _View] = {}

    def __contains__(self, session_id: str) -> bool:
        """Whether the client has a session open."""
        return session_id in self._open

    def is_live(self, session_id: str) -> bool:
        """Whether the client has seen a session up to its end."""
        view = self._open.get(session_id)
        return view is not None and view.live

    def take(self, session_id: str, text: bytes, envelope: Envelope) -> None:
        """Show a new entry where the session is live."""
        view = self._open.get(session_id)
        if view is not None and view.live:
            self._show(view, text, envelope)

    def take_piece(self, session_id: str, text: bytes, *, is_first: bool) -> None:
        """Show a piece of an entry; whoever came in the middle is shown the entry."""
        view = self._open.get(session_id)
        if view is None or not view.live or not (is_first or view.in_pieces):
            return
        view.in_pieces = True
        self._write(text)

    async def follow(self, session_id: str, after: Cursor) -> bool:
        """Show what comes after a cursor, then go live; False when it was left meanwhile."""
        view = self._open[session_id] = _View(after)
        while self._show_page(session_id, view) == PAGE:
            await asyncio.sleep(0)
            if self._open.get(session_id) is not view:
                return False
        view.live = True
        return True

    def leave(self, session_id: str) -> bool:
        """Close a session for this client; say whether it was open."""
        return self._open.pop(session_id, None) is not None

    def _show_page(self, session_id: str, view: _View) -> int:
        page = list(islice(self._connector.entries(session_id, view.last), PAGE))
        for _, text in page:
            self._show(view, text, entry.read(text))
        return len(page)

    def _show(self, view: _View, text: bytes, envelope: Envelope) -> None:
        if envelope.cursor <= view.last:
            return
        view.last = envelope.cursor
        if view.in_pieces:
            view.in_pieces = False
        elif self._is_shown(envelope, live=view.live):
            self._write(text)

    def _is_shown(self, envelope: Envelope, *, live: bool) -> bool:
        if envelope.method == entry.UPDATE:
            return not (live and envelope.meta.mail_id in self._own)
        if envelope.method in entry.QUESTIONS:
            return False  # they are asked, under an id of the client's own
        return self.aware or envelope.method == entry.GAP
