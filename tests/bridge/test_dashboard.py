"""An ACP client at the relay: what it asks, what it is asked, and in which order."""

import asyncio
import dataclasses
import json

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.served import serving

from bridge import calls, dashboard, questions, waiting
from bridge.protocol import acp, entry, jsonrpc, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY, Origin
from bridge.protocol.round_trip import Decision


@pytest.fixture
async def client(process, connector):
    """An operator whose client has said hello."""
    async with ClientPeer(process) as peer:
        await peer.initialize()
        yield peer


@pytest.fixture
async def other(process, connector):
    """A second one, of another person."""
    async with ClientPeer(process, subject="bob") as peer:
        await peer.initialize()
        yield peer


async def both_asked(connector, client, other):
    await connector.store(connector.update(1))
    await client.load()
    await other.load()
    await connector.store(connector.question(2))
    return await client.question(), await other.question()


# The beginning.


@pytest.mark.parametrize(
    "first",
    ['{"jsonrpc":"2.0","id":1,"method":"session/list"}', "no json", '{"method":"initialize"}'],
    ids=["another request", "no JSON", "a notification"],
)
async def test_whatever_comes_before_initialize_closes_as_a_protocol_error(process, first):
    async with ClientPeer(process) as peer:
        await peer.say(first)
        assert await peer.closed() == 1002


async def test_initialize_says_who_one_is_and_what_can_be_done(process, connector):
    async with ClientPeer(process, Role.VIEWER) as peer:
        result = await peer.initialize()
    ours = result["_meta"][META_KEY]
    assert result["protocolVersion"] == 1
    assert result["agentCapabilities"]["loadSession"] is True
    assert set(result["agentCapabilities"]["sessionCapabilities"]) == {"list", "resume", "close"}
    assert (ours["subject"], ours["role"], ours["tenant"]) == ("alice", "viewer", "acme")
    assert ours["node"] == process.relay.node


async def test_several_lines_in_a_frame_and_a_binary_frame_are_read(client):
    lines = [jsonrpc.request(f"r{n}", "_bridge/agents", {}) for n in (1, 2)]
    await client.say(b"\n".join(lines) + b"\n")
    await client.socket.send(jsonrpc.request("r3", "_bridge/agents", {}))
    for name in ("r1", "r2", "r3"):
        await client.until(lambda m, name=name: m.get("id") == name)


# Who may do what.


@pytest.mark.parametrize(
    ("method", "needed"),
    [(m, r) for m, r in acp.NEEDED_ROLE.items() if r > Role.VIEWER],
    ids=[m for m, r in acp.NEEDED_ROLE.items() if r > Role.VIEWER],
)
async def test_a_method_needs_its_role(process, method, needed):
    async with ClientPeer(process, Role(needed - 1)) as peer:
        await peer.initialize()
        with pytest.raises(Refused) as refused:
            await peer.call(method)
    assert refused.value.code == -32010
    assert refused.value.data["needed"] == str(needed)


@pytest.mark.parametrize("method", [m for m, r in acp.NEEDED_ROLE.items() if r == Role.VIEWER])
async def test_a_viewer_may_look_at_everything(process, connector, method):
    async with ClientPeer(process, Role.VIEWER) as peer:
        await peer.initialize()
        token = process.token(Role.VIEWER)
        await peer.call(method, sessionId="s1", cwd="/app", mcpServers=[], token=token)


@pytest.mark.parametrize(
    "method", ["session/fork", "session/set_model", "authenticate", "uplink/hello", "_bridge/x"]
)
async def test_an_unknown_method_is_no_method(client, method):
    with pytest.raises(Refused) as refused:
        await client.call(method)
    assert refused.value.code == -32601


@pytest.mark.parametrize("method", ["session/load", "session/resume", "session/prompt"])
async def test_unknown_and_foreign_sessions_look_the_same(process, client, method):
    async with UplinkPeer(process, "a9", tenant="other") as foreign:
        await foreign.hello("s9")
        for session in ("s9", "nowhere"):
            with pytest.raises(Refused, match="unknown session") as refused:
                await client.call(method, sessionId=session, prompt=[])
            assert refused.value.code == -32002


