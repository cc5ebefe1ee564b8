"""Answers that race each other, the end of their question, and lines that break."""

import asyncio
import json
import random
import time
from contextlib import AsyncExitStack

from fakes.cable import Cable, Tap
from fakes.peers import OPTIONS, ClientPeer, UplinkPeer
from fakes.running import Running, asks
from faults.clock import NEEDS, can_be_wrong, environment
from faults.ground import until
from faults.house import metrics
from faults.person import Follower, until_there
from faults.place import Place, decide
from faults.play import answers_of

from agent_side import uplink
from bridge.protocol import entry, round_trip

SESSION = "s1"
AROUND_MS = 5  # before and after a question's end


def hash_of(id_: str) -> str:
    return round_trip.hash_of(json.dumps({"v": 1, "command": f"make {id_}"}))


def decisions(connector: UplinkPeer) -> dict[str, dict]:
    """The decisions that reached the connector, each question's once."""
    mails = [m["params"]["message"] for m in connector.got if m.get("method") == "uplink/mail"]
    found = {m["params"]["id"]: m["params"]["answer"] for m in mails}
    assert len(found) == len(mails), "a question was decided twice"
    return found


async def everybody(stack: AsyncExitStack, at, count: int) -> list[ClientPeer]:
    """People at all relays in turn."""
    people = []
    for n in range(count):
        place = Place(at, n % len(at.relays))
        person = await stack.enter_async_context(ClientPeer(place, subject=f"p{n}"))
        await person.initialize(decide=True)
        people.append(person)
    return people


async def test_of_many_answers_at_once_exactly_one_wins(house, row, length):
    """R18."""
    people, questions = length(8, 50), length(15, 200)
    ids = [f"rt-{n}" for n in range(questions)]
    async with house(relays=2) as at, AsyncExitStack() as stack:
        connector = await stack.enter_async_context(UplinkPeer(Place(at)))
        await connector.hello(SESSION)
        all_of_them = await everybody(stack, at, people)
        await connector.store(*(connector.question(n + 1, i) for n, i in enumerate(ids)))
        winners = {}
        for id_ in ids:
            told = await asyncio.gather(
                *(decide(p, id_, hash_of(id_), n) for n, p in enumerate(all_of_them))
            )
            won = [n for n, answer in enumerate(told) if answer["state"] == "recorded"]
            assert len(won) == 1
            assert {a["by"]["subject"] for a in told} == {f"p{won[0]}"}
            winners[id_] = {"optionId": OPTIONS[won[0] % 2]}
        await connector.until(lambda _: len(decisions(connector)) == questions)
        applied = decisions(connector)
        await stack.aclose()
        row(
            *("R18", f"{people} dashboards answer each of {questions} questions at once"),
            recorded=len(winners),
            applied=len(applied),
            **await at.left(),
        )
        assert applied == winners


