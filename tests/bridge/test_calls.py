"""What a client may ask: each method, by whom, and how it is refused."""

import asyncio

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer

from bridge import calls
from bridge.protocol import acp, entry, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY

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


@pytest.mark.parametrize(
    "method",
    sorted(m for m, r in acp.NEEDED_ROLE.items() if r == Role.VIEWER and m != acp.ENTRY),
)
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


# Lists and status.


async def test_the_list_has_the_sessions_of_the_tenant_or_of_a_folder(connector, client):
    found = (await client.call("session/list"))["sessions"]
    assert [(one["sessionId"], one["cwd"]) for one in found] == [("s1", "/app")]
    assert found[0]["_meta"][META_KEY]["agent"] == "a1"
    assert (await client.call("session/list", cwd="/elsewhere"))["sessions"] == []


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


# Settings, cancelling, deciding.


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
