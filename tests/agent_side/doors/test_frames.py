import pytest
from agents import recordings

from agent_side.doors import transcript
from agent_side.doors.frames import Frames
from agent_side.doors.gate import Gate, HttpPlace

TURNS = ["claude-write", "codex-write", "gemini-write", "opencode-write", "claude-allow"]


def played(name):
    frames = Frames()
    said = recordings.said_in_turn(name)
    return [f for m in said for f in frames.take(m["method"], m["params"])]


@pytest.mark.parametrize("name", TURNS)
def test_what_a_call_did_lies_between_its_tool_call_and_its_response(name):
    """ide.md: a tool_call step always precedes what it brackets, a response always follows."""
    shown = [
        f for f in played(name) if f.event in ("progress/step", "code/diff", "terminal/output")
    ]
    phases = [f.data.get("phase", f.event) for f in shown]
    done = [n for n, phase in enumerate(phases) if phase in ("code/diff", "terminal/output")]
    assert done
    for n in done:
        assert "tool_call" in phases[:n]
        assert "response" in phases[n:]
    assert phases.count("tool_call") == phases.count("response")


@pytest.mark.parametrize("name", TURNS)
def test_the_same_entries_give_the_same_numbers(name):
    frames = played(name)
    assert frames == played(name)
    assert [f.number for f in frames] == list(range(1, len(frames) + 1))


def test_a_terminal_has_its_calls_id_and_counts_its_chunks():
    outputs = [f.data for f in played("claude-allow") if f.event == "terminal/output"]
    assert outputs[0]["processId"].startswith("toolu_")
    assert [o["sequence"] for o in outputs] == list(range(1, len(outputs) + 1))
    assert outputs[0]["capReached"] is False


def test_a_transcript_shows_text_as_text():
    frames = Frames()
    block = {"type": "text", "text": "<img onerror=x>"}
    update = {"sessionUpdate": "agent_message_chunk", "content": block}
    said = transcript.rows(frames.take("session/update", {"sessionId": "s", "update": update}))
    assert said == [{"who": "agent", "text": "<img onerror=x>"}]
    assert "<img" not in transcript.page("<b>", said)
    assert "<img onerror=x>" in transcript.markdown("t", said)


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        ("127.0.0.1:5173", None, True),
        ("localhost:5173", "http://localhost:5173", True),
        ("[::1]:5173", None, True),
        ("rebound.example:5173", None, False),
        ("127.0.0.1:5173", "http://evil.example", False),
        ("127.0.0.1:5173", "null", False),
        ("", None, False),
    ],
)
def test_only_requests_meant_for_this_machine_are_taken(host, origin, ours):
    assert Gate(HttpPlace()).is_ours(host, origin) is ours


def test_a_sessions_token_opens_that_session_and_nothing_else():
    gate = Gate(HttpPlace(token="master"))
    first, second = gate.issue("a"), gate.issue("b")
    assert gate.may_enter(f"Bearer {first}", "a")
    assert not gate.may_enter(f"Bearer {second}", "a")
    assert not gate.is_owner(f"Bearer {first}")
    gate.issue("a")
    assert not gate.may_enter(f"Bearer {first}", "a")
    assert gate.may_enter("Bearer master", "a")