# Text that is no request.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("no json", -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":NaN}}', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":{"a":"\\ud800"}}', -32700),
        ('{"jsonrpc":"2.0","id":1,"method":"session/list","params":[]}', -32600),
        ('{"jsonrpc":"2.0","id":1,"id":2,"method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":"' + "x" * 10_000 + '","method":"session/list"}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"x","params":' + '{"a":' * 10_000, -32700),
    ],
    ids=["words", "NaN", "surrogate", "list", "two ids", "fraction", "long id", "deep"],
)
async def test_what_is_no_request_is_refused_and_the_socket_stays(client, text, code):
    before = len(client.got)
    await client.say(text)
    refused = await client.until(lambda m: "error" in m, after=before)
    assert refused["error"]["code"] == code
    assert await client.call("session/list")


# Loading.


async def test_load_gives_the_history_then_the_result_then_the_open_questions(connector, client):
    await connector.store(connector.update(1), connector.update(2), connector.question(3))
    result = await client.load()
    await client.question()
    kinds = [m.get("method", "result") for m in client.got[1:]]
    assert kinds == [entry.UPDATE, entry.UPDATE, "result", entry.PERMISSION]
    assert result["_meta"][META_KEY]["cursor"] == f"{connector.epoch}:3"
    assert result["_meta"][META_KEY]["session"]["open"] == ["rt-1"]


async def test_load_gives_the_modes_as_the_agent_gave_them(connector, client):
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan"}]}
    await connector.notify(uplink.SESSION, connector.card("s1", modes=modes))
    await connector.store(connector.update(1))
    result = await client.load()
    assert result["modes"] == modes
    assert "models" not in result


async def test_entries_are_the_bytes_that_the_connector_sent(connector, client):
    await client.load()
    text = connector.update(1, "as\u2028it is")
    await connector.store(text)
    assert json.loads(text) in client.got


async def test_resume_gives_the_result_first_and_then_what_follows_the_cursor(connector, client):
    await connector.store(*(connector.update(seq) for seq in range(1, 5)), connector.question(5))
    meta = {META_KEY: {"cursor": f"{connector.epoch}:2"}}
    await client.call("session/resume", sessionId="s1", cwd="/app", _meta=meta)
    await client.question()
    kinds = [m.get("method", "result") for m in client.got[1:]]
    assert kinds == ["result", entry.UPDATE, entry.UPDATE, entry.PERMISSION]
    assert client.seqs() == [3, 4]


async def test_resume_without_a_cursor_shows_only_what_comes(connector, client):
    await connector.store(connector.update(1))
    await client.call("session/resume", sessionId="s1", cwd="/app")
    await connector.store(connector.update(2))
    await client.told(entry.UPDATE)
    assert client.seqs() == [2]


async def test_resume_with_a_cursor_that_is_none_is_refused(client):
    meta = {META_KEY: {"cursor": "yesterday"}}
    with pytest.raises(Refused, match="epoch:seq"):
        await client.call("session/resume", sessionId="s1", cwd="/app", _meta=meta)


async def test_loading_again_shows_all_again_once_and_asks_nothing_twice(connector, client):
    await connector.store(connector.update(1), connector.question(2))
    await client.load()
    await client.question()
    await client.load()
    await connector.store(connector.update(3))
    await client.until(lambda _: client.seqs()[-1:] == [3])
    assert client.seqs() == [1, 1, 3]
    assert len(client.questions) == 1


async def test_close_leaves_and_withdraws_what_was_asked(connector, client, other):
    asked, _ = await both_asked(connector, client, other)
    assert await client.call("session/close", sessionId="s1") == {}
    await client.told(acp.CANCEL_REQUEST, requestId=asked["id"])
    await connector.store(connector.update(3))
    await other.until(lambda _: 3 in other.seqs())
    await client.call("session/list")
    assert client.seqs() == [1]


async def test_the_list_has_the_sessions_of_the_tenant_or_of_a_folder(connector, client):
    found = (await client.call("session/list"))["sessions"]
    assert [(one["sessionId"], one["cwd"]) for one in found] == [("s1", "/app")]
    assert found[0]["_meta"][META_KEY]["agent"] == "a1"
    assert (await client.call("session/list", cwd="/elsewhere"))["sessions"] == []


