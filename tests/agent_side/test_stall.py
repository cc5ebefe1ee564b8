"""An agent that gets nowhere is said to be stalled, and can be ended."""

import pytest
from fakes.running import ANNA, Running, asks

from agent_side import stall
from bridge.protocol.entry import TURN

DEAF = [{"ignore_cancel": True}, {"chunks": 1}, {"delay_until_file": "/nowhere"}]
AGAIN = [{"chunks": 1, "text": "alive"}]


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """The bounds are minutes; here they are moments."""
    monkeypatch.setattr(stall, "UNHEEDED_SECONDS", 0.1)


def state(running, session):
    card = running.connector.sessions[session].card("a", 0)
    return card.state, card.state_reason


async def test_an_agent_that_ignores_a_cancel_stalls_its_session(tmp_path):
    """A12, G09."""
    async with Running(tmp_path, turns=[DEAF]) as running:
        session = await running.session()
        running.prompt(session)
        await running.until(lambda: running.texts(session))
        running.connector.cancel(session, ANNA)
        assert state(running, session) == ("running", "")
        await running.until(lambda: state(running, session)[0] == "stalled")
        assert state(running, session) == ("stalled", "cancel_unacknowledged")


async def test_a_cancel_in_a_stalled_session_ends_the_agent_and_the_turn_as_unknown(tmp_path):
    """G09; the next prompt starts the agent again."""
    turns = {"deaf": DEAF, "again": AGAIN}
    async with Running(tmp_path, turns_by_text=turns, load=[]) as running:
        session = await running.session()
        ended = running.prompt(session, "deaf")
        await running.until(lambda: running.texts(session))
        running.connector.cancel(session, ANNA)
        await running.until(lambda: state(running, session)[0] == "stalled")
        running.connector.cancel(session, ANNA)
        assert (await ended).error["data"]["reason"] == "unknown_outcome"
        assert running.entries(session, TURN)[-1]["params"]["state"] == "unknown"
        assert state(running, session) == ("idle", "")
        assert (await running.prompt(session, "again")).stop_reason == "end_turn"
        assert running.texts(session)[-1] == "alive"


async def test_cancels_before_the_session_is_stalled_end_no_agent(tmp_path, monkeypatch):
    """G09: two taps are one wish."""
    monkeypatch.setattr(stall, "UNHEEDED_SECONDS", 60)
    gate = tmp_path / "gate"
    steps = [{"ignore_cancel": True}, {"chunks": 1}, {"delay_until_file": str(gate)}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        ended = running.prompt(session)
        await running.until(lambda: running.texts(session))
        for _ in range(3):
            running.connector.cancel(session, ANNA)
        await running.until(lambda: len(running.agent.received("session/cancel")) == 3)
        gate.touch()
        assert (await ended).stop_reason == "end_turn"


async def test_an_agent_that_heeds_a_cancel_in_time_is_never_stalled(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 1}, {"until_cancel": True}]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        await running.until(lambda: running.texts(session))
        running.connector.cancel(session, ANNA)
        assert (await ended).stop_reason == "cancelled"
        assert state(running, session) == ("idle", "")


async def test_an_agent_that_is_silent_for_long_stalls_until_it_speaks_again(tmp_path, monkeypatch):
    """A12."""
    monkeypatch.setattr(stall, "SILENT_SECONDS", 0.1)
    gate = tmp_path / "gate"
    steps = [{"delay_until_file": str(gate)}, {"chunks": 1}, {"until_cancel": True}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        running.prompt(session)
        await running.until(lambda: state(running, session) == ("stalled", "silent"))
        monkeypatch.setattr(stall, "SILENT_SECONDS", 60)
        gate.touch()
        await running.until(lambda: running.texts(session))
        assert state(running, session) == ("running", "")


async def test_an_agent_that_waits_for_an_answer_is_not_stalled(tmp_path, monkeypatch):
    """A21."""
    monkeypatch.setattr(stall, "SILENT_SECONDS", 0.02)
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        [question] = await running.asked()
        watch = running.connector.sessions[session]
        await running.until(lambda: watch.silence() > 0.2)
        assert state(running, session) == ("waiting", "")
        running.connector.answer(question, {"optionId": "yes"}, ANNA)
        assert (await ended).stop_reason == "end_turn"
