"""The sessions of one uplink: whose each is, and how far its entries have come.

An entry that follows is queued for the store and shown to whoever watches here; it is acknowledged
when it is stored. After a hole everything is asked for again from what is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from bridge.agents import Claim
from bridge.hub import Item
from bridge.log import Appended
from bridge.protocol import entry, uplink
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import Envelope
from bridge.protocol.errors import InvalidParams, InvalidRequest
from bridge.protocol.uplink import Arrivals, SessionCard, Stored

if TYPE_CHECKING:
    from bridge.relay import Relay

HELD_SESSIONS = 2_000  # whose card is on its way

Tell: TypeAlias = Callable[[str, Any], None]

logger = logging.getLogger(__name__)


class Place:
    """One session: who may write it, and where its entries stand."""

    __slots__ = ("arrivals", "asked", "claim", "is_resending", "on_stored", "stored")

    def __init__(
        self, claim: Claim, stored: Cursor, on_stored: Callable[[Place, Appended], None]
    ) -> None:
        """Expect what follows the last stored entry."""
        self.claim = claim
        self.on_stored = partial(on_stored, self)
        self.arrivals = Arrivals(stored)
        self.stored = stored
        self.is_resending = False
        self.asked: list[Item] = []  # questions shown to nobody before they are stored

    def go_back(self, stored: Cursor) -> None:
        """Expect again what follows the last stored entry."""
        self.stored = stored
        self.arrivals = Arrivals(stored)
        self.asked = [item for item in self.asked if item.cursor <= stored]

    def take_asked(self) -> list[Item]:
        """Give the questions that are stored by now, once."""
        if not self.asked:
            return []
        asked = [item for item in self.asked if item.cursor <= self.stored]
        self.asked = [item for item in self.asked if item.cursor > self.stored]
        return asked


class Places:
    """The sessions of one uplink; ``tell`` sends the connector a notification."""

    def __init__(
        self, relay: Relay, tenant: str, tell: Tell, on_refused: Callable[[str], None]
    ) -> None:
        """Begin without sessions; ``on_refused`` learns why entries cannot be stored."""
        self._relay = relay
        self._tenant = tenant
        self._tell = tell
        self._on_refused = on_refused
        self._places: dict[str, Place] = {}
        self._held: dict[str, list[bytes]] = {}  # entries whose session's card is on its way
        self._batches: dict[str, list[Item]] = {}  # of this read

    def __contains__(self, session_id: object) -> bool:
        """Whether the session's card came."""
        return session_id in self._places

    def __iter__(self) -> Iterator[str]:
        """Go through the sessions' ids."""
        return iter(tuple(self._places))

    def add(self, session_id: str, claim: Claim, stored: Cursor) -> list[bytes]:
        """Take a session in; gives the entries that came before its card."""
        on_stored = partial(self._on_stored, session_id)
        self._places[session_id] = Place(claim, stored, on_stored)
        return self._held.pop(session_id, [])

    async def put(self, claim: Claim | None, card: SessionCard) -> list[bytes]:
        """Store a session's card; gives the entries that came before the first; InvalidParams."""
        if claim is None:
            raise InvalidParams(f"session {card.session_id!r:.80} is of an agent not in hello")
        await self._relay.sessions.put_card(claim, card)
        if card.session_id in self:
            return []
        last = await self._relay.log.last(claim.tenant, card.session_id)
        return self.add(card.session_id, claim, last)

    def stored(self) -> list[Stored]:
        """Give how far each session is stored."""
        return [Stored(id_, *place.stored) for id_, place in self._places.items()]

    # Entries of one read.

    def arrive(self, text: bytes, envelope: Envelope) -> None:
        """Take an entry: pass on the next one, acknowledge a repeat, ask again after a hole."""
        session_id, cursor = envelope.session_id, envelope.cursor
        place = self._places.get(session_id)
        if place is None:
            self._hold(session_id, text)
            return
        prev = envelope.meta.prev
        accepted = place.arrivals.accept(cursor, Cursor.parse(prev) if prev else None)
        if accepted is None:
            self._ask_again(session_id, place)
        elif accepted:
            place.is_resending = False
            self._batches.setdefault(session_id, []).append(Item(cursor, text, envelope))
        elif cursor <= place.stored:
            self._acknowledge(session_id, place.stored)

    def pass_on(self) -> None:
        """Have what arrived stored, and show it; raises InvalidParams for a malformed one."""
        batches, self._batches = self._batches, {}
        for session_id, items in batches.items():
            place = self._places[session_id]
            self._relay.log.append(place.claim, session_id, items, place.on_stored)
            place.asked += [item for item in items if item.envelope.method in entry.QUESTIONS]
            self._relay.hub.publish(self._tenant, session_id, items)

    def _hold(self, session_id: str, text: bytes) -> None:
        held = self._held.setdefault(session_id, [])
        held.append(text)
        if len(held) > uplink.WINDOW_ENTRIES or len(self._held) > HELD_SESSIONS:
            raise InvalidRequest(f"entries of session {session_id!r:.80}, which has no card here")

    # What the store says.

    async def compare(self) -> None:
        """Ask again for what was acknowledged and is not stored any more; raises StoreUnavailable.

        A store that comes back after a failure may have lost its newest seconds.
        """
        for session_id, place in tuple(self._places.items()):
            acknowledged = place.stored
            last = await self._relay.log.last(self._tenant, session_id)
            if last < acknowledged:
                logger.warning("the store has lost entries of %s after %s", session_id, last)
                self._go_back(session_id, place, last)

    def _on_stored(self, session_id: str, place: Place, appended: Appended) -> None:
        if appended.state not in {"ok", "gap"}:
            logger.error("entries of session %s are refused: %s", session_id, appended.state)
            self._on_refused(appended.state)
            return
        if appended.state == "gap":
            self._go_back(session_id, place, appended.cursor)
        else:
            place.stored = appended.cursor
            self._acknowledge(session_id, place.stored)
        self._relay.hub.stored(self._tenant, session_id, place.take_asked(), place.stored)

    def _go_back(self, session_id: str, place: Place, stored: Cursor) -> None:
        if stored < place.stored:
            place.is_resending = False  # what was asked for is not enough
        place.go_back(stored)
        self._ask_again(session_id, place)

    def _acknowledge(self, session_id: str, cursor: Cursor) -> None:
        self._tell(uplink.ACK, Stored(session_id, *cursor))

    def _ask_again(self, session_id: str, place: Place) -> None:
        if not place.is_resending:
            place.is_resending = True
            self._tell(uplink.ACK, Stored(session_id, *place.stored, resend=True))
