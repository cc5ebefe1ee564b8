"""What watches a session, and what it is given: a dashboard takes frames, an event stream texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Envelope


class Item(NamedTuple):
    """An entry on its way to viewers."""

    cursor: Cursor
    text: bytes
    envelope: Envelope


class Reading(NamedTuple):
    """How a viewer wants its history."""

    entries: int | None = None  # so many of the newest when it comes without a cursor
    compact: bool = False  # neighbouring pieces of a text joined


class Watching(Protocol):
    """What every viewer of a session has."""

    @property
    def buffered(self) -> int:
        """Bytes that it has not taken yet."""

    def gap(self, session_id: str, held_from: Cursor, reason: str) -> None:
        """Learn that what comes next follows ``held_from``: nothing else beyond that is held."""

    def too_slow(self) -> None:
        """Learn that it lost its place because it did not take its bytes."""


class Viewer(Watching, Protocol):
    """A dashboard: it takes frames as they are, and decides about entries that are not plain."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """What takes the joined frames of plain entries, the same bytes for everybody."""

    def special(self, item: Item, frame: bytes) -> None:
        """Take an entry that not everybody gets as it is: a turn, an end, a person's words."""

    def ask(self, item: Item) -> None:
        """Take a question that is stored; it may come twice."""


class TextViewer(Watching, Protocol):
    """An event stream: it takes every entry as text, questions too."""

    @property
    def wants_text(self) -> bool:
        """True."""

    def texts(self, session_id: str, items: Sequence[Item]) -> None:
        """Take entries in order."""
