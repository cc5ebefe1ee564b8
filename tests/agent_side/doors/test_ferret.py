import pytest
from fakes.running import ANNA, Running, asks
from fakes.visitor import Visitor

SAYS = {
    "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
}
CARD = {
    "update": {
        "sessionUpdate": "tool_call",
        "toolCallId": "call-0",
        "name": "Bash",
        "title": "make",
        "kind": "execute",
        "rawInput": {"command": "make"},
    }
}
DONE = {
    "update": {"sessionUpdate": "tool_call_update", "toolCallId": "call-0", "status": "completed"}
}


@pytest.fixture
async def visitor(tmp_path, request):
    script = getattr(request, "param", {"turns": [[SAYS]]})
    async with Running(tmp_path, **script) as running:
        one = Visitor(running.connector)
        one.running = running
        assert await one.call("initialize") == {
            "protocolVersion": "0.2",
            "capabilities": {
                "sandbox": True,
                "approval": True,
                "streaming": True,
                "cancellation": True,
                "bridge": True,
            },
        }
        yield one


asking = pytest.mark.parametrize(
    "visitor", [{"turns": [[CARD, asks(), {**DONE, "if": ["yes", "always"]}, SAYS]]}], indirect=True
)
modes = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "A"}, {"id": "auto", "name": "B"}],
}