async def test_one_client_may_watch_so_many_sessions(monkeypatch, connector, client):
    monkeypatch.setattr(dashboard, "MAX_SESSIONS", 1)
    await connector.notify(uplink.SESSION, connector.card("s2"))
    await connector.store(connector.update(1, session="s2"), session="s2")
    await client.load("s1")
    await client.load("s1")
    with pytest.raises(Refused, match="close some first"):
        await client.load("s2")


async def test_so_many_requests_may_wait(monkeypatch, client):
    monkeypatch.setattr(dashboard, "MAX_REQUESTS", 3)
    ids = range(900, 910)
    await client.say(b"\n".join(jsonrpc.request(id_, "session/list", {}) for id_ in ids))
    last = await client.until(lambda m: m.get("id") == 909)
    assert last["error"]["code"] == -32014
    assert "send fewer" in last["error"]["message"]
    assert (await client.until(lambda m: m.get("id") == 900))["result"]


# A new session.


async def test_new_is_answered_before_the_first_update_and_attaches(connector, client):
    asked = await client.ask("session/new", {"cwd": "/app", "mcpServers": [{"name": "evil"}]})
    mail = await connector.mail("session/new")
    assert mail["message"]["params"] == {"cwd": "/app", "mcpServers": []}
    await connector.notify(uplink.SESSION, connector.card("s2"))
    await connector.store(connector.update(1, session="s2"), session="s2")
    await connector.done(mail, result={"sessionId": "s2", "modes": {}})
    assert await client.answer(asked) == {"sessionId": "s2", "modes": {}}
    await client.told(entry.UPDATE, sessionId="s2")
    ids = [m.get("id") for m in client.got]
    first = next(i for i, m in enumerate(client.got) if m.get("method") == entry.UPDATE)
    assert ids.index(asked) < first


async def test_an_agents_refusal_of_a_new_session_is_told(connector, client):
    asked = await client.ask("session/new", {"cwd": "/etc", "mcpServers": []})
    mail = await connector.mail("session/new")
    await connector.done(mail, error={"code": -32602, "message": "outside", "data": {}})
    with pytest.raises(Refused, match="outside"):
        await client.answer(asked)


async def test_a_new_session_that_nobody_opens_is_an_error(monkeypatch, connector, client):
    monkeypatch.setattr(calls, "NEW_SECONDS", 0.1)
    with pytest.raises(Refused, match="did not open a session"):
        await client.call("session/new", cwd="/app", mcpServers=[])


async def test_of_several_agents_one_must_be_named(process, connector, client):
    async with UplinkPeer(process, "a2", writer="w2") as second:
        await second.hello()
        with pytest.raises(Refused, match="2 agents are attached") as refused:
            await client.call("session/new", cwd="/app", mcpServers=[])
        assert {one["id"] for one in refused.value.data["agents"]} == {"a1", "a2"}
        meta = {META_KEY: {"agent": "a2"}}
        await client.ask("session/new", {"cwd": "/app", "mcpServers": [], "_meta": meta})
        await second.mail("session/new")


async def test_without_an_agent_a_new_session_says_so(process):
    async with ClientPeer(process) as client:
        await client.initialize()
        with pytest.raises(Refused, match="start its connector"):
            await client.call("session/new", cwd="/app", mcpServers=[])
        named = {META_KEY: {"agent": "nobody"}}
        with pytest.raises(Refused, match="unknown agent"):
            await client.call("session/new", cwd="/app", mcpServers=[], _meta=named)


# Prompts.


async def test_a_prompt_is_answered_behind_its_turns_end_and_all_its_text(connector, client):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    assert mail["origin"]["subject"] == "alice"
    await connector.done(mail, result={"stopReason": "end_turn"})  # before its text is here
    await connector.store(
        connector.words(1, "m-1"),
        connector.turn(2, "started", "m-1"),
        connector.update(3),
        connector.turn(4, "ended", "m-1", stopReason="max_tokens"),
    )
    assert await client.answer(asked) == {"stopReason": "max_tokens"}
    assert client.seqs() == [2, 3, 4]
    assert client.got[-1]["id"] == asked


