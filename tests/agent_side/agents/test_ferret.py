"""The real engine, against the scripted LLM."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from agents.rig import FakeLLM, Home, command
from schema.check import check_agent_message

from agent_side.agents import ferret
from agent_side.agents.process import AgentError, AgentStartError
from bridge.protocol import jsonrpc


@pytest.fixture
def home(tmp_path):
    return Home.make(tmp_path / "home")


@pytest.fixture
async def start(listen, home):
    """Start the agent with a script for its LLM and one session in the workspace."""
    running, sessions = [], []

    async def started(**script):
        llm = FakeLLM(**script)
        running.append(llm)
        heard = listen(command("ferret", await llm.__aenter__(), home))
        sessions.append(heard)
        heard.hello = await heard.process.start()
        made = await heard.process.call("session/new", {"cwd": str(home.work), "mcpServers": []})
        heard.session = jsonrpc.payload(made)["sessionId"]
        heard.modes = jsonrpc.payload(made)["modes"]
        return heard

    yield started
    for llm in running:
        await llm.__aexit__()
    for message in [m for heard in sessions for m in heard.messages()]:
        check_agent_message(message)


async def outcome(heard, count=1):
    return jsonrpc.payload(await heard.until("done", count))


async def test_a_command_is_asked_about_and_run_when_it_is_allowed(start, home):
    session = await start()
    session.prompt("do it", session.session)
    asked = await session.until("request")
    card = jsonrpc.payload(asked.params)["toolCall"]
    assert card["rawInput"] == {"command": "echo rig-was-here > rig.out && cat rig.out"}
    assert not (home.work / "rig.out").exists()
    session.answer(asked, "allow")
    assert await outcome(session) == {"stopReason": "end_turn"}
    assert (home.work / "rig.out").read_text() == "rig-was-here\n"
    assert session.updates("tool_call_update")[-1]["content"][0]["content"]["text"] == (
        "rig-was-here\n"
    )
    assert session.texts()[-1] == "Done part 3 after 1 results. "


@pytest.mark.parametrize("option", ["reject", "nonsense"])
async def test_what_is_not_allowed_is_not_run_and_its_card_is_closed(start, home, option):
    session = await start()
    session.prompt("do it", session.session)
    session.answer(await session.until("request"), option)
    assert await outcome(session) == {"stopReason": "end_turn"}
    assert not (home.work / "rig.out").exists()
    assert session.updates("tool_call_update")[-1]["status"] == "failed"


async def test_a_write_shows_its_diff_and_always_ends_the_asking_for_that_tool(start, home):
    session = await start(tool="write", calls=2)
    session.prompt("do it", session.session)
    asked = await session.until("request")
    params = jsonrpc.payload(asked.params)
    assert params["toolCall"]["content"] == [
        {
            "type": "diff",
            "path": str(home.work / "rig.txt"),
            "oldText": None,
            "newText": "written by the rig\n",
        }
    ]
    session.answer(asked, "always")
    await outcome(session)
    assert [kind for kind, _ in session.events].count("request") == 1
    assert (home.work / "rig.txt").read_text() == "written by the rig\n"


async def test_cancel_while_it_asks_withdraws_the_question_and_the_next_turn_works(start, home):
    session = await start()
    session.prompt("do it", session.session)
    asked = await session.until("request")
    session.process.notify("session/cancel", {"sessionId": session.session})
    assert await outcome(session) == {"stopReason": "cancelled"}
    withdrawn = [w for k, w in session.events if k == "notification" and w.method[0] == "$"]
    assert jsonrpc.payload(withdrawn[0].params) == {"requestId": asked.id}
    session.answer(asked, "allow")
    session.prompt('FAKE{"tool": "none"} and now?', session.session)
    assert await outcome(session, 2) == {"stopReason": "end_turn"}
    assert not (home.work / "rig.out").exists()


async def test_cancel_ends_a_running_command(start):
    session = await start(command="sleep 600; echo over")
    session.prompt("do it", session.session)
    session.answer(await session.until("request"), "allow")
    while "in_progress" not in [u["status"] for u in session.updates("tool_call_update")]:
        await session.next()
    session.process.notify("session/cancel", {"sessionId": session.session})
    assert await outcome(session) == {"stopReason": "cancelled"}


async def test_cancel_ends_a_turn_whose_model_is_silent(start):
    session = await start(tool="none", final_chunks=2, delay=600)
    session.prompt("do it", session.session)
    while not session.texts():
        await session.next()
    session.process.notify("session/cancel", {"sessionId": session.session})
    assert await outcome(session) == {"stopReason": "cancelled"}


async def test_modes_are_the_engines_and_asking_is_the_start(start, home):
    session = await start(tool="write")
    assert session.modes["currentModeId"] == "suggest"
    await session.process.call("session/set_mode", {"sessionId": session.session, "modeId": "auto"})
    session.prompt("do it", session.session)
    assert await outcome(session) == {"stopReason": "end_turn"}
    assert (home.work / "rig.txt").exists()


async def test_read_only_refuses_without_asking(start, home):
    session = await start()
    mode = {"sessionId": session.session, "modeId": "read-only"}
    await session.process.call("session/set_mode", mode)
    session.prompt("do it", session.session)
    await outcome(session)
    assert session.updates("tool_call_update")[-1]["status"] == "failed"
    assert not (home.work / "rig.out").exists()


async def test_a_failing_model_is_the_turns_error(start):
    session = await start(fail=400)
    session.prompt("do it", session.session)
    failure = await session.until("done")
    assert "rig says no" in failure.message


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("session/prompt", {"sessionId": "other"}, "there is no session other"),
        ("session/new", {"cwd": "relative"}, "cwd must be the full path"),
        ("session/load", {}, "there is no method session/load"),
    ],
)
async def test_what_cannot_be_served_is_refused(start, method, params, words):
    session = await start()
    with pytest.raises(AgentError, match=words):
        await session.process.call(method, params)


async def test_without_a_key_a_session_needs_a_login(listen, home):
    described = command("ferret", "http://127.0.0.1:9", home)
    del described.env["OPENAI_API_KEY"], described.env["FERRET_MODEL"]
    heard = listen(described)
    await heard.process.start()
    with pytest.raises(AgentError, match="no provider configured") as caught:
        await heard.process.call("session/new", {"cwd": str(home.work), "mcpServers": []})
    assert caught.value.code == -32000


async def test_without_the_engine_the_start_says_how_to_install_it(listen, home):
    main = str(Path(ferret.__file__).with_name("__main__.py"))
    described = command("ferret", "http://127.0.0.1:9", home)
    bare = replace(described, argv=(sys.executable, "-I", "-S", main))  # sees no packages
    with pytest.raises(AgentStartError, match=r"install it: pip install 'chimera-bridge\[ferret"):
        await listen(bare).process.start()
