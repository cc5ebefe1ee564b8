"""What ferret's IDE document promises of its server, line by line, held by our doors."""

import asyncio
import json

import httpx
import pytest
from fakes.running import Running, asks
from fakes.visitor import Visitor

from agent_side import cli
from agent_side.doors.ferret_kinds import KINDS, FerretKinds
from agent_side.doors.frames import Frames
from agent_side.doors.gate import HttpPlace
from agent_side.doors.http import serve_http
from agent_side.doors.stdio import Visit

BASH = {
    "sessionUpdate": "tool_call",
    "toolCallId": "call_42",
    "name": "Bash",
    "title": "say hi",
    "kind": "execute",
    "rawInput": {"command": "git push origin main"},
}
BASH_DONE = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "call_42",
    "status": "completed",
    "rawOutput": "hi\n",
}
DIFF = {"type": "diff", "path": "/repo/hello.py", "oldText": None, "newText": "print('hi')\n"}
WRITE = {
    "sessionUpdate": "tool_call",
    "toolCallId": "call_7",
    "name": "write_file",
    "kind": "edit",
    "rawInput": {"path": "/repo/hello.py"},
}
WRITE_DONE = {
    "sessionUpdate": "tool_call_update",
    "toolCallId": "call_7",
    "status": "completed",
    "content": [DIFF],
}
TEXT = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "done"}}
CARD, CARD_DONE = {**BASH, "toolCallId": "call-0"}, {**BASH_DONE, "toolCallId": "call-0"}
ASKING = [
    {"update": CARD},
    asks({"rawInput": BASH["rawInput"]}),
    {"update": CARD_DONE, "if": ["yes", "always"]},
    {"update": TEXT},
]


@pytest.fixture
async def visitor(tmp_path):
    async with Running(tmp_path, turns=[ASKING]) as running:
        one = Visitor(running.connector)
        one.running = running
        await one.call("initialize")
        one.session = (await one.call("session/new"))["sessionId"]
        yield one


def kinds_of(*updates):
    kinds = FerretKinds()
    params = [{"sessionId": "s", "update": update} for update in updates]
    return [kind for told in params for kind in kinds.take("session/update", told)]


def frames_of(*updates, frames=None):
    frames = frames or Frames()
    params = [{"sessionId": "s", "update": update} for update in updates]
    return [frame for told in params for frame in frames.take("session/update", told)]


def ide_frames(*updates):
    shown = frames_of(*updates)
    return [(f.event, f.data) for f in shown if f.event not in ("loop_event", "user_message")]


# Launching.


@pytest.mark.parametrize(
    "line",
    [
        ["ferret", "serve"],
        ["ferret", "serve", "--http"],
        ["ferret", "serve", "--http", "127.0.0.1:5173"],
        ["ferret", "serve", "--sandbox", "workspace-write", "--approval", "auto"],
        ["ferret", "serve", "--cwd", "/", "--model", "gpt-5"],
    ],
    ids=" ".join,
)
def test_stdio_is_the_default_http_is_opt_in_and_the_standard_flags_are_taken(line):
    chosen = cli._parser().parse_args(line)
    assert chosen.stdio
    assert (chosen.http is None) == ("--http" not in line)


def test_http_listens_on_5173_unless_told_otherwise():
    chosen = cli._parser().parse_args(["ferret", "serve", "--http"])
    assert chosen.http == ("127.0.0.1", 5173)


# Wire protocol.