async def test_a_turn_whose_end_was_shown_already_is_answered_by_its_outcome(
    monkeypatch, connector, client
):
    monkeypatch.setattr(waiting, "TURN_SECONDS", 0.05)
    asked = await client.prompt("m-1")
    await connector.done(await connector.mail("session/prompt"), result={"stopReason": "refusal"})
    assert await client.answer(asked) == {"stopReason": "refusal"}


@pytest.mark.parametrize("echo", [True, False])
async def test_ones_own_words_come_back_only_when_asked_for(connector, client, other, echo):
    await other.load()
    asked = await client.prompt("m-1", echo=echo)
    await connector.mail("session/prompt")
    await connector.store(connector.words(1, "m-1"), connector.turn(2, "ended", "m-1"))
    await client.answer(asked)
    assert client.seqs() == ([1, 2] if echo else [2])
    await other.until(lambda _: other.seqs() == [1, 2])


async def test_ones_own_words_are_in_the_history_afterwards(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    await connector.store(connector.words(1, "m-1"), connector.turn(2, "ended", "m-1"))
    await client.answer(asked)
    await client.load()
    assert client.seqs() == [2, 1, 2]


async def test_a_turn_that_fails_is_an_error(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    error = {"code": -32603, "message": "the agent broke", "data": {}}
    await connector.store(connector.turn(1, "ended", "m-1", error=error))
    with pytest.raises(Refused, match="the agent broke"):
        await client.answer(asked)


async def test_a_turn_that_a_crash_cut_off_is_said_to_be_unknown(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    await connector.store(connector.turn(1, "unknown", "m-1"))
    with pytest.raises(Refused, match="is not known"):
        await client.answer(asked)


async def test_a_prompt_that_the_connector_refuses_is_an_error(connector, client):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    await connector.done(mail, error={"code": -32602, "message": "too late", "data": {}})
    with pytest.raises(Refused, match="too late"):
        await client.answer(asked)


async def test_a_prompt_without_words_is_refused_before_anything_is_sent(client):
    with pytest.raises(Refused, match="needs prompt"):
        await client.call("session/prompt", sessionId="s1")


async def test_the_same_mail_again_after_it_is_over_gives_the_same_answer(
    process, connector, client
):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    await connector.store(connector.turn(1, "ended", "m-1", stopReason="end_turn"))
    await connector.done(mail, result={"stopReason": "end_turn"})
    await client.answer(asked)
    await client.call("session/list")  # behind the outcome
    async with ClientPeer(process) as again:
        await again.initialize()
        assert await again.answer(await again.prompt("m-1")) == {"stopReason": "end_turn"}
    assert len(connector.all(uplink.MAIL)) == 1


async def test_the_same_mail_over_a_new_connection_waits_for_the_same_turn(
    process, connector, client
):
    await client.prompt("m-1")
    await connector.mail("session/prompt")
    await client.socket.close()
    async with ClientPeer(process) as again:
        await again.initialize()
        asked = await again.prompt("m-1")
        await again.until(lambda m: m.get("method") is None)
        await again.call("session/list")  # the prompt is served before it
        await connector.store(connector.turn(1, "ended", "m-1"))
        assert await again.answer(asked) == {"stopReason": "end_turn"}
    assert len(connector.all(uplink.MAIL)) == 1


async def test_a_mail_that_is_waited_for_and_sent_again_answers_both(connector, client):
    asked = [await client.prompt("m-1") for _ in range(2)]
    await client.call("session/list")  # both are taken by then
    await connector.store(connector.turn(1, "ended", "m-1"))
    assert [await client.answer(one) for one in asked] == [{"stopReason": "end_turn"}] * 2
    assert len(connector.all(uplink.MAIL)) == 1


async def test_an_agent_that_is_gone_is_said_to_be(connector, client):
    await connector.notify(uplink.GOODBYE, {"reason": "stopped"})
    await connector.socket.close()
    async with asyncio.timeout(10):
        while (await client.call("_bridge/status", sessionId="s1"))["state"] != "ended":
            pass
    with pytest.raises(Refused, match="said_goodbye") as refused:
        await client.answer(await client.prompt("m-1"))
    assert refused.value.code == -32012


@pytest.mark.parametrize(
    ("method", "params", "missing"),
    [
        ("session/set_mode", {"modeId": "plan"}, {}),
        ("session/set_config_option", {"configId": "model", "value": "big"}, {"configId": "x"}),
    ],
)
async def test_a_setting_goes_down_and_its_answer_comes_back(
    connector, client, method, params, missing
):
    asked = await client.ask(method, {"sessionId": "s1", **params, "evil": 1})
    mail = await connector.mail(method)
    assert mail["message"]["params"] == {"sessionId": "s1", **params}
    await connector.done(mail, result={"configOptions": []})
    assert await client.answer(asked) == {"configOptions": []}
    with pytest.raises(Refused, match="needs"):
        await client.call(method, sessionId="s1", **missing)


@pytest.mark.parametrize("how", ["request", "notification", "cancel_request"])
async def test_a_cancel_reaches_the_agent(connector, client, how):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    if how == "request":
        assert await client.call("session/cancel", sessionId="s1") == {}
    elif how == "notification":
        await client.notify("session/cancel", {"sessionId": "s1"})
    else:
        await client.notify(acp.CANCEL_REQUEST, {"requestId": asked})
    mail = await connector.mail("session/cancel")
    assert mail["message"]["params"] == {"sessionId": "s1"}
    await connector.store(connector.turn(1, "ended", "m-1", stopReason="cancelled"))
    assert await client.answer(asked) == {"stopReason": "cancelled"}


async def test_another_request_that_is_cancelled_is_given_up(connector, client):
    asked = await client.ask("session/set_mode", {"sessionId": "s1", "modeId": "plan"})
    await connector.mail("session/set_mode")
    await client.notify(acp.CANCEL_REQUEST, {"requestId": asked})
    with pytest.raises(Refused) as refused:
        await client.answer(asked)
    assert refused.value.code == -32800


# Questions.


async def test_every_client_is_asked_once_under_an_id_of_its_own(connector, client, other):
    mine, theirs = await both_asked(connector, client, other)
    assert mine["id"] == theirs["id"] == 1
    assert mine["params"]["toolCall"] == {"toolCallId": "call-rt-1"}
    assert mine["params"]["_meta"][META_KEY]["roundTrip"]["id"] == "rt-1"
    assert len(client.questions) == len(other.questions) == 1


async def test_the_first_answer_wins_and_the_others_are_told(connector, client, other):
    mine, theirs = await both_asked(connector, client, other)
    await client.choose(mine)
    decide = await connector.mail("_bridge/decide")
    assert decide["message"]["params"]["answer"] == {"optionId": "allow"}
    assert decide["origin"]["subject"] == "alice"
    await other.told(acp.CANCEL_REQUEST, requestId=theirs["id"])
    assert (await other.resolved("decided"))["by"]["subject"] == "alice"
    await client.resolved("decided")
    assert client.all(acp.CANCEL_REQUEST) == []


async def test_an_answer_after_the_first_is_ignored(connector, client, other):
    mine, theirs = await both_asked(connector, client, other)
    await client.choose(mine)
    await other.told(acp.CANCEL_REQUEST, requestId=theirs["id"])
    await other.choose(theirs, "no")
    await other.call("session/list")
    await connector.call(uplink.TOKEN, token=connector.token)
    assert len(connector.all(uplink.MAIL)) == 1


async def test_a_question_that_ended_otherwise_is_withdrawn_from_all(connector, client, other):
    mine, theirs = await both_asked(connector, client, other)
    await connector.store(connector.resolved(3, result="void", reason="turn_ended"))
    for one, question in ((client, mine), (other, theirs)):
        await one.told(acp.CANCEL_REQUEST, requestId=question["id"])
        assert (await one.resolved("closed"))["reason"] == "turn_ended"


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"code": -32603, "message": "no"}},
        {"result": {"outcome": {"outcome": "cancelled"}}},
        {"result": "allow"},
        {"result": {"outcome": {"outcome": "selected", "optionId": "everything"}}},
    ],
    ids=["an error", "cancelled", "no object", "an unknown option"],
)
async def test_what_is_no_answer_leaves_the_question_to_others(connector, client, other, answer):
    mine, theirs = await both_asked(connector, client, other)
    await client.say(json.dumps({"jsonrpc": "2.0", "id": mine["id"], **answer}))
    await client.call("session/list")
    await other.choose(theirs, "no")
    decide = await connector.mail("_bridge/decide")
    assert decide["origin"]["subject"] == "bob"
    await client.resolved("decided")
    assert client.all(acp.CANCEL_REQUEST) == []  # it has answered its request


