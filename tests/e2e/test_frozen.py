"""Connectors that freeze or die: said in time, and nothing sent to them is swallowed."""

import signal
import time

import psutil
import pytest
from e2e.asking import opened_question
from fakes.editor import CallFailed
from fakes.running import asks
from fakes.site import Program

SAID_WITHIN_SECONDS = 30  # that a connector does not answer
GONE_WITHIN_SECONDS = 10  # what a killed connector had started


def away(name):
    def matches(message):
        agent = message["params"].get("agent", {}) if "params" in message else {}
        return agent.get("name") == name and agent["attachment"]["state"] != "attached"

    return matches


@pytest.mark.timeout(180)
async def test_a_frozen_connector_is_said_to_be_away_and_gets_its_prompt_when_it_thaws(stage):
    """C04, C06: the process and its socket are there, nothing comes through them."""
    at = await stage(turns=[[{"chunks": 1, "text": "thawed"}]])
    alice, session = await at.opened()
    await alice.call("_bridge/watch")
    process = psutil.Process(at.connector.process.pid)
    process.suspend()
    try:
        began = time.monotonic()
        seen = len(alice.got)
        while time.monotonic() - began < SAID_WITHIN_SECONDS:
            status = await alice.call("_bridge/status", sessionId=session)
            if status["state"] != "attached":
                break
        took = time.monotonic() - began
        assert status["state"] in {"unresponsive", "disconnected"}
        assert (status["reason"], bool(status["since"])) == ("pong_missed", True)
        told = await alice.until(away(at.name), after=seen)
        assert told["params"]["agent"]["attachment"]["reason"] == "pong_missed"
        turn = alice.prompt(session, "go", mailId=f"m-{session}")
        await alice.call("_bridge/status", sessionId=session)
        assert at.agent.received("session/prompt") == []
    finally:
        process.resume()
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    assert len(at.agent.received("session/prompt")) == 1
    assert took < SAID_WITHIN_SECONDS


async def test_what_a_killed_connector_had_started_is_gone_soon(stage, tmp_path):
    """F01: the agent, and what the agent started in its group."""
    at = await stage(ignore_eof=True, ignore_term=True, turns=[[asks()]])
    alice, session = await at.opened(decide=True)
    await alice.call("_bridge/watch")
    alice.prompt(session, "go", echo=True)
    await opened_question(alice, session)
    children = psutil.Process(at.connector.process.pid).children(recursive=True)
    assert children
    at.connector.process.send_signal(signal.SIGKILL)
    _, left = psutil.wait_procs(children, timeout=GONE_WITHIN_SECONDS)
    assert left == []


async def test_a_second_connector_on_the_same_state_is_refused(stage):
    """F01: one agent a session."""
    at = await stage()
    site = at.site
    env = {**site.env, **await site.agent_env()}
    second = await Program.start(site.connect_command(at.name, at.agent), env)
    await second.said("in use by another connector")
    assert await second.process.wait() == 4
    await second.end()
    alice = await at.enter()
    assert (await alice.agent(at.name))["attachment"]["state"] == "attached"


async def test_a_prompt_to_an_agent_that_ended_is_refused_with_the_reason(stage):
    """C04, C17: refused, not swallowed."""
    at = await stage()
    alice, session = await at.opened()
    await at.connector.end()
    turn = alice.prompt(session, "go")
    with pytest.raises(CallFailed, match="said_goodbye") as refused:
        await alice.answer(turn)
    assert refused.value.error["data"]["reason"] == "agent_unavailable"
