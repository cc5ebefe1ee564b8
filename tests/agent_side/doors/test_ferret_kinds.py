import pytest
from agents import recordings

from agent_side.doors.calls import Calls, unified
from agent_side.doors.ferret_kinds import KINDS, FerretKinds
from agent_side.round_trips import Question
from bridge.protocol.entry import RoundTrip

TURNS = ["allow", "write", "reject", "cancel", "fail"]
AGENTS = ["claude", "codex", "gemini", "opencode"]


def told(update, at="2026-12-01T09:00:00.000Z", **stamp):
    meta = {"chimera.bridge": {"epoch": 1, "seq": 1, "at": at, **stamp}}
    return {"sessionId": "s", "update": update, "_meta": meta}


def translated(*updates):
    kinds = FerretKinds()
    return [k for update in updates for k in kinds.take("session/update", told(update))]


def question(params):
    """A question as the door has it."""
    subject, options = "{}", ["yes"]
    return Question(
        id="rt-1",
        session=None,
        method="session/request_permission",
        params=params,
        round_trip=RoundTrip("rt-1", "permission", subject, "", options),
        asked_at=0,
        request_id=0,
        cleaned=None,
    )


def played(name):
    """A recorded turn in the dialect, its questions as well."""
    kinds, said = FerretKinds(), []
    for message in recordings.said_in_turn(name):
        if message["method"] == "session/update":
            said += kinds.take("session/update", told(message["params"]["update"]))
        elif message["method"] == "session/request_permission":
            said += kinds.asked(question(message["params"]))
    return said


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("turn", TURNS)
def test_recorded_turns_become_known_kinds_and_each_call_begins_and_ends_once(agent, turn):
    kinds = played(f"{agent}-{turn}")
    begun = [k["id"] for k in kinds if k["kind"] == "tool_call_start"]
    ended = [k["id"] for k in kinds if k["kind"] == "tool_call_end"]
    assert {k["kind"] for k in kinds} <= set(KINDS)
    assert len(set(begun)) == len(begun)
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(begun)
    for id_ in ended:
        of_call = [k["kind"] for k in kinds if k.get("id") == id_]
        assert of_call[0] == "tool_call_start"
        assert of_call[-1] == "tool_call_end"


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode"])
def test_a_recorded_commands_output_is_found_wherever_the_agent_put_it(agent):
    kinds = played(f"{agent}-allow")
    output = "".join(k.get("stdout", "") for k in kinds if k["kind"] == "tool_call_progress")
    assert output.count("rig-was-here") == 1


@pytest.mark.parametrize("agent", AGENTS)
def test_a_recorded_edit_becomes_a_file_edit_before_its_call_ends(agent):
    kinds = played(f"{agent}-write")
    names = [k["kind"] for k in kinds]
    edit = next(k for k in kinds if k["kind"] == "file_edit")
    assert edit["path"].endswith("rig.txt")
    assert "+written by the rig" in edit["diff"]
    assert names.index("tool_call_start") < names.index("file_edit") < names.index("tool_call_end")


def test_a_call_that_is_announced_without_arguments_begins_when_they_are_known():
    kinds = translated(
        {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Terminal", "rawInput": {}},
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawInput": {"command": "ls"}},
    )
    start = {"kind": "tool_call_start", "id": "c", "tool": "Terminal", "args": {"command": "ls"}}
    assert kinds == [start]


def test_output_told_in_full_each_time_is_passed_on_once():
    def said(text, **more):
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        return {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": content, **more}

    kinds = translated(said("a"), said("ab"), said("ab", status="completed"))
    assert [k["stdout"] for k in kinds if k["kind"] == "tool_call_progress"] == ["a", "b"]
    assert kinds[-1]["result"] == "ab"


def test_how_long_a_call_took_is_told_by_the_entries_own_times():
    kinds = FerretKinds()
    begun = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "make"}
    ended = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}
    kinds.take("session/update", told(begun, at="2026-12-01T09:00:00.000Z"))
    end = kinds.take("session/update", told(ended, at="2026-12-01T09:00:01.250Z"))
    assert end == [
        {"kind": "tool_call_end", "id": "c", "result": "failed", "duration_ms": 1250},
    ]


def test_what_is_not_known_of_the_cost_is_null_and_never_zero():
    usage = {"sessionUpdate": "usage_update", "used": 9, "size": 10}
    cost = {**usage, "cost": {"amount": 0.25, "currency": "USD"}}
    first, second = translated(usage, cost)
    assert first["total_usd"] is None
    assert second == {
        "kind": "cost_update",
        "input": None,
        "output": None,
        "cache": None,
        "reasoning": None,
        "total_usd": 0.25,
    }


def test_a_mode_that_changes_is_told_with_the_old_one():
    kinds = translated(
        {"sessionUpdate": "current_mode_update", "currentModeId": "auto"},
        {"sessionUpdate": "current_mode_update", "currentModeId": "auto"},
        {"sessionUpdate": "current_mode_update", "currentModeId": "read-only"},
    )
    changes = [(k["old"], k["new"]) for k in kinds]
    assert changes == [(None, "auto"), ("auto", "read-only")]


def test_thoughts_are_no_part_of_the_answer():
    block = {"type": "text", "text": "hm"}
    assert translated({"sessionUpdate": "agent_thought_chunk", "content": block}) == []


def test_what_somebody_else_typed_is_a_notice_with_their_name():
    typed = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "stop"}}
    by = {"subject": "alice", "device": "pixel"}
    (notice,) = FerretKinds().take("session/update", told(typed, origin=by))
    assert notice["text"] == "alice (pixel): stop"


def test_refusals_and_presets_of_the_log_have_kinds_of_their_own():
    kinds = FerretKinds()
    refused = {"sessionId": "s", "tool": "Bash", "path": "/etc", "mode": "workspace-write"}
    changed = {"sessionId": "s", "old": "suggest", "new": "auto"}
    assert kinds.take("_bridge/sandbox_violation", refused) == [
        {"kind": "sandbox_violation", "tool": "Bash", "path": "/etc", "mode": "workspace-write"}
    ]
    assert kinds.take("_bridge/approval_changed", changed) == [
        {"kind": "approval_changed", "old": "suggest", "new": "auto"}
    ]


def test_a_turn_that_failed_says_why_before_it_ends():
    failed = {"state": "ended", "turn": "t", "error": {"code": -32603, "message": "no credit"}}
    notice, end = FerretKinds().take("_bridge/turn", failed)
    assert notice == {"kind": "notice", "level": "error", "text": "no credit"}
    assert end == {"kind": "turn_end", "id": "t", "stop_reason": "error"}


def test_a_diff_without_a_last_line_feed_is_still_lines():
    assert unified("a", "x", "y").splitlines() == ["--- a", "+++ a", "@@ -1 +1 @@", "-x", "+y"]


def test_a_place_is_told_once():
    calls = Calls()
    update = {"toolCallId": "c", "kind": "read", "locations": [{"path": "/a.py", "line": 3}]}
    first, second = calls.take(update, 0), calls.take(update, 0)
    assert len(first) == 2
    assert second == []
