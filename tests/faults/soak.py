"""Sessions that stream, ask and are answered for an hour; says what grows.

    ./dev soak [--minutes 60] [--sessions 50]

It is no test: what it prints is to be read. The relay's memory is measured each second after a
warm-up, and the line through the points is its slope.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
from fakes import editor
from fakes.dashboard import FakeDashboard
from fakes.editor import CallFailed
from fakes.redises import redises
from fakes.running import asks
from faults.house import House, metrics, opening

WARM_SHARE = 0.2  # of the time, before anything is measured
CHUNKS = 40
WAIT_SECONDS = 300  # for a message; the machine may be busy with other things
PAUSE_SECONDS = 2.0  # between a session's turns
FIGURES = ("bridge_tasks", "bridge_open_files")


class Soak:
    """Some sessions and a person for each, who comes and goes."""

    def __init__(self, house: House, sessions: int, seconds: float) -> None:
        self.house, self.sessions = house, sessions
        self.end = time.monotonic() + seconds
        self.turns = self.entries = self.visits = 0
        self.refused: Counter[str] = Counter()
        self.points: list[tuple[float, float]] = []  # minutes, MB

    async def run(self) -> None:
        talk = {"chunks": CHUNKS, "every": 0.02}
        ask = {"ask": asks()["ask"]}  # under an id of its own: sessions ask at the same time
        steps = [talk, ask, talk]
        script = {"turns_by_text": {"go": steps}, "record": None}
        editor.WAIT_SECONDS, editor.CHECKED = WAIT_SECONDS, 0
        await self.house.connect(**script)
        async with AsyncExitStack() as stack:
            people = [
                await stack.enter_async_context(await self.house.relays[0].dashboard(f"p{n}"))
                for n in range(self.sessions)
            ]
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._measure())
                for person in people:
                    tasks.create_task(self._visit(person))

    async def _visit(self, person: FakeDashboard) -> None:
        session = await person.open("stamped", self.house.relays[0].work)
        while time.monotonic() < self.end:
            try:
                await self._turn(person, session)
            except (CallFailed, EOFError) as refused:  # the machine may be busy with other things
                self.refused[str(refused)[-60:]] += 1
                session = await self._begin_anew(person)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _begin_anew(self, person: FakeDashboard) -> str:
        """Come again, to another session: in the old one a turn may go on that nobody answers."""
        await person.drop()
        person.got.clear()
        await person.come()
        return await person.open("stamped", self.house.relays[0].work)

    async def _turn(self, person: FakeDashboard, session: str) -> None:
        turn = asyncio.create_task(person.answer(person.prompt(session, "go", echo=True)))
        asked = asyncio.create_task(person.question())
        await asyncio.wait((turn, asked), return_when=asyncio.FIRST_COMPLETED)
        if turn.done():  # refused before it asked
            asked.cancel()
        else:
            person.choose(asked.result(), "yes")
        await turn
        self.turns += 1
        self.entries += person.count(session)
        person.logs[session] = person.logs[session][-1:]
        if self.turns % 3 == 0:
            await person.drop()
            await person.come_back(session)
            self.visits += 1
        person.got.clear()

    async def _measure(self) -> None:
        process = psutil.Process(self.house.relays[0].relay.process.pid)
        began, length = time.monotonic(), self.end - time.monotonic()
        while (now := time.monotonic()) < self.end:
            if now - began > length * WARM_SHARE:
                self.points.append(((now - began) / 60, process.memory_info().rss / 2**20))
            await asyncio.sleep(1)

    @property
    def slope(self) -> float:
        """MB a minute."""
        minutes, sizes = zip(*self.points, strict=True)
        return statistics.linear_regression(minutes, sizes).slope


async def soak(minutes: float, sessions: int) -> int:
    """Run it and print its figures; gives 1 when something grew."""
    with tempfile.TemporaryDirectory(prefix="cb-soak-") as folder, redises() as made:
        async with opening(Path(folder), made.server(), 1) as house:
            before = await metrics(house.relays[0])
            work = Soak(house, sessions, minutes * 60)
            await work.run()
            await asyncio.sleep(10)
            left = await house.left()
            after = await metrics(house.relays[0])
            print(f"minutes {minutes:g}, sessions {sessions}, turns {work.turns}")
            print(
                f"entries seen {work.entries}, visits {work.visits}, refused {dict(work.refused)}"
            )
            print(f"RSS {work.points[0][1]:.1f} -> {work.points[-1][1]:.1f} MB", end=", ")
            print(f"slope {work.slope:+.2f} MB a minute")
            for name in FIGURES:
                print(f"{name} {before[name]:g} -> {after[name]:g}")
    return 1 if work.slope >= 1 or left["tasks"] or left["fds"] else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--sessions", type=int, default=50)
    wanted = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        return asyncio.run(soak(wanted.minutes, wanted.sessions))
    return 130


if __name__ == "__main__":
    raise SystemExit(main())
