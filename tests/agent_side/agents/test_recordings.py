"""What real agents sent passes through AgentProcess as it was, in its order."""

import json

import pytest
from agents import recordings
from fakes.agent import FakeAgent

from agent_side.agents.process import AgentError


def play(heard, name):
    """Answer and cancel as the recording's client did, after the prompt."""
    session = recordings.answer_to(name, "session/new")["result"]["sessionId"]
    heard.prompt("go", session)
    for way, message in recordings.lines(name)[recordings.prompt_at(name) + 1 :]:
        if way == "out" and message.get("method") == "session/cancel":
            heard.process.notify("session/cancel", message["params"])
        elif way == "out" and "result" in message:
            heard.process.respond(message["id"], message["result"])
        elif way == "out" and "error" in message:
            heard.process._send(json.dumps(message).encode())


@pytest.mark.parametrize("name", recordings.NAMES)
async def test_a_recorded_turn_passes_unchanged_and_its_end_is_in_its_place(listen, tmp_path, name):
    heard = listen(FakeAgent(tmp_path / "agent", **recordings.script(name)).command(tmp_path))
    await heard.process.start()
    play(heard, name)
    expected = recordings.said_in_turn(name)
    while len(heard.events) < len(expected) + 1:
        await heard.next()
    assert heard.messages() == expected
    end = recordings.answer_to(name, "session/prompt")
    outcome = await heard.until("done")
    if "error" in end:
        assert isinstance(outcome, AgentError)
        assert outcome.as_object() == end["error"]
    else:
        assert json.loads(bytes(outcome)) == end["result"]


@pytest.mark.parametrize(
    ("name", "late"),
    [("claude-allow", 1), ("codex-cancel", 1), ("gemini-allow", 0)],
)
async def test_what_comes_after_the_turns_end_is_told_after_it(listen, tmp_path, name, late):
    heard = listen(FakeAgent(tmp_path / "agent", **recordings.script(name)).command(tmp_path))
    await heard.process.start()
    play(heard, name)
    while len(heard.events) < len(recordings.said_in_turn(name)) + 1:
        await heard.next()
    kinds = [kind for kind, _ in heard.events]
    assert len(kinds) - 1 - kinds.index("done") == late