async def test_who_dismissed_a_question_is_asked_again_when_it_loads_the_session(
    connector, client, other
):
    mine, _ = await both_asked(connector, client, other)
    await client.say(jsonrpc.result(mine["id"], {"outcome": {"outcome": "cancelled"}}))
    await client.load()
    again = await client.question(after=client.got.index(mine) + 1)
    await client.choose(again)
    await connector.mail("_bridge/decide")
    assert again["id"] != mine["id"]


async def test_an_answer_under_an_id_that_nobody_gave_is_nothing(client):
    await client.say(jsonrpc.result(77, {"outcome": {"outcome": "selected", "optionId": "no"}}))
    await client.say(b'{"jsonrpc":"2.0","id":null,"result":{}}')
    assert await client.call("session/list")


@pytest.mark.parametrize(
    ("role", "capabilities"),
    [(Role.VIEWER, {}), (Role.ADMIN, {"decide": True})],
    ids=["a viewer", "who decides by its own method"],
)
async def test_some_are_not_asked(process, connector, client, role, capabilities):
    async with ClientPeer(process, role, subject="carol") as quiet:
        await quiet.initialize(**capabilities)
        await quiet.load()
        await client.load()
        await connector.store(connector.question(1))
        await client.question()
        await quiet.call("session/list")
        await quiet.load()
        assert quiet.questions == []


