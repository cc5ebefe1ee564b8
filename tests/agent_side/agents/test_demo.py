import pytest
from schema.check import check_agent_message

from agent_side.agents.catalog import command_for
from agent_side.agents.process import AgentError
from bridge.protocol import jsonrpc


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def demo(listen, environ, folder):
    """Give a started demo agent with one session in ``folder``."""
    heard = listen(command_for("demo", [], folder, environ))
    await heard.process.start()
    made = await heard.process.call("session/new", {"cwd": str(folder), "mcpServers": []})
    heard.session = jsonrpc.payload(made)["sessionId"]
    heard.modes = jsonrpc.payload(made)["modes"]
    yield heard
    for message in heard.messages():
        check_agent_message(message)


async def question(demo, count=1):
    asked = await demo.until("request", count)
    return asked, jsonrpc.payload(asked.params)


async def stop_reason(demo):
    return jsonrpc.payload(await demo.until("done"))["stopReason"]


def last_status(demo, card):
    found = [u["status"] for u in demo.updates("tool_call_update") if u["toolCallId"] == card]
    return found[-1]


async def test_what_it_answers_is_what_the_protocol_says(listen, environ, folder):
    heard = listen(command_for("demo", [], folder, environ))
    hello = await heard.process.start()
    made = await heard.process.call("session/new", {"cwd": str(folder), "mcpServers": []})
    for method, result in (("initialize", hello), ("session/new", jsonrpc.payload(made))):
        check_agent_message({"jsonrpc": "2.0", "id": 1, "result": result}, answers=method)


async def test_the_tour_thinks_plans_reads_edits_and_runs_when_both_are_allowed(demo, folder):
    demo.prompt("hello", demo.session)
    edit, asked = await question(demo)
    assert asked["toolCall"]["content"][0]["newText"].startswith("Line 1")
    assert not (folder / "hello.txt").exists()
    demo.answer(edit, "once")
    run, asked = await question(demo, 2)
    assert (folder / "hello.txt").read_text() == asked_text(demo)
    assert asked["toolCall"]["rawInput"] == {
        "command": "ls -l && cat hello.txt",
        "cwd": str(folder),
    }
    demo.answer(run, "once")
    assert await stop_reason(demo) == "end_turn"
    kinds = {update["sessionUpdate"] for update in demo.updates()}
    assert kinds >= {"agent_thought_chunk", "plan", "tool_call", "session_info_update"}
    assert "the edit was done, the command was done" in "".join(demo.texts())
    assert [e["status"] for e in demo.updates("plan")[-1]["entries"]] == ["completed"] * 3


def asked_text(demo):
    cards = demo.updates("tool_call")
    return next(c["content"][0]["newText"] for c in cards if c["kind"] == "edit")


async def test_options_have_ids_names_and_kinds_of_the_agents_own(demo):
    demo.prompt("run true", demo.session)
    asked, params = await question(demo)
    assert asked.id == 0
    assert [(o["optionId"], o["name"], o["kind"]) for o in params["options"]] == [
        ("once", "Allow once", "allow_once"),
        ("always", "Always allow this command", "allow_always"),
        ("no", "Reject", "reject_once"),
    ]


async def test_run_runs_the_very_command_and_shows_its_output_and_exit_code(demo):
    demo.prompt("run echo one; echo two >&2; exit 3", demo.session)
    asked, params = await question(demo)
    assert params["toolCall"]["rawInput"]["command"] == "echo one; echo two >&2; exit 3"
    demo.answer(asked, "once")
    await stop_reason(demo)
    end = demo.updates("tool_call_update")[-1]
    assert end["status"] == "failed"
    assert end["rawOutput"] == {"exitCode": 3, "output": "one\ntwo\n"}


@pytest.mark.parametrize("answer", ["no", "nonsense"])
async def test_what_is_not_allowed_is_not_done_and_the_turn_goes_on(demo, folder, answer):
    demo.prompt("run touch made", demo.session)
    asked, params = await question(demo)
    demo.answer(asked, answer)
    assert await stop_reason(demo) == "end_turn"
    assert last_status(demo, params["toolCall"]["toolCallId"]) == "failed"
    assert not (folder / "made").exists()


async def test_always_allows_the_same_command_without_asking_again(demo, folder):
    demo.prompt("run echo x >> log", demo.session)
    demo.answer(await demo.until("request"), "always")
    await demo.until("done")
    demo.prompt("run echo x >> log", demo.session)
    await demo.until("done", 2)
    assert (folder / "log").read_text() == "x\nx\n"
    assert [kind for kind, _ in demo.events].count("request") == 1


async def test_edits_are_not_asked_about_in_the_mode_that_accepts_them(demo, folder):
    assert demo.modes["currentModeId"] == "ask"
    mode = {"sessionId": demo.session, "modeId": "accept-edits"}
    await demo.process.call("session/set_mode", mode)
    demo.prompt("edit notes.md", demo.session)
    assert await stop_reason(demo) == "end_turn"
    assert (folder / "notes.md").read_text() == "Line 1, written by the demo agent.\n"
    assert demo.updates("current_mode_update")[0]["currentModeId"] == "accept-edits"


