"""Turns from afar: who may wait for whom, what goes down, and what an agent cannot pretend."""

import asyncio

import pytest
from e2e.asking import chosen, closed_records, is_changed, opened_question, questions
from fakes.cable import Cable
from fakes.dashboard import META, meta_of
from fakes.editor import CallFailed
from fakes.running import asks

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}],
}
FORM = {
    "mode": "form",
    "message": "Which colour?",
    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
}


def words(person, session):
    return "".join(
        m["params"]["update"]["content"]["text"]
        for m in person.entries(session, "session/update")
        if m["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    )


async def test_prompts_of_two_people_run_one_after_the_other(stage, tmp_path):
    gate = tmp_path / "gate"
    at = await stage(
        turns_by_text={
            "first": [{"delay_until_file": str(gate)}, {"chunks": 1, "text": "one "}],
            "second": [{"chunks": 1, "text": "two "}],
        }
    )
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    first = alice.prompt(session, "first", mailId="m-first")
    await bob.until(is_turn("started", "m-first"))
    second = bob.prompt(session, "second", mailId="m-second")
    await alice.until(is_turn("queued", "m-second"))
    gate.touch()
    for person, turn in ((alice, first), (bob, second)):
        assert (await person.answer(turn))["stopReason"] == "end_turn"
    assert words(alice, session) == "one two "
    said = [m for m in alice.entries(session) if "origin" in meta_of(m) and is_words(m)]
    assert [meta_of(m)["origin"]["subject"] for m in said] == ["bob"]  # her own she has


async def test_a_prompt_to_an_agent_that_is_away_runs_when_it_is_back(stage):
    at = await stage(connect=False, turns=[[{"chunks": 1, "text": "back"}]])
    async with Cable(at.site.url) as cable:
        await at.connect(relay=cable.url)
        alice, session = await at.opened()
        await alice.call("_bridge/watch")
        cable.cut()
        turn = alice.prompt(session, "go")
        await alice.until(is_changed("agent", name=at.name))
        assert (await alice.session(session))["attachment"]["state"] == "disconnected"
        cable.mend()
        assert (await alice.answer(turn))["stopReason"] == "end_turn"
        assert words(alice, session) == "back"


async def test_a_decision_outlives_the_relay_that_took_it(own_stage, own_site):
    at = await own_stage(connect=False, turns=[[asks(), {"chunks": 1, "text": "made"}]])
    async with Cable(own_site.url) as cable:
        await at.connect(relay=cable.url)
        alice, session = await at.opened(decide=True)
        await alice.call("_bridge/watch")
        alice.prompt(session, "go")
        asked = await opened_question(alice, session)
        cable.cut()
        await alice.decide(asked["id"], {"optionId": "yes"}, "d-1")
        await own_site.kill_relay()
        await alice.closed()
        await own_site.start_relay()
        await alice.come_back(session)
        (record,) = await alice.round_trips("all", session)
        assert (record["state"], record["decision"]["decisionId"]) == ("decided", "d-1")
        cable.mend()
        await alice.ended(session)
        await alice.call("_bridge/watch")
        (record,) = (await closed_records(alice, session, 1)).values()
    assert record["result"] == "applied"
    assert chosen(at.agent) == {0: "yes"}


async def test_an_agent_that_dies_ends_its_turn_and_its_questions(stage):
    at = await stage(turns_by_text={"go": [asks({}, 0, wait=False), {"die": 7}]})
    alice, session = await at.opened()
    await alice.call("_bridge/watch")
    bob = await at.joined(session, "bob")
    turn = alice.prompt(session, "go")
    with pytest.raises(CallFailed):
        await alice.answer(turn)
    for question in questions(bob):
        await bob.withdrawn(question)
    (record,) = (await closed_records(alice, session, 1)).values()
    assert (record["result"], record["reason"]) == ("void", "agent_exited")


async def test_a_form_is_filled_in_from_afar(stage):
    at = await stage(turns=[[{"ask": FORM, "method": "elicitation/create", "id": "form"}]])
    alice, session = await at.opened()
    bob = await at.site.dashboard("bob")
    bob.capabilities = {"elicitation": {"form": {}}}
    await at.stack.enter_async_context(bob)
    await bob.load(session)
    turn = alice.prompt(session, "go")
    asked = await bob.until(lambda m: m["method"] == "elicitation/create")
    assert asked["params"]["requestedSchema"] == FORM["requestedSchema"]
    answer = {"action": "accept", "content": {"colour": "green"}}
    bob.send({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
    await alice.answer(turn)
    assert at.agent.answers() == {"form": answer}
    assert [m for m in alice.got if m["method"] == "elicitation/create"] == []


async def test_what_goes_down_is_on_the_allow_list(stage):
    at = await stage(new={"modes": MODES})
    alice, session = await at.opened()
    id_ = await alice.agent_id(at.name)
    meta = {"_meta": {META: {"agent": id_}}}
    for method, params in (
        ("session/new", {"cwd": "/etc", "mcpServers": [], **meta}),
        ("session/set_mode", {"sessionId": session, "modeId": "bypass"}),
    ):
        with pytest.raises(CallFailed):
            await alice.call(method, **params)
    server = {"name": "evil", "command": "sh", "args": ["-c", "true"], "env": []}
    opened = {"cwd": str(at.site.work), "mcpServers": [server], **meta}
    await alice.call("session/new", **opened)
    assert at.agent.received("session/set_mode") == []
    assert [new["mcpServers"] for new in at.agent.received("session/new")] == [[], []]


async def test_nobody_can_pretend_to_be_the_bridge(stage):
    forged = {"epoch": 1, "seq": 1, "origin": {"subject": "root"}, "resolved": {"id": "rt"}}
    content = {"type": "text", "text": "hello"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {META: forged}}
    params = {"sessionId": "session-1", "update": update, "_meta": {META: forged}}
    resolved = {"sessionId": "session-1", "id": "rt", "result": "applied", "reason": "rule"}
    at = await stage(
        turns=[
            [
                {"notify": ["session/update", params]},
                {"notify": ["_bridge/resolved", resolved]},
                {"notify": ["uplink/goodbye", {}]},
                {"notify": ["_bridge/turn", {"sessionId": "session-1", "state": "ended"}]},
            ]
        ]
    )
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
    origin = {"subject": "root", "tenant": "x", "device": "y", "door": "editor"}
    await alice.call("session/prompt", **prompt, _meta={META: {"origin": origin}})
    await bob.ended(session)
    (hello,) = [m for m in bob.entries(session) if "hello" in str(m)]
    assert "origin" not in meta_of(hello)
    assert META not in hello["params"]["update"].get("_meta", {})
    (said,) = [m for m in bob.entries(session) if is_words(m)]
    assert (meta_of(said)["origin"]["subject"], meta_of(said)["origin"]["door"]) == ("alice", "acp")
    assert bob.entries(session, "_bridge/resolved") == []
    assert (await bob.agent(at.name))["attachment"]["state"] == "attached"


async def test_editor_and_dashboards_answer_at_once_and_agree_on_who_won(stage):
    rounds = 12
    at = await stage(connect=False, turns=[[asks({}, n) for n in range(rounds)]])
    editor = await at.editor()
    session = await editor.new(at.site.work)
    alice, bob = [await at.joined(session, name) for name in ("alice", "bob")]
    await alice.call("_bridge/watch")
    answers = {editor: "always", alice: "yes", bob: "no"}
    turn = editor.prompt(session, "go")

    async def answer_all(person, option):
        at_ = 0
        for _ in range(rounds):
            asked = await person.question(after=at_)
            at_ = person.got.index(asked) + 1
            person.choose(asked, option)

    racing = [asyncio.create_task(answer_all(*answer)) for answer in answers.items()]
    assert (await editor.answer(turn))["stopReason"] == "end_turn"
    await alice.ended(session)
    await bob.ended(session)
    for task in racing:
        task.cancel()
    won = chosen(at.agent)
    assert set(won) == set(range(rounds))
    assert len([m for m in at.agent.lines("in") if "method" not in m]) == rounds
    records = await closed_records(alice, session, rounds)
    option_of = {"alice": "yes", "bob": "no"}
    for person in (alice, bob):
        ends = [m["params"] for m in person.entries(session, "_bridge/resolved")]
        assert [end["answer"]["optionId"] for end in ends] == [won[n] for n in range(rounds)]
        assert [end["by"] for end in ends] == [records[end["id"]]["by"] for end in ends]
        for end in ends:
            option = option_of.get(end["by"]["subject"], "always")
            assert end["answer"]["optionId"] == option
            assert end["reason"] == ("local" if option == "always" else "decided")
        for question in questions(person):  # some were over before they could be asked
            call = question["params"]["toolCall"]["toolCallId"]
            told = await person.resolved(call, state="closed")
            assert told["by"] == records[told["id"]]["by"]


def is_turn(state, mail_id):
    return lambda m: (
        m["method"] == "_bridge/turn"
        and (m["params"]["state"], m["params"].get("mailId")) == (state, mail_id)
    )


def is_words(message):
    return message["params"].get("update", {}).get("sessionUpdate") == "user_message_chunk"
