import asyncio
import json
import os
import signal

import pytest
from fakes.editor import CallFailed, FakeEditor, is_method, is_resolved, is_update

TEXT = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
CARD = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Push", "kind": "execute"}
ASK = {
    "ask": {
        "toolCall": {"toolCallId": "c1", "title": "Push", "rawInput": {"command": "git push"}},
        "options": [
            {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ],
    }
}
SAYS = [[{"update": TEXT}]]
ASKS = [[{"update": CARD}, ASK, {"update": TEXT, "if": "yes"}]]


async def test_an_editor_gets_text_and_then_the_end_of_its_turn(start, tmp_path):
    async with start(turns=SAYS) as editor:
        hello = await editor.hello()
        session = await editor.new(tmp_path)
        ended = await editor.answer(editor.prompt(session, "hi"))
        assert hello["protocolVersion"] == 1
        assert hello["agentCapabilities"]["loadSession"] is True
        assert ended["stopReason"] == "end_turn"
        assert editor.text() == "hello"
        assert editor.updates("user_message_chunk") == []  # its own prompt is not echoed


async def test_the_agents_own_session_id_stays_inside(start, tmp_path):
    async with start(turns=SAYS, sessions=["inner-7"]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "hi"))
        assert session != "inner-7"
        assert "inner-7" not in json.dumps(editor.got)


async def test_an_answer_at_the_editor_reaches_the_agent(start, tmp_path):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "push")
        question = await editor.question()
        editor.choose(question, "yes")
        await editor.answer(prompt)
        assert question["params"]["sessionId"] == session
        assert editor.text() == "hello"
        assert editor.agent.answers()[0] == {"outcome": {"outcome": "selected", "optionId": "yes"}}


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"outcome": {"outcome": "selected", "optionId": "sudo"}}},
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"error": {"code": -32603, "message": "the dialogue broke"}},
        {"result": {}},
    ],
    ids=["unknown option", "dismissed", "error", "nothing"],
)
async def test_what_is_no_answer_leaves_the_question_open(start, tmp_path, answer):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "push")
        question = await editor.question()
        editor.raw(json.dumps({"jsonrpc": "2.0", "id": question["id"], **answer}).encode())
        status = await editor.call("_bridge/status", sessionId=session)
        assert len(status["open"]) == 1
        editor.notify("session/cancel", sessionId=session)
        assert (await editor.answer(prompt))["stopReason"] == "cancelled"


async def test_cancel_ends_the_turn_and_withdraws_the_question(start, tmp_path):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "push")
        question = await editor.question()
        editor.notify("session/cancel", sessionId=session)
        withdrawn = await editor.until(is_method("$/cancel_request"))
        told = await editor.until(is_resolved)
        assert (await editor.answer(prompt))["stopReason"] == "cancelled"
        assert withdrawn["params"]["requestId"] == question["id"]
        assert (
            told["params"]["update"]["_meta"]["chimera.bridge"]["resolved"]["reason"] == "cancelled"
        )
        assert told["params"]["update"]["toolCallId"] == "c1"


async def test_a_loaded_session_is_replayed_in_order_before_the_result(start, tmp_path):
    async with start(turns=[*SAYS, *SAYS], load=[]) as first:
        await first.hello()
        session = await first.new(tmp_path)
        await first.answer(first.prompt(session, "one"))
    async with start(turns=SAYS, load=[]) as second:
        await second.hello()
        listed = (await second.call("session/list"))["sessions"]
        loaded = await second.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        texts = [
            m["params"]["update"]["content"]["text"]
            for m in second.got
            if m["method"] == "session/update" and "content" in m["params"]["update"]
        ]
        assert [s["sessionId"] for s in listed] == [session]
        assert listed[0]["title"] == "one"
        assert "sessionId" not in loaded
        assert texts == ["one", "hello"]
        await second.answer(second.prompt(session, "two"))
        assert second.text() == "hellohello"


async def test_loading_twice_shows_everything_twice_and_nothing_thrice(start, tmp_path):
    async with start(turns=[*SAYS, *SAYS]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "one"))
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await editor.answer(editor.prompt(session, "two"))
        assert editor.text() == "hello" * 3
        assert len(editor.updates("user_message_chunk")) == 1