async def test_one_object_a_line_without_headers_and_answers_carry_the_requests_id(visitor):
    lines, answered = [], asyncio.Event()

    def write(line):
        lines.append(line)
        answered.set()

    visit = Visit(visitor.running.connector, write, "raw")
    visit.exchange.received(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    await asyncio.wait_for(answered.wait(), 20)
    assert json.loads(lines[0])["id"] == 1
    assert all(line.rstrip(b"\n").count(b"\n") == 0 for line in lines)


async def test_notifications_have_no_id_the_method_session_update_and_a_kind(visitor):
    visitor.ask("session/message", sessionId=visitor.session, message="go")
    await visitor.kind("permission_request")
    for told in visitor.got:
        assert "id" not in told
        assert told["method"] == "session/update"
        assert told["params"]["sessionId"] == visitor.session
        assert told["params"]["kind"] in KINDS


async def test_the_handshake_is_answered_with_version_0_2_and_five_capabilities(visitor):
    greeting = await Visitor(visitor.running.connector).call("initialize")
    names = ("sandbox", "approval", "streaming", "cancellation", "bridge")
    assert greeting == {"protocolVersion": "0.2", "capabilities": dict.fromkeys(names, True)}


# Methods.


@pytest.mark.parametrize(
    "method",
    [
        "session/new",
        "session/load",
        "session/list",
        "session/message",
        "session/cancel",
        "session/setMode",
        "session/setModel",
        "session/setSandbox",
        "session/setApproval",
        "session/bridgeStatus",
        "permission/respond",
    ],
)
async def test_each_method_of_the_table_is_known(visitor, method):
    id_ = visitor.ask(method)
    told = await visitor.until(lambda: visitor.answers.get(id_))
    assert told.get("error", {}).get("code") != -32601


async def test_an_unknown_method_is_32601(visitor):
    assert (await visitor.refusal("session/setMood"))["code"] == -32601


async def test_new_gives_a_session_id_that_list_and_load_know(visitor):
    listed = (await visitor.call("session/list"))["sessions"]
    assert [one["sessionId"] for one in listed] == [visitor.session]
    assert (await visitor.call("session/load", sessionId=visitor.session))["sessionId"] == (
        visitor.session
    )


async def test_cancel_stops_a_turn_in_flight(visitor):
    message = visitor.ask("session/message", sessionId=visitor.session, message="go")
    await visitor.kind("permission_request")
    await visitor.call("session/cancel", sessionId=visitor.session)
    assert (await visitor.answer(message))["stopReason"] == "cancelled"


async def test_set_sandbox_reads_and_a_write_says_restart_required(visitor):
    assert (await visitor.call("session/setSandbox"))["mode"] == "off"
    refused = await visitor.refusal("session/setSandbox", mode="read-only")
    assert "restart required" in refused["message"]


async def test_set_approval_switches_live_and_says_the_old_and_the_new(visitor):
    await visitor.call("session/setApproval", sessionId=visitor.session, approval="read-only")
    told = await visitor.kind("approval_changed")
    assert {name: told[name] for name in ("old", "new")} == {"old": "suggest", "new": "read-only"}


async def test_bridge_status_gives_the_clouds_state(visitor):
    status = await visitor.call("session/bridgeStatus", sessionId=visitor.session)
    assert {"state", "reason", "since", "watching", "open"} <= status.keys()


# Kinds.


def test_there_are_twelve_kinds():
    assert len(KINDS) == 12


def test_agent_message_chunk_has_text():
    assert kinds_of(TEXT) == [{"kind": "agent_message_chunk", "text": "done"}]


def test_tool_calls_start_progress_and_end_with_the_documented_fields():
    start, progress, end = kinds_of(BASH, BASH_DONE)
    assert start == {
        "kind": "tool_call_start",
        "id": "call_42",
        "tool": "Bash",
        "args": {"command": "git push origin main"},
    }
    assert progress == {"kind": "tool_call_progress", "id": "call_42", "stdout": "hi\n"}
    assert end == {"kind": "tool_call_end", "id": "call_42", "result": "hi\n", "duration_ms": 0}


def test_standard_error_is_told_apart():
    raw = {"rawOutput": {"stderr": "no\n"}}
    told = kinds_of(BASH, {**BASH_DONE, **raw})
    assert {"kind": "tool_call_progress", "id": "call_42", "stderr": "no\n"} in told


def test_sandbox_violation_has_tool_path_and_mode():
    told = {"tool": "Bash", "path": "/etc/passwd", "mode": "read-only"}
    (kind,) = FerretKinds().take("_bridge/sandbox_violation", {"sessionId": "s", **told})
    assert kind == {"kind": "sandbox_violation", **told}


def test_approval_changed_has_old_and_new():
    told = {"old": "auto", "new": "full"}
    (kind,) = FerretKinds().take("_bridge/approval_changed", {"sessionId": "s", **told})
    assert kind == {"kind": "approval_changed", **told}


def test_cost_update_has_five_figures_and_null_for_what_is_not_known():
    cost = {"amount": 0.5, "currency": "USD"}
    (kind,) = kinds_of({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost})
    assert kind.keys() == {
        *("kind", "input", "output", "cache", "reasoning", "total_usd"),
    }
    assert (kind["total_usd"], kind["input"]) == (0.5, None)


def test_file_edit_has_path_and_diff():
    edit = next(k for k in kinds_of(WRITE, WRITE_DONE) if k["kind"] == "file_edit")
    assert edit["path"] == "/repo/hello.py"
    assert edit["diff"].endswith("+print('hi')\n")


@pytest.mark.parametrize("line", [None, 3])
def test_file_open_has_a_path_and_a_line_where_there_is_one(line):
    place = {"path": "/a.py", **({} if line is None else {"line": line})}
    told = kinds_of({**BASH, "kind": "read", "locations": [place]})
    assert {"kind": "file_open", **place} in told


def test_notice_has_level_and_text():
    (notice,) = FerretKinds().take("_bridge/gap", {"sessionId": "s", "count": 2})
    assert notice.keys() == {"kind", "level", "text"}


def test_turn_end_has_id_and_stop_reason():
    ended = {"state": "ended", "turn": "t-1", "stopReason": "end_turn"}
    (kind,) = FerretKinds().take("_bridge/turn", {"sessionId": "s", **ended})
    assert kind == {"kind": "turn_end", "id": "t-1", "stop_reason": "end_turn"}


# The round-trip of a permission.


@pytest.mark.parametrize("decision", ["allow", "deny", "always", "never"])
async def test_a_permission_goes_round_and_its_answer_is_ok(visitor, decision):
    visitor.ask("session/message", sessionId=visitor.session, message="go")
    asked = await visitor.kind("permission_request")
    assert asked["tool"] == "Bash"
    assert asked["args"] == {"command": "git push origin main"}
    assert asked["risk"] in ("low", "medium", "high")
    told = {"sessionId": visitor.session, "id": asked["id"], "decision": decision}
    assert await visitor.call("permission/respond", **told) == {"ok": True}


@pytest.mark.parametrize(("decision", "verb"), [("always", "allow"), ("never", "deny")])
async def test_always_and_never_are_kept_for_the_tool_and_its_arguments(visitor, decision, verb):
    visitor.ask("session/message", sessionId=visitor.session, message="go")
    asked = await visitor.kind("permission_request")
    told = {"sessionId": visitor.session, "id": asked["id"], "decision": decision}
    await visitor.call("permission/respond", **told)
    assert [rule.verb for rule in visitor.running.connector.rules.all()] == [verb]


# IDE kinds over HTTP and event streams.


def test_a_written_file_is_one_diff_between_two_steps():
    before, diff, after = ide_frames(WRITE, WRITE_DONE)
    assert before == (
        "progress/step",
        {"sessionUpdate": "progress/step", "phase": "tool_call", "step": 1, "detail": "write_file"},
    )
    name, data = diff
    assert name == data["sessionUpdate"] == "code/diff"
    assert (data["path"], data["changeKind"]) == ("/repo/hello.py", "add")
    assert data["unifiedDiff"].startswith("--- /repo/hello.py\n+++ /repo/hello.py\n@@ ")
    assert data.keys() == {"sessionUpdate", "path", "changeKind", "unifiedDiff"}
    assert after == (
        "progress/step",
        {"sessionUpdate": "progress/step", "phase": "response", "step": 2, "detail": "ok"},
    )


def test_a_commands_output_is_bucketed_by_its_calls_id():
    _, output, _ = ide_frames(BASH, BASH_DONE)
    assert output == (
        "terminal/output",
        {
            "sessionUpdate": "terminal/output",
            "processId": "call_42",
            "stream": "stdout",
            "chunk": "hi\n",
            "sequence": 1,
            "capReached": False,
        },
    )


def test_an_opened_file_is_a_frame_of_its_own():
    read = {**BASH, "kind": "read", "locations": [{"path": "/a.py", "line": 3}]}
    told = {"sessionUpdate": "editor/open_file", "path": "/a.py", "line": 3}
    assert ("editor/open_file", told) in ide_frames(read)


def test_the_ide_frames_come_beside_the_plain_ones():
    events = [frame.event for frame in frames_of(BASH, BASH_DONE)]
    assert events.count("loop_event") == 2
    assert events.count("progress/step") == 2


def test_interleaved_calls_keep_their_own_steps_and_counters():
    other = {**BASH, "toolCallId": "call_43"}
    more = {**BASH_DONE, "status": "in_progress"}
    told = ide_frames(BASH, other, more, {**more, "toolCallId": "call_43"}, BASH_DONE)
    outputs = [(d["processId"], d["sequence"]) for name, d in told if name == "terminal/output"]
    assert outputs == [("call_42", 1), ("call_43", 1)]


def test_sessions_do_not_mix_their_calls_and_counters():
    one, other = Frames(), Frames()
    frames_of(BASH, BASH_DONE, frames=one)
    apart = frames_of(BASH, BASH_DONE, frames=other)
    steps = [f.data["step"] for f in apart if f.event == "progress/step"]
    outputs = [f.data["sequence"] for f in apart if f.event == "terminal/output"]
    assert (steps, outputs) == ([1, 2], [1])


async def test_one_session_is_reached_over_both_transports_at_once(visitor):
    opened = asyncio.get_running_loop().create_future()
    place = HttpPlace(port=0, token="t")
    serving = asyncio.create_task(serve_http(visitor.running.connector, place, opened.set_result))
    shown = {"Authorization": "Bearer t"}
    async with httpx.AsyncClient(base_url=await opened, headers=shown) as http:
        visitor.ask("session/message", sessionId=visitor.session, message="go")
        asked = await visitor.kind("permission_request")
        answer = {"session_id": visitor.session, "permission_id": asked["id"], "approved": True}
        assert (await http.post("/tool/approve", json=answer)).json()["resolved"]
        assert (await http.get("/sessions", headers={"Authorization": ""})).status_code == 401
    assert (await visitor.kind("notice"))["id"] == asked["id"]
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
