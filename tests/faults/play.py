"""One connector with its agent and session on a ground that breaks, and what must hold of it.

The oracle compares four records that nobody edits: what the agent sent and received, the
connector's journal, the log in Redis, and what each watcher was shown and told.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from fakes.cable import Cable
from fakes.running import ANNA, Running, asks
from faults.ground import Ground, until
from faults.person import Follower, until_there

from bridge.protocol import entry
from bridge.protocol.cursor import Cursor

PEOPLE = ("alice", "bob", "carol")
OPTIONS = ("yes", "no", "always")
PROMPTS = 40  # a script's; a prompt's text names its steps
SHOWN_WITHIN_MS = 45_000  # what is said of an agent is never older without saying so


def steps(n: int) -> list[dict[str, Any]]:
    """What the agent does at the n-th prompt: it talks, asks twice at once, and talks on."""
    talk = {"chunks": 3, "text": f"{n}.{{i}} "}
    if n % 3 == 0:
        return [{**talk, "chunks": 30, "every": 0.002}]
    both = [asks({"toolCallId": f"call-{n}-{k}"}, k, wait=False) for k in range(2)]
    return [talk, *both, {"await": 0}, {"await": 1}, talk]


class Life:
    """One connector process: in this one, but for its agent."""

    def __init__(self, ground: Ground, folder: Path, state: Path | None, relay: int) -> None:
        self.cable = Cable(ground.relays[relay].url.replace("http", "ws", 1))
        self._ground, self._folder, self._state = ground, folder, state
        self.running: Running

    async def begin(self) -> None:
        await self.cable.__aenter__()
        turns = {f"p{n:02}": steps(n) for n in range(PROMPTS)}
        token = self._ground.machine_token()
        self.running = Running(
            self._folder,
            relay=self.cable,
            state=self._state,
            target={"token": token},
            turns_by_text=turns,
            load=[],
        )
        await self.running.__aenter__()

    async def end(self) -> int:
        """Stop, and give the exit code."""
        reason = await self.running.stop()
        await self.cable.__aexit__()
        return reason.code

    @property
    def attached(self) -> bool:
        return self.running.connector.status()["state"] == "attached"


class Play:
    """A session, the connector's lives, and the people who watch."""

    def __init__(self, ground: Ground, folder: Path) -> None:
        self.ground, self.folder = ground, folder
        self.lives: list[Life] = []
        self.people: list[Follower] = []
        self.session = ""
        self.sent: list[tuple[str, str]] = []  # prompts: text and mail id
        self.answered_here: dict[str, str] = {}  # round-trip → option, of the editor
        self._ids = count(1)

    async def begin(self) -> None:
        await self.ground.mend()
        await until(self.ground.is_ready)
        await self._live(None, 0)
        self.session = await self.life.running.session()
        await until(lambda: self.life.attached)
        await until(lambda: self.life.running.connector._outbox.idle)
        for n, subject in enumerate(PEOPLE):
            url = self.ground.relays[n % 2].acp
            token = self.ground.tokens[subject]
            self.people.append(Follower(url, token, self.session, subject=subject))
            await until_there(self.people[-1])
        for who in range(2):
            await self.prompt(who)

    @property
    def life(self) -> Life:
        return self.lives[-1]

    @property
    def connector(self) -> Any:
        return self.life.running.connector

    @property
    def is_busy(self) -> bool:
        return self.connector._host._turns[self.session].busy

    async def end(self) -> None:
        for person in self.people:
            await person.part()
        assert await self.life.end() == 0

    async def _live(self, state: Path | None, relay: int) -> None:
        number = len(self.lives)
        life = Life(self.ground, self.folder / f"life-{number}", state, relay)
        self.lives.append(life)
        await life.begin()

    # What happens.

    async def prompt(self, who: int) -> None:
        if len(self.sent) < PROMPTS:
            self.sent.append((f"p{len(self.sent):02}", f"m-{self.session}-{len(self.sent)}"))
            await self.people[who].say(*self.sent[-1])

    async def prompt_again(self, who: int) -> None:
        if self.sent:
            await self.people[who].say(*self.sent[-1])

    async def answer(self, who: int, option: str, newest: bool) -> None:
        found = await self.people[who].open_questions()
        if found:
            record = found[0 if newest else -1]
            await self.people[who].answer_question(record, option, f"d-{next(self._ids)}-{who}")
        elif not self.is_busy:
            await self.prompt(who)

    async def answer_at_once(self, option: str) -> None:
        """Have everybody answer the same question, each differently."""
        found = await self.people[0].open_questions()
        if found:
            first = OPTIONS.index(option)
            ways = [
                person.answer_question(
                    found[-1], OPTIONS[(first + n) % 3], f"d-{next(self._ids)}-{n}"
                )
                for n, person in enumerate(self.people)
            ]
            await asyncio.gather(*ways)

    async def answer_here(self, option: str) -> None:
        """Answer as somebody at the editor."""
        for id_ in list(self.connector.questions)[:1]:
            resolved = self.connector.answer(id_, {"optionId": option}, ANNA)
            assert resolved.reason == "local"
            self.answered_here[id_] = option

    async def take_over(self, relay: int) -> None:
        """Have a newer process go on from what is on disk; the older one is shut out."""
        old = self.life
        await self.ground.mend()
        old.cable.mend()
        await until(lambda: old.attached)  # one that never was may claim above the newer one
        old.cable.cut()
        await until(lambda: not old.attached)
        image = old.running.crash_image(self.folder / f"image-{len(self.lives)}")
        # From here on it is as good as dead, but for its uplink, and begins nothing more.
        old.running.connector._host._turns[self.session]._waiting.clear()
        await self._live(image, relay)
        await self.ground.mend()
        await until(lambda: self.life.attached)
        old.cable.mend()
        reason = await asyncio.wait_for(old.running.task, 60)
        assert reason.code == 4, reason
        await old.cable.__aexit__()

    async def restart(self) -> None:
        """End the connector in order and start it again."""
        old = self.life
        assert await old.end() == 0
        await self._live(old.running.state, len(self.lives) % 2)

    # What must hold.

    async def settle(self) -> None:
        """Mend everything, answer what waits, and wait until nothing is under way."""
        await self.ground.mend()
        self.life.cable.mend()
        await until(self.ground.is_ready)
        await until(lambda: self.life.attached)
        for person in self.people:
            await until_there(person)
            await person.say_again()
        ends = asyncio.create_task(self.people[0].ends_of(self.sent))
        await until(lambda: self._finish() and ends.done())
        await ends
        await until(lambda: self.connector._outbox.idle)
        await until(lambda: len(self.ground.log(self.session)) >= len(self.journal()))

    def _finish(self) -> bool:
        """Answer what the agent waits for; whether it waits for nothing and does nothing."""
        for id_ in list(self.connector.questions):
            self.connector.answer(id_, {"optionId": "no"}, ANNA)
            self.answered_here[id_] = "no"
        return not self.is_busy and not self.connector.questions

    async def check(self) -> None:
        """Compare all records."""
        self.check_log()
        for person in self.people:
            await self.check_watcher(person)
        await self.check_questions()
        self.check_agents()

    def journal(self) -> list[bytes]:
        return [text for _, text in self.connector.entries(self.session)]

    def check_log(self) -> None:
        """What is stored is what the connector wrote: nothing lost, doubled or out of order."""
        assert self.ground.log(self.session) == self.journal()

    async def check_watcher(self, person: Follower) -> None:
        """Each entry came once and in order; there was no gap to tell of."""
        shown = [entry.read(text) for text in self.journal()]
        wanted = [tuple_of(e.cursor) for e in shown if e.method not in entry.QUESTIONS]
        if wanted:
            await person.has_seen(wanted[-1])
        assert person.cursors == wanted, (person.subject, difference(person.cursors, wanted))
        assert person.gaps == []

    async def check_questions(self) -> None:
        """One result each; applied only what was recorded, and that is what the agent got."""
        asked, ended = self._questions()
        assert set(ended) == set(asked)
        answers = self._answers()
        records = {r["id"]: r for r in await self.people[0].round_trips("all", self.session)}
        for id_, call in asked.items():
            result, record = ended[id_], records[id_]
            assert (record["state"], record["result"]) == ("closed", result["result"])
            told = {p.recorded[id_] for p in self.people if id_ in p.recorded}
            assert len(told) <= 1
            if result["result"] == "applied":
                option = result["answer"]["optionId"]
                assert record["decision"]["answer"] == {"optionId": option}
                assert answers[call] == [option]
                assert told <= {option}
            elif result["reason"] == "local":
                assert answers[call] == [self.answered_here[id_]]
            else:
                assert answers.get(call, []) in ([], ["cancelled"]), (result, answers[call])

    def check_agents(self) -> None:
        """Each prompt reached an agent at most once, over all lives."""
        agents = [life.running.agent for life in self.lives]
        given = [p["prompt"][0]["text"] for a in agents for p in a.received("session/prompt")]
        assert len(given) == len(set(given))

    async def check_status(self) -> None:
        """What is said of the agent is fresh, or it is said that the agent is away."""
        person = self.people[0]
        if self.ground.redis_is_up and await person.attend():
            status = await person.try_(person.call("_bridge/status", sessionId=self.session))
            if status and status["state"] == "attached":
                seen = entry.milliseconds(status["lastSeen"])
                assert time.time() * 1000 - seen < SHOWN_WITHIN_MS

    def _questions(self) -> tuple[dict[str, str], dict[str, Any]]:
        """The log's questions by id with their calls, and their ends; each ends once."""
        asked, ended = {}, {}
        for message in map(json.loads, self.journal()):
            if message["method"] in entry.QUESTIONS:
                assert message["id"] not in asked
                asked[message["id"]] = message["params"]["toolCall"]["toolCallId"]
            elif message["method"] == entry.RESOLVED:
                assert message["params"]["id"] not in ended, "a question that ended twice"
                ended[message["params"]["id"]] = message["params"]
        return asked, ended

    def _answers(self) -> dict[str, list[str]]:
        """What agents were answered, by call; an answer nobody waited for fails."""
        found: dict[str, list[str]] = {}
        for life in self.lives:
            for call, answer in answers_of(life.running.agent.record):
                found.setdefault(call, []).append(answer)
        return found


def answers_of(record: Path) -> Iterator[tuple[str, str]]:
    """Read an agent's record: each answer belongs to a question that waits for one."""
    waiting: dict[Any, str] = {}
    for line in record.read_text().splitlines():
        note = json.loads(line)
        out, came = note.get("out", {}), note.get("in", {})
        if out.get("method") == entry.PERMISSION:
            waiting[out["id"]] = out["params"]["toolCall"]["toolCallId"]
        elif came.get("method") == "initialize":
            waiting.clear()  # another process of the agent
        elif came and "method" not in came:
            outcome = came.get("result", {}).get("outcome", {})
            assert came["id"] in waiting, (
                f"{came} answers nothing in {record}:\n{record.read_text()}"
            )
            yield waiting.pop(came["id"]), outcome.get("optionId", "cancelled")


def tuple_of(cursor: Cursor) -> tuple[int, int]:
    return cursor.epoch, cursor.seq


def difference(got: list[Any], wanted: list[Any]) -> str:
    """Say where two lists part."""
    at = next((n for n, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b), None)
    place = at if at is not None else min(len(got), len(wanted))
    return f"{len(got)} of {len(wanted)}; at {place}: {got[place : place + 3]} {wanted[place:][:3]}"