async def test_a_form_is_asked_only_of_those_who_show_forms(process, connector, client):
    async with ClientPeer(process, subject="carol") as carol:
        await carol.initialize(forms=True)
        await carol.load()
        await client.load()
        await connector.store(connector.question(1, "rt-f", kind="elicitation"))
        asked = await carol.question()
        assert asked["method"] == "elicitation/create"
        await carol.say(jsonrpc.result(asked["id"], {"action": "accept", "content": {"a": 1}}))
        decide = await connector.mail("_bridge/decide")
        await client.call("session/list")
    assert decide["message"]["params"]["answer"] == {"action": "accept", "content": {"a": 1}}
    assert client.questions == []


async def test_decide_records_the_first_and_tells_the_second_who_won(process, connector, client):
    await connector.store(connector.question(1))
    (record,) = (await client.call("_bridge/round_trips"))["roundTrips"]
    named = {"id": "rt-1", "hash": record["hash"], "answer": {"optionId": "no"}}
    assert (await client.call("_bridge/decide", **named, decisionId="d-1"))["state"] == "recorded"
    again = await client.call("_bridge/decide", **named, decisionId="d-1")
    late = await client.call("_bridge/decide", **named, decisionId="d-2")
    assert (again["state"], late["state"]) == ("recorded", "late")
    assert late["by"]["subject"] == "alice"
    assert (await client.call("_bridge/round_trips"))["roundTrips"] == []
    assert len((await client.call("_bridge/round_trips", state="all"))["roundTrips"]) == 1


@pytest.mark.parametrize(
    "missing",
    [{"answer": "yes"}, {"hash": None}, {"decisionId": 7}, {"id": "no id/at all"}],
    ids=["answer", "hash", "decisionId", "id"],
)
async def test_a_malformed_decision_is_refused(client, missing):
    fields = {"id": "rt-1", "hash": "h", "answer": {"optionId": "no"}, "decisionId": "d-1"}
    with pytest.raises(Refused) as refused:
        await client.call("_bridge/decide", **{**fields, **missing})
    assert refused.value.code == -32602


async def test_so_many_questions_may_be_open_at_one_client(monkeypatch, connector, client):
    monkeypatch.setattr(questions, "ASKED_LIMIT", 2)
    await client.load()
    await connector.store(*(connector.question(n, f"rt-{n}") for n in (1, 2, 3)))
    await client.call("session/list")
    assert len(client.questions) == 2


# Status, presence, tokens.


