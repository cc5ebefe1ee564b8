import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest
from fakes.agent import FakeAgent
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_side.agents.child import LINE_LIMIT
from agent_side.agents.lines import LineSplitter
from agent_side.agents.process import (
    AgentCommand,
    AgentError,
    AgentGone,
    AgentStartError,
    AgentTimeout,
)
from bridge.protocol import jsonrpc
from bridge.protocol.errors import MethodNotFound

ALLOW_OR_REJECT = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
QUESTION = {"toolCall": {"toolCallId": "c1", "title": "do it"}, "options": ALLOW_OR_REJECT}


@pytest.fixture
async def start(tmp_path, listen):
    """Start a fake agent with a script; it is stopped when the test ends."""

    async def started(**script):
        agent = FakeAgent(tmp_path / "agent", **script)
        heard = listen(agent.command(tmp_path))
        await heard.process.start()
        return agent, heard

    return started


def program(tmp_path: Path, code: str) -> AgentCommand:
    return AgentCommand(
        name="own",
        title="Own Agent",
        argv=(sys.executable, "-I", "-S", "-c", code),
        env=dict(os.environ),
        cwd=tmp_path,
        ask_mode=None,
        login_hint="",
    )


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(20):
        while not gone(pid):  # noqa: ASYNC110  another process's child: nothing tells us
            await asyncio.sleep(0.01)


# A life.