async def test_cancel_withdraws_the_question_closes_the_card_and_ends_the_turn(demo, folder):
    demo.prompt("run touch made", demo.session)
    asked, params = await question(demo)
    demo.process.notify("session/cancel", {"sessionId": demo.session})
    assert await stop_reason(demo) == "cancelled"
    withdrawn = [w for k, w in demo.events if k == "notification" and w.method[0] == "$"]
    assert jsonrpc.payload(withdrawn[0].params) == {"requestId": asked.id}
    assert last_status(demo, params["toolCall"]["toolCallId"]) == "failed"
    demo.answer(asked, "once")
    demo.prompt("plan", demo.session)
    await demo.until("done", 2)
    assert not (folder / "made").exists()


async def test_cancel_stops_a_running_command(demo):
    demo.prompt("run sleep 600; echo over", demo.session)
    demo.answer(await demo.until("request"), "once")
    while not demo.updates("tool_call_update"):
        await demo.until(
            "notification", len([k for k, _ in demo.events if k == "notification"]) + 1
        )
    demo.process.notify("session/cancel", {"sessionId": demo.session})
    assert await stop_reason(demo) == "cancelled"


async def test_cancel_stops_a_stream(demo):
    demo.prompt("stream 100000", demo.session)
    await demo.until("notification", 50)
    demo.process.notify("session/cancel", {"sessionId": demo.session})
    assert await stop_reason(demo) == "cancelled"
    assert len(demo.texts()) < 100_000


async def test_three_questions_at_once_may_be_answered_in_any_order(demo, folder):
    demo.prompt("parallel 3", demo.session)
    asked = [(await question(demo, i))[0] for i in (1, 2, 3)]
    for i in (1, 2, 0):
        demo.answer(asked[i], "no" if i == 0 else "once")
    assert await stop_reason(demo) == "end_turn"
    assert sorted(p.name for p in folder.iterdir()) == ["parallel-2.txt", "parallel-3.txt"]


async def test_stream_sends_so_many_pieces_in_order(demo):
    demo.prompt("stream 300", demo.session)
    await stop_reason(demo)
    assert demo.texts() == [f"piece {i} of 300\n" for i in range(1, 301)]


async def test_choose_asks_with_a_form_and_uses_what_was_chosen(demo):
    demo.prompt("let me choose", demo.session)
    asked, params = await question(demo)
    assert (asked.method, params["mode"]) == ("elicitation/create", "form")
    assert params["requestedSchema"]["required"] == ["colour"]
    demo.process.respond(asked.id, {"action": "accept", "content": {"colour": "green"}})
    await stop_reason(demo)
    assert '{"colour": "green"}' in "".join(demo.texts())


async def test_a_second_prompt_in_a_running_turn_is_refused(demo):
    demo.prompt("run true", demo.session)
    await demo.until("request")
    with pytest.raises(AgentError, match="a turn is running in this session"):
        await demo.process.call("session/prompt", {"sessionId": demo.session, "prompt": []})


async def test_a_failing_turn_ends_with_an_error(demo):
    demo.prompt("fail", demo.session)
    failure = await demo.until("done")
    assert (failure.code, failure.message) == (-32603, "the demo was asked to fail")


async def test_an_edit_outside_the_folder_is_refused(demo, folder):
    demo.prompt("edit ../outside.txt", demo.session)
    failure = await demo.until("done")
    assert "lies outside the session's folder" in failure.message
    assert not (folder.parent / "outside.txt").exists()


async def test_a_session_is_replayed_by_another_process(demo, listen, environ, folder):
    demo.prompt("plan", demo.session)
    await stop_reason(demo)
    said = "".join(demo.texts())
    await demo.process.stop()
    again = listen(command_for("demo", [], folder, environ))
    await again.process.start()
    load = {"sessionId": demo.session, "cwd": str(folder), "mcpServers": []}
    again.tell("loaded", await again.process.call("session/load", load))
    assert "".join(again.texts()) == said
    assert again.updates("session_info_update")[0]["title"] == "plan"


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("session/load", {"sessionId": "demo-000000000000"}, "there is no session demo-0000"),
        ("session/load", {"sessionId": "../../etc/passwd"}, "there is no session"),
        ("session/new", {"cwd": "relative"}, "cwd must be the full path of a folder"),
        ("session/prompt", {"sessionId": "other", "prompt": []}, "there is no session other"),
        ("session/fork", {}, "there is no method session/fork"),
    ],
)
async def test_what_cannot_be_served_is_refused(demo, folder, method, params, words):
    with pytest.raises(AgentError, match=words):
        await demo.process.call(method, {"cwd": str(folder), **params})
