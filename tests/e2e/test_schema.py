"""What a stock client gets: valid messages of ours, and the agent's own, unchanged."""

from fakes import editor
from fakes.dashboard import META
from fakes.running import asks
from schema.check import check_agent_message

NEW = {
    "modes": {
        "currentModeId": "ask",
        "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}],
    }
}
UPDATES = [
    {
        "sessionUpdate": "agent_thought_chunk",
        "content": {"type": "text", "text": "hm \u20ac \\u0041"},
    },
    {
        "sessionUpdate": "plan",
        "entries": [{"content": "a", "priority": "low", "status": "pending"}],
    },
    {
        "sessionUpdate": "tool_call",
        "toolCallId": "c1",
        "title": "Edit",
        "kind": "edit",
        "status": "pending",
        "rawInput": {"path": "a", "big": 12345678901234567890, "half": 1.50},
        "content": [{"type": "diff", "path": "/a", "oldText": None, "newText": "b"}],
        "_meta": {"agent.example": {"kept": [1, 2]}},
    },
    {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed"},
    {"sessionUpdate": "available_commands_update", "availableCommands": []},
]
QUESTION = "session/request_permission"


async def test_all_that_a_client_gets_is_valid_and_the_agents_part_is_its_own(stage):
    steps = [{"update": update} for update in UPDATES]
    at = await stage(new=NEW, turns=[[*steps, asks(), {"chunks": 1}]])
    alice, session = await at.opened()
    await alice.call("session/set_mode", sessionId=session, modeId="plan")
    turn = alice.prompt(session, "go")
    alice.choose(await alice.question(), "yes")
    await alice.answer(turn)
    bob = await at.joined(session, "bob")
    await bob.call("session/close", sessionId=session)
    said = [m["params"]["update"] for m in at.agent.lines("out") if is_update(m)]
    got = [forwarded(m) for m in alice.got if is_update(m)]
    assert [u for u in got if u is not None] == said
    (asked,) = [m for m in at.agent.lines("out") if m.get("method") == QUESTION]
    mine = (await alice.question())["params"]
    for name in ("toolCall", "options"):
        assert mine[name] == asked["params"][name]
    for message in (*alice.got, *bob.got):
        check_agent_message(message)
    assert alice.hail["protocolVersion"] == 1


def is_update(message):
    return message.get("method") == "session/update"


def forwarded(message):
    """The agent's part of an update; None for those that are ours or a person's."""
    update, meta = message["params"]["update"], message["params"].get("_meta", {}).get(META)
    if meta is None or "origin" in meta:
        return None
    return update


async def test_a_kind_of_update_that_nobody_knows_yet_passes_as_it_is(stage, monkeypatch):
    monkeypatch.setattr(editor, "check_agent_message", lambda *_, **__: None)
    update = {"sessionUpdate": "no_such_kind_yet", "field": {"deep": [None, True, 1e-7]}}
    at = await stage(turns=[[{"update": update}]])
    alice, session = await at.opened()
    await alice.answer(alice.prompt(session, "go"))
    assert [m["params"]["update"] for m in alice.got if is_update(m)] == [update]
