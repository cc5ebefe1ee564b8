"""Anything may happen in any order: each answer counts once, nothing is lost, all see the same."""

import asyncio
import itertools
import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from fakes.redises import redises
from faults.ground import Ground, until
from faults.play import OPTIONS, PEOPLE, Play
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from agent_side import uplink

SHORT_SEED = 5  # of the ordinary run, the same every time
PERSON = st.integers(0, len(PEOPLE) - 1)
OPTION = st.sampled_from(OPTIONS)
RELAY = st.integers(0, 1)
PAUSE = st.sampled_from([0.0, 0.005, 0.05, 0.3])


@pytest.fixture(scope="module")
def stand():
    """Two relays over one Redis, and the loop in which connectors and people live."""
    with (
        tempfile.TemporaryDirectory(prefix="cb-any-") as folder,
        redises() as made,
        asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner,
    ):
        ground = runner.run(Ground(Path(folder), made).__aenter__())
        yield runner, ground, Path(folder)
        runner.run(ground.__aexit__())


@pytest.mark.timeout(900)
def test_whatever_happens_each_question_has_one_result_and_all_see_one_log(
    stand, length, monkeypatch, record_property
):
    """A failure prints its steps; FAULTS_SEED takes a run's seed, FAULTS_RUNS how many runs."""
    monkeypatch.setattr(uplink, "LONGEST_DELAY_SECONDS", 0.3)
    runner, ground, folder = stand
    numbers, tally = itertools.count(1), Counter()
    chosen = int(os.environ.get("FAULTS_SEED", length(SHORT_SEED, random.randrange(1 << 32))))
    runs = int(os.environ.get("FAULTS_RUNS", length(3, 25)))

    @seed(chosen)
    class Anything(Machine):
        def __init__(self) -> None:
            super().__init__(runner, ground, folder / f"play-{next(numbers)}", tally)

    print(f"FAULTS_SEED={chosen}")
    run_state_machine_as_test(
        Anything,
        settings=settings(
            max_examples=runs,
            stateful_step_count=length(15, 30),
            deadline=None,
            database=None,
            print_blob=False,
            phases=[Phase.generate],  # to shrink a failure would take hours
            suppress_health_check=list(HealthCheck),
        ),
    )
    counted = "; ".join(f"{name} {number}" for name, number in tally.items())
    record_property("figure", f"anything, seed {chosen}: {counted}")


class Machine(RuleBasedStateMachine):
    """What may happen to one session."""

    def __init__(self, runner: asyncio.Runner, ground: Ground, folder: Path, tally) -> None:
        super().__init__()
        self.runner, self.ground, self.tally = runner, ground, tally
        self.play = Play(ground, folder)

    def run(self, work) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(120):
                await work

        self.runner.run(bounded())

    @initialize()
    def begin(self) -> None:
        self.run(self.play.begin())

    # The agent's people.

    @rule(who=PERSON)
    def prompt(self, who: int) -> None:
        self.run(self.play.prompt(who))

    @rule(who=PERSON)
    def send_the_prompt_again(self, who: int) -> None:
        self.run(self.play.prompt_again(who))

    @rule(who=PERSON, option=OPTION, newest=st.booleans())
    def answer(self, who: int, option: str, newest: bool) -> None:
        self.run(self.play.answer(who, option, newest))

    @rule(option=OPTION)
    def all_answer_at_once(self, option: str) -> None:
        self.run(self.play.answer_at_once(option))

    @rule(option=OPTION)
    def answer_at_the_editor(self, option: str) -> None:
        self.run(self.play.answer_here(option))

    @rule(who=PERSON)
    def cancel(self, who: int) -> None:
        self.run(self.play.people[who].stop_turn())

    @rule(who=PERSON)
    def come_back(self, who: int) -> None:
        self.run(self.play.people[who].attend())

    @rule(who=PERSON)
    def lose_the_connection(self, who: int) -> None:
        self.run(self.play.people[who].part())

    # Faults.

    @rule()
    def cut_the_uplink(self) -> None:
        self.play.life.cable.cut()

    @rule()
    def mend_the_uplink(self) -> None:
        self.play.life.cable.mend()

    @rule(which=RELAY)
    def kill_a_relay(self, which: int) -> None:
        self.run(self.ground.kill_relay(which))

    @rule(which=RELAY)
    def end_a_relay_and_start_it(self, which: int) -> None:
        async def both() -> None:
            await self.ground.start_relay(which)
            await self.ground.end_relay(which)
            await self.ground.start_relay(which)

        self.run(both())

    @rule(which=RELAY)
    def start_a_relay(self, which: int) -> None:
        self.run(self.ground.start_relay(which))

    @rule(pause=PAUSE)
    def kill_redis_and_start_it(self, pause: float) -> None:
        async def restart() -> None:
            held = self.ground.log(self.play.session) if self.ground.is_ready() else []
            self.ground.kill_redis()
            await asyncio.sleep(pause)
            self.ground.start_redis()
            await until(self.ground.is_ready)
            assert self.ground.log(self.play.session)[: len(held)] == held

        self.run(restart())

    @rule(relay=RELAY)
    def a_newer_connector_takes_over(self, relay: int) -> None:
        self.run(self.play.take_over(relay))

    @rule()
    def restart_the_connector(self) -> None:
        self.run(self.play.restart())

    @rule(pause=PAUSE)
    def wait(self, pause: float) -> None:
        self.run(asyncio.sleep(pause))

    # What holds.

    @rule()
    def everything_settles(self) -> None:
        self.run(self.settled())

    @invariant()
    def what_is_said_of_the_agent_is_fresh(self) -> None:
        if self.play.people:
            self.run(self.play.check_status())

    async def settled(self) -> None:
        await self.play.settle()
        await self.play.check()

    def teardown(self) -> None:
        if not self.play.people:
            return
        try:
            self.run(self.settled())
            self.count()
        finally:
            self.run(self.play.end())

    def count(self) -> None:
        asked, ended = self.play._questions()
        results = [f"{e['result']}/{e['reason']}" for e in ended.values()]
        for name, number in (
            ("runs", 1),
            ("entries", len(self.play.journal())),
            ("lives", len(self.play.lives)),
            ("asked", len(asked)),
            *((result, results.count(result)) for result in sorted(set(results))),
        ):
            self.tally[name] += number
