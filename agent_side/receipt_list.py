"""The receipts and undos that stand in a session's log."""

from __future__ import annotations

from collections.abc import Iterable

from bridge.protocol import entry, jsonrpc
from bridge.protocol.cursor import Cursor
from bridge.protocol.jsonrpc import Payload

_MARKS = tuple(f'"{method}"'.encode() for method in (entry.RECEIPT, entry.UNDONE))


def read(entries: Iterable[tuple[Cursor, bytes]], *, undos: bool = False) -> list[Payload]:
    """Give the receipts of some entries, the oldest first; ``undos``: what was undone, too."""
    wanted = {entry.RECEIPT, entry.UNDONE} if undos else {entry.RECEIPT}
    found: list[Payload] = []
    for _, text in entries:
        if any(mark in text for mark in _MARKS):
            envelope = entry.read(text)
            if envelope.method in wanted:
                found.append(_plain(text, envelope.meta.at))
    return found


def _plain(text: bytes, at: str) -> Payload:
    message = jsonrpc.parse_lenient(text)
    assert isinstance(message, jsonrpc.Notification)
    params = jsonrpc.payload(message.params)
    return {**{k: v for k, v in params.items() if k != "_meta"}, "at": at}