async def test_a_message_is_answered_with_the_final_assistant_message(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    answer = await visitor.call("session/message", sessionId=session, message="go")
    assert answer == {"sessionId": session, "stopReason": "end_turn", "output": "hi"}
    assert {"kind": "agent_message_chunk", "text": "hi"} in visitor.kinds
    assert visitor.kinds[-1]["kind"] == "turn_end"


async def test_the_version_alone_chooses_the_dialect_and_whole_numbers_are_acp(visitor):
    other, third = Visitor(visitor.running.connector), Visitor(visitor.running.connector)
    assert (await other.call("initialize", protocolVersion="0.2"))["protocolVersion"] == "0.2"
    assert (await third.call("initialize", protocolVersion=1))["protocolVersion"] == 1
    assert (await third.refusal("session/message"))["code"] == -32601
    assert (await other.refusal("session/prompt"))["code"] == -32601


async def test_before_initialize_nothing_else_is_answered(visitor):
    other = Visitor(visitor.running.connector)
    assert (await other.refusal("session/list"))["code"] == -32600


@asking
@pytest.mark.parametrize(
    ("decision", "option"),
    [("allow", "yes"), ("always", "always"), ("deny", "no"), ("never", "no")],
)
async def test_a_permission_is_asked_and_answered_by_a_word(visitor, decision, option):
    session = (await visitor.call("session/new"))["sessionId"]
    message = visitor.ask("session/message", sessionId=session, message="go")
    request = await visitor.kind("permission_request")
    assert request["tool"] == "Bash"
    assert request["args"] == {"command": "make"}
    assert request["risk"] in ("low", "medium", "high")
    answer = await visitor.call(
        "permission/respond", sessionId=session, id=request["id"], decision=decision
    )
    await visitor.answer(message)
    assert answer == {"ok": True}
    chosen = visitor.running.agent.answers()[0]["outcome"]
    assert chosen == {"outcome": "selected", "optionId": option}


@asking
async def test_a_word_that_is_none_leaves_the_question_open(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    visitor.ask("session/message", sessionId=session, message="go")
    request = await visitor.kind("permission_request")
    asked = {"sessionId": session, "id": request["id"]}
    assert (await visitor.refusal("permission/respond", **asked, decision="sure"))["code"] == -32602
    elsewhere = {"sessionId": "other", "id": request["id"], "decision": "allow"}
    assert (await visitor.refusal("permission/respond", **elsewhere))["code"] == -32002
    assert (await visitor.call("session/bridgeStatus", sessionId=session))["open"] == [
        request["id"]
    ]


@asking
async def test_a_question_answered_elsewhere_is_told_by_a_notice(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    message = visitor.ask("session/message", sessionId=session, message="go")
    request = await visitor.kind("permission_request")
    other = Visitor(visitor.running.connector, "desk")
    await other.call("initialize")
    await other.call("session/load", sessionId=session)
    assert (await other.kind("permission_request"))["id"] == request["id"]
    await other.call("permission/respond", sessionId=session, id=request["id"], decision="allow")
    notice = await visitor.kind("notice")
    await visitor.answer(message)
    assert notice["id"] == request["id"]
    assert "Yes, by" in notice["text"]


@asking
async def test_cancel_ends_the_turn_and_its_question(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    message = visitor.ask("session/message", sessionId=session, message="go")
    await visitor.kind("permission_request")
    assert await visitor.call("session/cancel", sessionId=session) == {"ok": True}
    assert (await visitor.answer(message))["stopReason"] == "cancelled"
    assert (await visitor.kind("turn_end"))["stop_reason"] == "cancelled"


async def test_a_session_is_listed_and_its_history_loaded(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    await visitor.call("session/message", sessionId=session, message="go")
    other = Visitor(visitor.running.connector)
    await other.call("initialize", protocolVersion="0.2")
    listed = await other.call("session/list")
    loaded = await other.call("session/load", sessionId=session)
    assert [one["sessionId"] for one in listed["sessions"]] == [session]
    assert loaded == {"sessionId": session, "cwd": str(visitor.running.work)}
    assert [k["kind"] for k in other.kinds] == ["notice", "agent_message_chunk", "turn_end"]


@pytest.mark.parametrize("visitor", [{"new": {"modes": modes}}], indirect=True)
async def test_mode_and_preset_are_switched_live(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    assert await visitor.call("session/setMode", sessionId=session, mode="auto") == {"mode": "auto"}
    assert visitor.running.connector.session(session).mode == "auto"


@pytest.mark.parametrize(
    "visitor",
    [
        {
            "new": {
                "models": {
                    "currentModelId": "a",
                    "availableModels": [{"modelId": "b", "name": "B"}],
                }
            }
        }
    ],
    indirect=True,
)
async def test_the_model_is_switched(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    assert await visitor.call("session/setModel", sessionId=session, model="b") == {"model": "b"}
    (sent,) = visitor.running.agent.received("session/set_model")
    assert sent["modelId"] == "b"


async def test_the_sandbox_is_read_and_a_write_answers_restart_required(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    assert "mode" in await visitor.call("session/setSandbox", sessionId=session)
    refused = await visitor.refusal("session/setSandbox", sessionId=session, mode="off")
    assert refused["message"].startswith("restart required")
    assert refused["data"]["reason"] == "restart_required"


async def test_a_client_that_leaves_ends_its_own_prompts_and_no_others(tmp_path):
    waits = [{"until_cancel": True}]
    async with Running(tmp_path, turns=[waits, [SAYS]]) as running:
        session = await running.session()
        others = running.prompt(session)
        await running.until(lambda: running.connector.session(session).prompting)
        visitor = Visitor(running.connector)
        await visitor.call("initialize")
        await visitor.call("session/load", sessionId=session)
        queued = visitor.ask("session/message", sessionId=session, message="next")
        await visitor.kind("notice")
        await visitor.leave()
        assert (await visitor.answer(queued))["stopReason"] == "cancelled"
        assert not others.done()
        running.connector.cancel(session, ANNA)
        assert (await others).stop_reason == "cancelled"


async def test_the_preset_is_the_connector_s_and_a_change_is_told(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    changed = await visitor.call("session/setApproval", sessionId=session, approval="auto")
    assert changed == {"old": "suggest", "new": "auto"}
    told = await visitor.kind("approval_changed")
    assert (told["old"], told["new"]) == ("suggest", "auto")
    refused = await visitor.refusal("session/setApproval", sessionId=session, approval="bold")
    assert "one of read-only, strict" in refused["message"]


@asking
async def test_always_is_kept_for_equal_questions(visitor):
    session = (await visitor.call("session/new"))["sessionId"]
    message = visitor.ask("session/message", sessionId=session, message="go")
    asked = await visitor.kind("permission_request")
    await visitor.call("permission/respond", sessionId=session, id=asked["id"], decision="always")
    await visitor.answer(message)
    assert [rule.verb for rule in visitor.running.connector.rules.all()] == ["allow"]