async def test_resume_shows_what_comes_after_the_cursor(start, tmp_path):
    async with start(turns=[*SAYS, *SAYS]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "one"))
        meta = editor.got[-1]["params"]["_meta"]["chimera.bridge"]
        await editor.answer(editor.prompt(session, "two"))
        seen = len(editor.got)
        await editor.call(
            "session/resume",
            sessionId=session,
            cwd="/",
            _meta={"chimera.bridge": {"cursor": f"{meta['epoch']}:{meta['seq']}"}},
        )
        await editor.call("_bridge/status")
        again = [m["params"]["update"]["content"]["text"] for m in editor.got[seen:]]
        assert again == ["two", "hello"]


async def test_an_open_question_is_asked_again_after_a_load(start, tmp_path):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "push")
        first = await editor.question()
        seen = len(editor.got)
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        second = await editor.question(after=seen)
        editor.choose(first, "no")  # withdrawn: counts for nothing
        editor.choose(second, "yes")
        await editor.answer(prompt)
        assert editor.agent.answers()[0]["outcome"]["optionId"] == "yes"


async def test_elicitations_go_only_to_editors_that_show_forms(start, tmp_path):
    form = {
        "mode": "form",
        "message": "Which?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    turn = [{"update": TEXT}, {"ask": form, "method": "elicitation/create"}]
    async with start(turns=[turn]) as editor:
        await editor.hello(elicitation={"form": {}})
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "ask")
        question = await editor.until(is_method("elicitation/create"))
        editor.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        await editor.answer(prompt)
        assert editor.agent.answers()[0]["action"] == "decline"
    async with start(turns=[turn], name="u") as plain:
        await plain.hello()
        session = await plain.new(tmp_path)
        prompt = plain.prompt(session, "ask")
        await plain.until(is_update("agent_message_chunk"))
        plain.notify("session/cancel", sessionId=session)
        await plain.answer(prompt)
        assert not [m for m in plain.got if m["method"] == "elicitation/create"]


async def test_the_agents_error_is_passed_on(start, tmp_path):
    broken = [{"error": {"code": 400, "message": "overloaded", "data": {"status": 529}}}]
    async with start(turns=[broken]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        with pytest.raises(CallFailed) as failed:
            await editor.answer(editor.prompt(session, "hi"))
        assert (failed.value.error["code"], failed.value.error["message"]) == (400, "overloaded")


LIST = b'{"jsonrpc":"2.0","id":999,"method":"session/list","params":'


@pytest.mark.parametrize(
    ("line", "id_", "code"),
    [
        pytest.param(b'{"jsonrpc":"2.0","id":1,', None, -32700, id="broken"),
        pytest.param(b"NaN", None, -32700, id="NaN"),
        pytest.param(LIST + b'{"a":NaN}}', None, -32700, id="NaN inside"),
        pytest.param(LIST + b'{"cwd":"\\ud800"}}', None, -32700, id="lone surrogate"),
        pytest.param(LIST + b'{},"id":2}', None, -32600, id="an id twice"),
        pytest.param(b"[" * 10_000, None, -32600, id="deep"),
        pytest.param(
            LIST + b'{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}}", None, -32700, id="deeper"
        ),
        pytest.param(b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', None, -32600, id="float id"),
        pytest.param(b'{"id":"' + b"x" * 10_000 + b'","method":"x"}', None, -32600, id="long id"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"x"}', None, -32600, id="null id"),
        pytest.param(
            b'{"jsonrpc":"2.0","id":999,"method":"x","params":[]}', 999, -32600, id="a list"
        ),
    ],
)
async def test_bad_lines_are_answered_and_the_next_one_works(greeted, line, id_, code):
    greeted.raw(line)
    with pytest.raises(CallFailed) as failed:
        await greeted.answer(id_)
    assert failed.value.error["code"] == code
    assert await greeted.call("session/list") == {"sessions": []}


async def test_before_initialize_other_requests_are_refused(start):
    async with start() as editor:
        with pytest.raises(CallFailed) as failed:
            await editor.call("session/list")
        assert failed.value.error["code"] == -32600
        await editor.hello()


async def test_what_is_sent_before_initialize_is_answered_waits_for_it(start):
    async with start() as editor:
        hello = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        listed = editor.ask("session/list")
        assert await editor.answer(listed) == {"sessions": []}
        assert (await editor.answer(hello))["protocolVersion"] == 1


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("_no/such", {}, -32601),
        ("session/load", {"sessionId": "nope", "cwd": "/", "mcpServers": []}, -32002),
        ("session/prompt", {"sessionId": "nope", "prompt": []}, -32002),
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/set_mode", {"sessionId": "nope", "modeId": "plan"}, -32002),
        ("session/bridgeStatus", {"sessionId": "nope"}, -32002),
    ],
)
async def test_wrong_requests_get_their_code(greeted, method, params, code):
    with pytest.raises(CallFailed) as failed:
        await greeted.call(method, **params)
    assert failed.value.error["code"] == code


