"""Requests of one client whose answers come from agents: a mail's outcome, or a turn's end.

A client that sends a mail's id again, not knowing what became of it, gets the one answer to both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import BridgeError, InternalError, RequestCancelled
from bridge.protocol.jsonrpc import Id, Payload
from bridge.protocol.uplink import MailDone

if TYPE_CHECKING:
    from bridge.dashboard import Dashboard

LOOK_SECONDS = 1.0  # how often a client is looked at that has not had its turn's end yet

Make: TypeAlias = Callable[[Any], Payload]  # the answer from what the agent gave


class _Expected(msgspec.Struct, frozen=True):
    request: Id
    session_id: str
    make: Make | None  # None: a prompt, answered behind its turn's end


class _Turn(msgspec.Struct, rename="camel"):
    state: str
    mail_id: str | None = None
    stop_reason: str | None = None
    error: dict[str, Any] | None = None


class _TurnEntry(msgspec.Struct):
    params: _Turn


_decode_turn = msgspec.json.Decoder(_TurnEntry).decode


class Waiting:
    """What one client waits for, by the id of the mail that asks an agent for it."""

    __slots__ = ("_client", "_expected", "_hidden")

    def __init__(self, client: Dashboard) -> None:
        """Begin with nothing to wait for."""
        self._client = client
        self._expected: dict[str, list[_Expected]] = {}
        # Own prompts, whose words their sender has already; an empty set takes 200 bytes.
        self._hidden: dict[str, None] = {}

    def __contains__(self, mail_id: object) -> bool:
        """Whether a request waits for this mail."""
        return mail_id in self._expected

    def expect(self, mail_id: str, request: Id, session_id: str, make: Make) -> None:
        """Answer a request with what the agent gives."""
        self._expect(mail_id, _Expected(request, session_id, make))

    def expect_turn(self, mail_id: str, request: Id, session_id: str, *, echo: bool) -> None:
        """Answer a request behind its turn's end; ``echo``: show the prompt to its sender too."""
        self._expect(mail_id, _Expected(request, session_id, None))
        if not echo:
            self._hidden[mail_id] = None

    def hides(self, mail_id: str | None) -> bool:
        """Whether a person's words are the client's own, which it shows already."""
        return mail_id in self._hidden

    def forget(self, mail_id: str, request: Id) -> None:
        """Let a request wait no longer: its mail was not taken."""
        left = [one for one in self._expected.get(mail_id, ()) if one.request != request]
        if left:
            self._expected[mail_id] = left
        else:
            self._take(mail_id)

    def cancel(self, request: Any) -> str | None:
        """Give the session whose turn a request waits for; any other kind is just given up."""
        for mail_id, requests in self._expected.items():
            for expected in requests:
                if expected.request == request:
                    if expected.make is None:
                        return expected.session_id
                    self.give_up(mail_id, RequestCancelled("cancelled by the client"))
                    return None
        return None

    def give_up(self, mail_id: str, error: BridgeError) -> None:
        """Refuse what still waits for a mail."""
        for expected in self._take(mail_id):
            self._client.refuse(expected.request, error)

    # What the agent gave.

    async def look(self, mail_id: str) -> None:
        """Answer what waits for a mail that is done; raises StoreUnavailable."""
        relay, tenant = self._client.relay, self._client.identity.tenant
        done = await relay.mailbox.outcome(tenant, mail_id)
        expected = self._expected.get(mail_id)
        if done is None or not expected:
            return
        if expected[0].make is None and (done.error is None or done.after):
            # Its turn's end tells it, behind all of its text, unless that passed before.
            session_id = expected[0].session_id
            end = (
                Cursor.parse(done.after) if done.after else await relay.log.last(tenant, session_id)
            )
            self._settle_behind(mail_id, done, session_id, end)
        else:
            self.settle(mail_id, done)

    def _settle_behind(self, mail_id: str, done: MailDone, session_id: str, end: Cursor) -> None:
        """Answer a prompt once the client was sent everything up to its turn's end.

        A client that came later than the end, or was told of a gap, never sees the end itself.
        """
        subscriber = self._client.subscribers.get(session_id)
        if subscriber is None or subscriber.has_passed(end):
            self.settle(mail_id, done)
        elif mail_id in self._expected:
            later = asyncio.get_running_loop().call_later
            later(LOOK_SECONDS, self._settle_behind, mail_id, done, session_id, end)

    def settle(self, mail_id: str, done: MailDone) -> None:
        """Answer what still waits for a mail with its outcome."""
        for expected in self._take(mail_id):
            if done.error is not None:
                self._client.refuse(expected.request, done.error)
            else:
                make = expected.make or _stopped
                self._client.answer(expected.request, make(done.result))

    def end_turn(self, text: bytes) -> None:
        """Answer the prompt whose turn an entry ends."""
        turn = _decode_turn(text).params
        if turn.mail_id is None or turn.state not in {"ended", "unknown"}:
            return
        for expected in self._take(turn.mail_id):
            self._end(expected.request, turn)

    def _end(self, request: Id, turn: _Turn) -> None:
        if turn.error is not None:
            self._client.refuse(request, turn.error)
        elif turn.state == "unknown":
            cut = "the connector ended during this turn; what it did is not known"
            self._client.refuse(request, InternalError(cut))
        else:
            self._client.answer(request, {"stopReason": turn.stop_reason or "end_turn"})

    def _expect(self, mail_id: str, expected: _Expected) -> None:
        self._expected.setdefault(mail_id, []).append(expected)

    def _take(self, mail_id: str) -> list[_Expected]:
        self._hidden.pop(mail_id, None)
        return self._expected.pop(mail_id, [])


def _stopped(result: Any) -> Payload:
    return result if isinstance(result, dict) else {"stopReason": "end_turn"}