class Race:
    """Questions that end soon, each answered within a few milliseconds of its end."""

    def __init__(self, at, connector: UplinkPeer, people: list[ClientPeer]) -> None:
        self.early = self.late = 0
        self.recorded: set[str] = set()
        self.both: list[dict] = []
        self.neither: list[dict] = []
        self._at, self._connector, self._people = at, connector, people
        self._ends: dict[str, int] = {}
        self._chance = random.Random(20)

    async def run(self, count: int) -> None:
        """Ask, answer, and end what was not answered in time."""
        first_end, ids = int(self._now_ms()) + 3_000, [f"rt-{n}" for n in range(count)]
        self._ends = {id_: first_end + 20 * n for n, id_ in enumerate(ids)}
        ask = self._connector.question
        ends = [entry.timestamp(self._ends[i]) for i in ids]
        await self._connector.store(*(ask(n + 1, i, expires_at=ends[n]) for n, i in enumerate(ids)))
        offset = self._now_ms() / 1000 - asyncio.get_running_loop().time()
        await asyncio.gather(*(self._answer(n % 2, i, offset) for n, i in enumerate(ids)))
        await self._connector.until(lambda _: decisions(self._connector).keys() >= self.recorded)
        await self._end_the_others(count + 1)
        found = await self._people[0].call("_bridge/round_trips", state="all")
        for record in found["roundTrips"]:
            is_decided, is_over = "decision" in record, record.get("reason") == "expired"
            if is_decided == is_over:
                (self.both if is_decided else self.neither).append(record)

    @property
    def over(self) -> list[str]:
        """The questions that nobody answered in time."""
        return [i for i in self._ends if i not in decisions(self._connector)]

    def _now_ms(self) -> float:
        seconds, micros = self._at.redis.call("TIME")
        return int(seconds) * 1000 + int(micros) / 1000

    async def _answer(self, who: int, id_: str, offset: float) -> None:
        moment = self._ends[id_] + self._chance.uniform(-AROUND_MS, AROUND_MS)
        await asyncio.sleep(moment / 1000 - offset - asyncio.get_running_loop().time())
        told = await decide(self._people[who], id_, hash_of(id_), who)
        if told["state"] == "recorded":
            self.recorded.add(id_)
            self.late += entry.milliseconds(told["at"]) >= self._ends[id_]
        elif told["reason"] == "expired":
            self.early += self._now_ms() < self._ends[id_]

    async def _end_the_others(self, seq: int) -> None:
        end = {"result": "void", "reason": "expired"}
        texts = [self._connector.resolved(seq + n, i, **end) for n, i in enumerate(self.over)]
        if texts:
            await self._connector.store(*texts)


async def race(at, ahead: tuple[int, int], questions: int) -> Race:
    """Run one with a person at each of two relays, whose clocks are so far ahead."""
    async with AsyncExitStack() as stack:
        places = [Place(at, n, seconds) for n, seconds in enumerate(ahead)]
        connector = await stack.enter_async_context(UplinkPeer(places[0]))
        await connector.hello(SESSION)
        people = [await stack.enter_async_context(ClientPeer(place)) for place in places]
        for person in people:
            await person.initialize(decide=True)
        found = Race(at, connector, people)
        await found.run(questions)
        assert decisions(connector).keys() == found.recorded
        return found


def figures(found: Race) -> dict:
    return {
        "recorded": len(found.recorded),
        "expired": len(found.over),
        "early": found.early,
        "late": found.late,
        "both": len(found.both),
    }


def is_fair(found: Race) -> bool:
    return (found.early, found.late, found.both, found.neither) == (0, 0, [], [])


async def test_an_answer_at_the_end_of_its_question_is_in_time_or_late_never_both(
    house, row, length
):
    """R20."""
    questions = length(60, 500)
    async with house(relays=2) as at:
        found = await race(at, (0, 0), questions)
        row(
            *("R20", f"{questions} answers within {AROUND_MS} ms of their question's end"),
            **figures(found),
            **await at.left(),
        )
        assert is_fair(found)


async def test_a_question_ends_by_the_clock_of_the_store_whatever_the_relays_think(
    house, row, length
):
    """R21."""
    if not can_be_wrong():
        row("R21", "one relay an hour ahead, one behind", cannot_run=NEEDS)
        return
    questions, ahead = length(60, 500), (3_600, -3_600)
    async with house(relays=2) as at:
        for site, seconds in zip(at.relays, ahead, strict=True):
            await site.relay.end()
            site.env |= environment(seconds)
            await site.start_relay()
        began = [(await metrics(site))["bridge_start_time_seconds"] for site in at.relays]
        off = [round((moment - time.time()) / 3_600) for moment in began]
        found = await race(at, ahead, questions)
        row(
            *("R21", f"one relay an hour ahead, one behind; {questions} answers at their end"),
            **figures(found),
            hours_off=off,
        )
        assert off == [1, -1]
        assert is_fair(found)