@pytest.mark.parametrize("method", sorted(acp.STATUS_ALIASES))
async def test_the_status_says_whether_the_agent_is_there(process, connector, client, method):
    await connector.store(connector.question(1))
    await client.load()
    async with asyncio.timeout(10):
        while not (shown := await client.call(method, sessionId="s1"))["watching"]:
            pass
    assert (shown["state"], shown["reason"], shown["open"]) == ("attached", "ok", ["rt-1"])
    assert shown["watching"][0]["subject"] == "alice"
    assert shown["relay"]["node"] == process.relay.node
    assert (await client.call(method))["state"] == "attached"


async def test_the_status_without_any_agent_is_an_error(process):
    async with ClientPeer(process) as client:
        await client.initialize()
        with pytest.raises(Refused, match="no agent has ever been attached"):
            await client.call("_bridge/status")


async def test_who_looks_away_is_still_there_but_not_visible(connector, client):
    await client.load()
    await connector.until(lambda m: m.get("method") == uplink.PRESENCE)
    before = len(connector.got)
    await client.notify("_bridge/visible", {"visible": False})
    told = await connector.told(uplink.PRESENCE, after=before)
    assert told["watching"][0]["visible"] is False


async def test_signing_out_ends_the_socket(process, client):
    (mine,) = process.relay.dashboards._all
    process.relay.identities.closed(mine.identity.token_id)
    assert await client.closed() == 4401


async def test_a_token_that_has_ended_ends_the_socket(process, client):
    (mine,) = process.relay.dashboards._all
    mine.renew(dataclasses.replace(mine.identity, expires_at=1))
    assert await client.closed() == 4401


async def test_a_fresh_token_is_taken_in_band(process, client):
    fresh = process.token(Role.OPERATOR)
    assert (await client.call("_bridge/token", token=fresh))["expiresAt"]
    with pytest.raises(Refused, match="another subject"):
        await client.call("_bridge/token", token=process.token(subject="mallory"))


# Two relay processes.


async def test_through_another_relay_process_all_is_the_same(process, connector, redis_url):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second) as far,
    ):
        await far.initialize()
        await connector.store(connector.update(1))
        await far.load()
        asked = await far.prompt("m-1")
        mail = await connector.mail("session/prompt")
        await connector.store(connector.update(2), connector.question(3))
        await far.choose(await far.question())
        await connector.mail("_bridge/decide")
        await connector.store(connector.resolved(4), connector.turn(5, "ended", "m-1"))
        await connector.done(mail, result={"stopReason": "end_turn"})
        assert await far.answer(asked) == {"stopReason": "end_turn"}
        assert far.seqs() == [1, 2, 4, 5]
        told = await connector.until(lambda m: m.get("method") == uplink.PRESENCE)
    assert told["params"]["watching"][0]["subject"] == "alice"


async def test_an_outcome_wakes_whoever_waits_at_another_relay_process(
    process, connector, redis_url
):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second) as far,
    ):
        await far.initialize()
        asked = await far.ask("session/set_mode", {"sessionId": "s1", "modeId": "plan"})
        await connector.done(await connector.mail("session/set_mode"), result={})
        assert await far.answer(asked) == {}


async def test_one_of_two_answers_wins_across_relay_processes(
    process, connector, client, redis_url
):
    await client.load()
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        ClientPeer(second, subject="bob") as far,
    ):
        await far.initialize()
        await far.load()
        await connector.store(connector.question(1))
        mine, theirs = await client.question(), await far.question()
        await asyncio.gather(client.choose(mine, "allow"), far.choose(theirs, "no"))
        mail = await connector.mail("_bridge/decide")
        winner = mail["origin"]["subject"]
        for one in (client, far):
            assert (await one.resolved("decided"))["by"]["subject"] == winner
        await connector.call(uplink.TOKEN, token=connector.token)
        assert len(connector.all(uplink.MAIL)) == 1


async def test_a_decision_over_rest_withdraws_the_question(process, connector, client):
    await client.load()
    await connector.store(connector.question(1))
    asked = await client.question()
    trip = asked["params"]["_meta"][META_KEY]["roundTrip"]
    decision = Decision("rt-1", trip["hash"], {"optionId": "no"}, "d-9")
    await process.relay.round_trips.decide("acme", decision, Origin("dora", "acme"))
    await client.told(acp.CANCEL_REQUEST, requestId=asked["id"])
    assert (await client.resolved("decided"))["by"]["subject"] == "dora"