async def test_when_the_editor_quits_its_prompt_is_cancelled_and_all_ends(start, tmp_path):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        editor.prompt(session, "push")
        await editor.question()
        code = await editor.leave()
        assert code == 0
        assert editor.agent.received("session/cancel")


async def test_what_was_asked_before_the_end_of_input_is_answered(start):
    async with start() as editor:
        hello = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        listed = editor.ask("session/list")
        editor.process.stdin.close()
        assert (await editor.answer(hello))["protocolVersion"] == 1
        assert await editor.answer(listed) == {"sessions": []}


async def test_with_stay_the_connector_goes_on_until_a_signal(start, tmp_path):
    async with start("--stay") as editor:
        await editor.hello()
        editor.process.stdin.close()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(editor.process.wait()), 0.3)
        editor.process.send_signal(signal.SIGTERM)
        assert await editor.process.wait() == 0


async def test_nothing_but_json_rpc_reaches_standard_output(start, tmp_path):
    turn = [{"noise": "Debugger attached"}, {"stderr": "warning"}, {"update": TEXT}]
    async with start(turns=[turn]) as editor:  # the editor fails on a line that is no message
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "hi"))
        assert editor.text() == "hello"


async def test_an_agent_that_does_not_start_ends_it_with_five(start):
    async with start(argv=["/bin/false"]) as editor:
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        code = await editor.process.wait()
        assert code == 5
    assert "does not start" in editor.stderr[-1]


async def test_a_second_process_of_one_name_without_an_editor_ends_with_four(start):
    async with start() as first:
        await first.hello()
        alone = [("--http=127.0.0.1:0" if part == "--stdio" else part) for part in first.argv]
        async with FakeEditor(alone, env=first.env) as second:
            assert await second.process.wait() == 4
        assert "in use" in second.stderr[-1]
        assert await first.call("session/list") == {"sessions": []}


async def test_a_line_of_many_megabytes_goes_both_ways(start, tmp_path):
    async with start(turns=[[{"big": 5 << 20}]]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "x" * (9 << 20)))
        assert max(len(json.dumps(m)) for m in editor.got) > 5 << 20
        assert len(editor.agent.received("session/prompt")[0]["prompt"][0]["text"]) == 9 << 20


async def test_replays_do_not_hold_up_other_requests(start, tmp_path):
    async with start(turns=[[{"chunks": 4000, "text": "{i} "}]]) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await editor.answer(editor.prompt(session, "go"))
        seen = len(editor.got)
        load = editor.ask("session/load", sessionId=session, cwd="/", mcpServers=[])
        await editor.answer(editor.ask("session/list"))
        during = len(editor.got)
        await editor.answer(load)
        texts = [
            m["params"]["update"]["content"]["text"]
            for m in editor.got[seen:]
            if m["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
        ]
        assert during - seen < 4000
        assert texts == [f"{i} " for i in range(4000)]


async def test_a_question_that_was_answered_is_not_asked_after_a_load(start, tmp_path):
    async with start(turns=ASKS) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        prompt = editor.prompt(session, "push")
        editor.choose(await editor.question(), "no")
        await editor.answer(prompt)
        seen = len(editor.got)
        await editor.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await editor.call("_bridge/status")
        assert not [m for m in editor.got[seen:] if m["method"] == "session/request_permission"]
        assert [m for m in editor.got[seen:] if is_update("tool_call", toolCallId="c1")(m)]


async def test_the_process_leaves_nothing_behind(start, tmp_path):
    async with start() as editor:
        await editor.hello()
        await editor.new(tmp_path)
    with pytest.raises(ProcessLookupError):
        os.kill(editor.process.pid, 0)


async def test_an_agent_that_never_answers_can_be_left(start):
    async with start(argv=["/bin/sleep", "600"]) as editor:
        editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        assert await editor.leave() == 0


async def test_a_signal_while_the_agent_starts_ends_it_with_zero(start):
    async with start(argv=["/bin/sleep", "600"]) as editor:
        await editor.told("no relay")
        editor.process.terminate()
        assert await editor.process.wait() == 0