async def test_initialize_tells_the_agent_what_we_can_and_cannot(start):
    agent, heard = await start()
    params = agent.received("initialize")[0]
    assert params["protocolVersion"] == 1
    assert params["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert params["clientCapabilities"]["elicitation"] == {"form": {}, "url": {}}
    assert heard.process.alive


async def test_the_end_of_a_turn_comes_after_its_last_update_and_before_a_late_one(start):
    turn = [{"chunks": 500, "text": "{i}"}, {"late": [{"chunks": 1, "text": "late"}]}]
    _, heard = await start(turns=[turn])
    heard.prompt()
    await heard.until("notification", 501)
    kinds = [kind for kind, _ in heard.events]
    assert kinds.index("done") == 500
    assert heard.texts() == [str(i) for i in range(500)] + ["late"]


async def test_a_question_is_answered_under_the_id_zero(start, tmp_path):
    file = tmp_path / "out.txt"
    turn = [{"ask": QUESTION, "id": 0}, {"write": [str(file), "yes"], "if": "allow"}]
    agent, heard = await start(turns=[turn])
    heard.prompt()
    question = await heard.until("request")
    heard.answer(question, "allow")
    await heard.until("done")
    assert (question.id, agent.answers()[0]["outcome"]["optionId"]) == (0, "allow")
    assert file.read_text() == "yes"


async def test_questions_at_once_are_told_apart_by_string_ids(start):
    asks = [{"ask": QUESTION, "id": id_, "wait": False} for id_ in ("a", "b")]
    agent, heard = await start(turns=[[*asks, {"await": "a"}, {"await": "b"}]])
    heard.prompt()
    await heard.until("request", 2)
    heard.process.respond("b", {"outcome": {"outcome": "selected", "optionId": "reject"}})
    heard.process.fail("a", MethodNotFound("no"))
    await heard.until("done")
    assert agent.answers()["b"]["outcome"]["optionId"] == "reject"
    assert agent.answers()["a"]["code"] == -32601


async def test_a_withdrawn_question_is_a_notification_and_cancel_ends_the_turn(start):
    _, heard = await start(turns=[[{"ask": QUESTION, "id": 0}]])
    heard.prompt()
    await heard.until("request")
    heard.process.notify("session/cancel", {"sessionId": "session-1"})
    result = await heard.until("done")
    notices = [w for k, w in heard.events if k == "notification"]
    assert notices[0].method == "$/cancel_request"
    assert jsonrpc.payload(result) == {"stopReason": "cancelled"}


async def test_an_error_keeps_its_code_message_and_data(start):
    failure = {"code": 400, "message": "the model says no", "data": {"kind": "quota"}}
    _, heard = await start(errors={"session/new": failure})
    with pytest.raises(AgentError) as caught:
        await heard.process.call("session/new", {"cwd": "/", "mcpServers": []})
    assert caught.value.as_object() == failure


async def test_a_call_that_is_not_answered_in_time_says_so_and_its_late_answer_is_dropped(
    start, tmp_path
):
    file = tmp_path / "go"
    _, heard = await start(turns=[[{"delay_until_file": str(file)}, {"late": [{"chunks": 1}]}]])
    params = {"sessionId": "session-1", "prompt": []}
    with pytest.raises(AgentTimeout, match=r"no answer to session/prompt within 0\.05 s"):
        await heard.process.call("session/prompt", params, timeout=0.05)
    file.touch()
    await heard.until("notification")
    assert heard.process.alive


async def test_payloads_pass_as_the_bytes_they_came_as(start):
    raw = '{"jsonrpc":"2.0","method":"_x/y","params":{"b":1.10,"a":[ 1,  2 ],"new":{"é":null}}}'
    _, heard = await start(turns=[[{"raw": raw}]])
    heard.prompt()
    message = await heard.until("notification")
    assert bytes(message.params).decode() == raw.partition('"params":')[2][:-1]


async def test_an_indented_payload_is_still_sent_as_one_line(start):
    agent, heard = await start()
    indented = msgspec.Raw(b'{\n  "sessionId": "s",\r\n  "x": "a\\nb"\n}')
    heard.process.start_call("session/prompt", indented, lambda out: heard.tell("done", out))
    await heard.until("done")
    assert agent.received("session/prompt") == [{"sessionId": "s", "x": "a\nb"}]


# Noise and bad input.


async def test_noise_is_counted_and_harms_nothing(start):
    noise = [{"noise": t} for t in ("Loading model…", "{broken", "[1,2]", "17", "", '{"level":1}')]
    partial = [{"partial": '{"jsonrpc":"2.0",'}, {"raw": '"method":"_x/z"}'}]
    _, heard = await start(turns=[[*noise, *partial, {"chunks": 1, "text": "still here"}]])
    heard.prompt()
    await heard.until("done")
    assert heard.process.noise == 5
    assert [w.method for k, w in heard.events if k == "notification"] == ["_x/z", "session/update"]


async def test_a_request_with_bad_params_is_refused_under_its_id(start):
    bad = '{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":[1]}'
    agent, heard = await start(turns=[[{"raw": bad}, {"await": 7}]])
    heard.prompt()
    await heard.until("done")
    assert agent.answers()[7]["code"] == -32600


async def test_lone_surrogates_become_the_replacement_character(start):
    raw = r'{"jsonrpc":"2.0","method":"_x/y","params":{"t":"a\ud800b","pair":"\ud83d\ude00"}}'
    _, heard = await start(turns=[[{"raw": raw}]])
    heard.prompt()
    message = await heard.until("notification")
    assert json.loads(bytes(message.params)) == {"t": "a\ufffdb", "pair": "😀"}


async def test_a_line_of_60_mb_is_delivered_whole(start):
    size = 60_000_000
    _, heard = await start(turns=[[{"big": size}, {"chunks": 1, "text": "after"}]])
    heard.prompt()
    await heard.until("done")
    assert [len(text) for text in heard.texts()] == [size, len("after")]


async def test_a_line_over_the_limit_is_skipped_and_counted(start):
    _, heard = await start(turns=[[{"big": LINE_LIMIT + 1}, {"chunks": 1, "text": "after"}]])
    heard.prompt()
    await heard.until("done")
    assert (heard.texts(), heard.process.noise) == (["after"], 1)


async def test_a_last_line_without_line_feed_is_read(start):
    last = '{"jsonrpc":"2.0","method":"_x/last"}'
    _, heard = await start(turns=[[{"partial": last}, {"die": 0}]])
    heard.prompt()
    await heard.until("exit")
    assert [w.method for k, w in heard.events if k == "notification"] == ["_x/last"]


async def test_a_callback_that_raises_does_not_stop_the_reading(start, caplog):
    _, heard = await start(turns=[[{"chunks": 2}]])
    heard.process._on_notification = lambda message: 1 / 0
    heard.prompt()
    await heard.until("done")
    assert "could not be handled" in caplog.text


async def test_stderr_never_blocks_the_agent(start):
    _, heard = await start(turns=[[{"stderr": f"{i} " + "e" * 4000} for i in range(200)]])
    heard.prompt()
    await heard.until("done")
    assert len(heard.process._child.tail) == 50


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=12)), st.lists(st.integers(1, 9), min_size=1))
def test_lines_are_the_same_however_the_bytes_are_cut(lines, cuts):
    lines = [line.replace(b"\n", b"") for line in lines]
    text = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter, found, at = LineSplitter(10), [], 0
    for i in range(len(text)):
        size = cuts[i % len(cuts)]
        found += splitter.feed(text[at : at + size])
        at += size
    assert found == [line for line in lines if len(line) <= 10]
    assert splitter.rest() == b"rest"
    assert splitter.skipped == len([line for line in lines if len(line) > 10])


# Bad starts.


async def test_a_program_that_is_not_installed_is_named(listen, tmp_path):
    command = AgentCommand(**{**vars(program(tmp_path, "")), "argv": ("no-such-agent", "--acp")})
    with pytest.raises(AgentStartError, match="no-such-agent is not installed, or not on PATH"):
        await listen(command).process.start()


async def test_a_folder_that_is_not_there_is_named(listen, tmp_path):
    command = AgentCommand(**{**vars(program(tmp_path, "")), "cwd": tmp_path / "nowhere"})
    with pytest.raises(AgentStartError, match="nowhere: No such file or directory"):
        await listen(command).process.start()


