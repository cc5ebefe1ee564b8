"""An answer stands as wide as its agent offered, and a denial leaves nothing behind (A36, A37)."""

import pytest
from fakes.relay import FakeRelay
from fakes.running import Running, asks


def state_of(running):
    """Give what the machine keeps besides the sessions' own journals."""
    folder = running.state
    kept = (p for p in folder.rglob("*") if p.is_file() and p.suffix not in {".jsonl", ".lock"})
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


@pytest.mark.attack("A36", "an answer that stands, from afar: what the agent gets, what is kept")
@pytest.mark.attack("A37", "a denial from afar: what is kept of it")
@pytest.mark.parametrize("option", ["always", "yes", "no"])
async def test_an_answer_is_the_agents_own_option_and_no_rule_of_ours(tmp_path, option):
    """A36, A37: the agent that asks again is asked again; the machine keeps no rule."""
    same = {"rawInput": {"command": "make"}}
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, turns=[[asks(same, 1), asks(same, 2)]]) as running,
    ):
        await relay.attached()
        session = await running.session()
        turn = running.prompt(session)
        [first] = await relay.until(relay.questions)
        before = state_of(running)
        relay.decide(first, {"optionId": option}, "d-1")
        await relay.outcome("d-1")
        [second] = await relay.until(
            lambda: [one for one in relay.questions() if one["id"] != first["id"]]
        )
        assert state_of(running) == before
        relay.decide(second, {"optionId": "no"}, "d-2")
        await turn
        answers = {id_: a["outcome"]["optionId"] for id_, a in running.agent.answers().items()}
        assert answers == {1: option, 2: "no"}