class Cutter(Tap):
    """Loses a connection when some words pass towards a client, before or behind them."""

    def __init__(self, cuts: "Cuts") -> None:
        self._cuts = cuts

    def down(self, data: bytes) -> bool:
        cuts = self._cuts
        if not cuts.words or cuts.words not in data:
            return True
        cuts.words = b""
        if cuts.behind:
            asyncio.get_running_loop().call_soon(cuts.cable.hold)
            asyncio.get_running_loop().call_later(0.05, cuts.cable.drop)
            asyncio.get_running_loop().call_later(0.06, cuts.cable.mend)
        return cuts.behind


class Cuts:
    """Where a cable is cut next."""

    def __init__(self, url: str) -> None:
        self.words, self.behind = b"", False
        self.cable = Cable(url, tap=lambda: Cutter(self))

    def at(self, words: bytes, *, behind: bool = False) -> None:
        self.words, self.behind = words, behind


async def test_an_answer_whose_way_is_cut_anywhere_is_applied_once(
    house, row, length, tmp_path, monkeypatch
):
    """R22."""
    monkeypatch.setattr(uplink, "LONGEST_DELAY_SECONDS", 0.05)
    rounds = length(5, 50)
    async with house(relays=1) as at, AsyncExitStack() as stack:
        url = at.relays[0].url.replace("http", "ws", 1)
        up, down = Cuts(url), Cuts(url)
        await stack.enter_async_context(up.cable)
        await stack.enter_async_context(down.cable)
        points = {
            "the answer on its way": down.cable.hold,
            "the reply to the answer": lambda: down.at(b'"recorded"'),
            "Redis's reply": lambda: at.commands.lose_reply_to("decide"),
            "the mail to the connector": lambda: up.at(b"_bridge/decide"),
            "what the connector says to the mail": lambda: up.at(b"_bridge/decide", behind=True),
            "the acknowledgement of the end": lambda: up.at(b"uplink/ack"),
        }
        total = rounds * len(points)
        turns = {f"p{n:03}": [asks({"toolCallId": f"call-{n}"})] for n in range(total)}
        token = Place(at).token(kind="agent", subject="box")
        running = await stack.enter_async_context(
            Running(tmp_path / "c", relay=up.cable, target={"token": token}, turns_by_text=turns)
        )
        session = await running.session()
        await until(lambda: running.connector.status()["state"] == "attached")
        await until(lambda: running.connector._outbox.idle)
        alice = Follower(down.cable.url + "/acp", Place(at).token(), session, subject="alice")
        await until_there(alice)
        for n in range(total):
            point = list(points)[n % len(points)]
            ended = running.prompt(session, f"p{n:03}")
            (record,) = await until_asked(alice)
            if point == "the acknowledgement of the end":
                await until(lambda: running.connector._outbox.idle)
            points[point]()
            answering = asyncio.create_task(alice.answer_question(record, "yes", f"d-{n}"))
            if point == "the answer on its way":
                await asyncio.sleep(0.02)
                down.cable.drop()
                down.cable.mend()
            await answering
            await until_there(alice)
            while alice.unsure:
                await alice.say_again()
            assert (await asyncio.wait_for(ended, 30)).stop_reason == "end_turn"
        await until(lambda: running.connector._outbox.idle)
        given = [answer for _, answer in answers_of(running.agent.record)]
        records = await alice.round_trips("all", session)
        applied = [r for r in records if r["result"] == "applied"]
        await alice.part()
        await stack.aclose()
        row(
            *("R22", f"the answer's way cut at {len(points)} points, {rounds} times each"),
            recorded=len(alice.recorded),
            applied=len(given),
            **await at.left(),
        )
        assert given == ["yes"] * total
        assert len(alice.recorded) == total
        assert len(applied) == len(records)


async def until_asked(alice: Follower):
    async with asyncio.timeout(30):
        while not (found := await alice.open_questions()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found