async def test_an_agent_that_dies_at_start_is_quoted_with_the_way_to_try(listen, tmp_path):
    heard = listen(program(tmp_path, "import sys; sys.exit('no key: set ACME_KEY')"))
    with pytest.raises(AgentStartError) as caught:
        await heard.process.start()
    assert "it ended with exit code 1; it said: no key: set ACME_KEY" in str(caught.value)
    assert f"try it by hand: cd {tmp_path}" in str(caught.value)
    assert heard.events == []


async def test_a_program_that_is_no_agent_is_quoted_from_its_stdout(listen, tmp_path):
    heard = listen(program(tmp_path, "print('usage: tool FILE')"))
    with pytest.raises(AgentStartError, match="it said: usage: tool FILE"):
        await heard.process.start()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"initialize": {"protocolVersion": 2}}, "it speaks ACP version 2, we speak 1"),
        ({"errors": {"initialize": {"code": -32000, "message": "log in first"}}}, "log in first"),
    ],
    ids=["version", "error"],
)
async def test_an_answer_to_initialize_that_we_cannot_use_is_told(listen, tmp_path, script, words):
    heard = listen(FakeAgent(tmp_path / "agent", **script).command(tmp_path))
    with pytest.raises(AgentStartError, match=words):
        await heard.process.start()
    assert not heard.process.alive


# Ends.


async def test_an_agent_that_dies_in_a_turn_ends_the_call_first_then_says_its_last_words(start):
    turn = [{"chunks": 1}, {"stderr": "out of memory"}, {"die": 3}]
    _, heard = await start(turns=[turn])
    heard.prompt()
    code, tail = await heard.until("exit")
    assert [kind for kind, _ in heard.events] == ["notification", "done", "exit"]
    assert isinstance(heard.events[1][1], AgentGone)
    assert (code, tail) == (3, "out of memory")
    assert not heard.process.alive


async def test_a_signal_that_ends_the_agent_is_its_exit_code(start):
    _, heard = await start(turns=[[{"signal": int(signal.SIGSEGV)}]])
    heard.prompt()
    code, _ = await heard.until("exit")
    assert code == -signal.SIGSEGV


async def test_after_the_end_calls_fail_and_messages_go_nowhere(start):
    _, heard = await start(turns=[[{"die": 0}]])
    heard.prompt()
    await heard.until("exit")
    heard.process.notify("session/cancel", {})
    heard.process.respond(0, {})
    with pytest.raises(AgentGone, match="Fake Agent is not running"):
        await heard.process.call("session/new", {})


async def test_stop_ends_an_agent_at_the_end_of_its_input_and_may_be_repeated(start):
    _, heard = await start()
    await heard.process.stop()
    await heard.process.stop()
    assert heard.events == [("exit", (0, ""))]


async def test_stop_ends_an_agent_that_ignores_the_end_of_its_input_by_sigterm(start):
    _, heard = await start(ignore_eof=True)
    await heard.process.stop()
    assert heard.events == [("exit", (-signal.SIGTERM, ""))]


async def test_stop_kills_an_agent_that_ignores_sigterm_too(start, monkeypatch):
    monkeypatch.setattr("agent_side.agents.process.GRACE_SECONDS", 0.1)
    _, heard = await start(ignore_eof=True, ignore_term=True)
    await heard.process.stop()
    assert heard.events == [("exit", (-signal.SIGKILL, ""))]


CHATTY_PARENT = """
import json, subprocess, sys
stray = subprocess.Popen(["sleep", "600"])
for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": 1, "stray": stray.pid}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_what_an_agent_started_ends_with_it_though_it_holds_the_pipes(listen, tmp_path):
    heard = listen(program(tmp_path, CHATTY_PARENT))
    result = await heard.process.start()
    await heard.process.stop()
    await until_gone(result["stray"])


CONNECTOR = """
import asyncio, os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from agent_side.agents.process import AgentCommand, AgentProcess

async def main():
    command = AgentCommand("own", "Own", {argv!r}, dict(os.environ), Path("."), None, "")
    nothing = lambda *args: None
    process = AgentProcess(
        command, on_request=nothing, on_notification=nothing, on_exit=nothing)
    result = await process.start()
    print(process.pid, result["agent"], result["stray"], flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
STUBBORN = """
import json, os, subprocess, sys, time
stray = subprocess.Popen(["sleep", "600"])
message = json.loads(sys.stdin.readline())
result = {"protocolVersion": 1, "agent": os.getpid(), "stray": stray.pid}
print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
while True:
    time.sleep(60)
"""


async def test_nothing_is_left_when_the_connector_is_killed(tmp_path):
    root = str(Path(__file__).parents[3])
    code = CONNECTOR.format(root=root, argv=(sys.executable, "-I", "-S", "-c", STUBBORN))
    connector = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    pids = [int(pid) for pid in (await connector.stdout.readline()).split()]
    connector.kill()
    await connector.wait()
    for pid in pids:
        await until_gone(pid)
    assert len(pids) == 3
