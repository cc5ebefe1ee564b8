"""Somebody who watches a session over connections that break, and answers what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from fakes.dashboard import FakeDashboard, meta_of
from fakes.editor import CallFailed
from websockets.exceptions import InvalidHandshake, InvalidMessage

AWAY = {"store_unavailable", "agent_unavailable", "overloaded"}
UNSURE = {
    "unknown_outcome",
    "internal",
    "agent_unavailable",
}  # a turn that was cut off with its agent
LOST = (OSError, EOFError, TimeoutError, InvalidHandshake, InvalidMessage)


class Follower(FakeDashboard):
    """A dashboard that keeps the cursor and comes back behind it."""

    def __init__(self, url: str, token: str, session: str, *, subject: str) -> None:
        super().__init__(url, token, subject=subject, decide=True)
        self.watched = session
        self._tasks = []
        self.there = False
        self.recorded: dict[str, str] = {}  # round-trip → option, told as recorded
        self.unsure: list[tuple[str, str, str, str]] = []  # answers without an answer

    async def attend(self) -> bool:
        """Be connected and follow the session, if the relay can be reached."""
        if self.there and not self._ended:
            return True
        self.there = False
        try:
            await self.come()
            if self.logs.get(self.watched):
                await self.resume(self.watched)
            else:
                await self.load(self.watched)
        except (*LOST, CallFailed):
            await self.part()
            return False
        self.there = True
        return True

    async def part(self) -> None:
        """Lose the connection without a word."""
        if self._socket is not None and self._tasks:
            await self.drop()
        self.there = False

    async def say(self, text: str, mail_id: str) -> None:
        """Send a prompt and wait for nothing."""
        if await self.attend():
            self.prompt(self.watched, text, mailId=mail_id, echo=True)

    async def ends_of(self, prompts: list[tuple[str, str]]) -> None:
        """Send prompts again as they were sent, and wait for the end of each."""
        turns = [
            self.prompt(self.watched, text, mailId=mail_id, echo=True) for text, mail_id in prompts
        ]
        for turn in turns:
            try:
                assert (await self.answer(turn))["stopReason"] in {"end_turn", "cancelled"}
            except CallFailed as failed:
                if failed.error["data"]["reason"] not in UNSURE:
                    raise

    async def stop_turn(self) -> None:
        if await self.attend():
            self.notify("session/cancel", sessionId=self.watched)

    async def open_questions(self) -> list[dict[str, Any]]:
        """The questions that wait, as the relay lists them; none when it cannot be asked."""
        if not await self.attend():
            return []
        return await self.try_(self.round_trips(session=self.watched)) or []

    async def answer_question(self, record: dict[str, Any], option: str, decision: str) -> None:
        """Answer; what is not known to have arrived is said again later with the same id."""
        await self._decide(record["id"], record["hash"], option, decision)

    async def say_again(self) -> None:
        """Repeat the answers whose fate is not known."""
        unsure, self.unsure = self.unsure, []
        for id_, hash_, option, decision in unsure:
            await self._decide(id_, hash_, option, decision)

    async def _decide(self, id_: str, hash_: str, option: str, decision: str) -> None:
        told = await self.attend() and await self.try_(
            self.call(
                "_bridge/decide",
                id=id_,
                hash=hash_,
                answer={"optionId": option},
                decisionId=decision,
            )
        )
        if not told:
            self.unsure.append((id_, hash_, option, decision))
        elif told["state"] == "recorded":
            assert self.recorded.setdefault(id_, option) == option
        else:
            assert told["state"] in {"late", "closed"}, told

    async def try_(self, call: Awaitable[Any]) -> Any:
        """Give what a call gives, None when the connection or the store is away."""
        try:
            return await call
        except LOST:
            await self.part()
        except CallFailed as failed:
            if failed.error["data"]["reason"] not in AWAY:
                raise
        return None

    @property
    def cursors(self) -> list[tuple[int, int]]:
        """The entries seen, as they came."""
        stamps = [meta_of(m) for m in self.logs.get(self.watched, [])]
        return [(stamp["epoch"], stamp["seq"]) for stamp in stamps]

    @property
    def gaps(self) -> list[dict[str, Any]]:
        return [m for m in self.got if m["method"] == "_bridge/gap" and "seq" not in meta_of(m)]

    async def has_seen(self, cursor: tuple[int, int]) -> None:
        async with asyncio.timeout(40), self._changed:
            await self._changed.wait_for(lambda: cursor in self.cursors or self._ended)
        assert cursor in self.cursors, (self.closed_with, self.cursors[-3:], cursor)


async def until_there(person: Follower) -> None:
    async with asyncio.timeout(60):
        while not await person.attend():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
