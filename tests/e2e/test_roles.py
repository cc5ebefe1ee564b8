"""Who may do what, and whose is what."""

import pytest
from e2e.asking import chosen
from fakes.editor import CallFailed
from fakes.running import asks

NOT_ALLOWED, NOT_FOUND, UNAVAILABLE = -32010, -32002, -32012


async def refused(person, method, **params):
    with pytest.raises(CallFailed) as caught:
        await person.call(method, **params)
    return caught.value.error


async def test_a_viewer_looks_on_and_an_approver_answers_but_does_not_prompt(stage):
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    viewer = await at.joined(session, "vera", role="viewer")
    approver = await at.joined(session, "otto", role="approver")
    turn = alice.prompt(session, "go")
    asked = await approver.question()
    (record,) = await viewer.round_trips(session=session)
    words = [{"type": "text", "text": "go on"}]
    decision = {"hash": record["hash"], "answer": {"optionId": "yes"}, "decisionId": "d-v"}
    tried = [
        await refused(viewer, "_bridge/decide", id=record["id"], **decision),
        await refused(viewer, "session/prompt", sessionId=session, prompt=words),
        await refused(viewer, "session/new", cwd=str(at.site.work), mcpServers=[]),
        await refused(viewer, "session/set_mode", sessionId=session, modeId="plan"),
        await refused(approver, "session/prompt", sessionId=session, prompt=words),
    ]
    for person in (viewer, approver):
        person.notify("session/cancel", sessionId=session)
        await person.call("session/list")
    assert [error["code"] for error in tried] == [NOT_ALLOWED] * 5
    assert (await viewer.round_trips(session=session)) == [record]
    approver.choose(asked, "yes")
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    assert chosen(at.agent) == {0: "yes"}
    assert [m for m in viewer.got if m["method"] == "session/request_permission"] == []
    assert viewer.seqs(session) == approver.seqs(session)


async def test_another_tenant_sees_nothing_and_foreign_ids_are_unknown(stage, shared_site):
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    alice.prompt(session, "go")
    await alice.question()
    (record,) = await alice.round_trips(session=session)
    agent = await alice.agent_id(at.name)
    stranger = await at.stack.enter_async_context(
        await shared_site.dashboard("mallory", role="admin", tenant="elsewhere")
    )
    seen = await stranger.call("_bridge/watch")
    assert (seen["agents"], seen["sessions"], seen["roundTrips"]) == ([], [], [])
    assert (await stranger.call("session/list"))["sessions"] == []
    words = [{"type": "text", "text": "go"}]
    decision = {"hash": record["hash"], "answer": {"optionId": "yes"}, "decisionId": "d-m"}
    place = {"cwd": "/", "mcpServers": []}

    def calls(session_id, round_trip, agent_id):
        meta = {"_meta": {"chimera.bridge": {"agent": agent_id}}}
        return [
            ("session/load", {"sessionId": session_id, **place}),
            ("session/resume", {"sessionId": session_id, **place}),
            ("session/prompt", {"sessionId": session_id, "prompt": words}),
            ("session/set_mode", {"sessionId": session_id, "modeId": "plan"}),
            (
                "session/set_config_option",
                {"sessionId": session_id, "configId": "a", "value": "b"},
            ),
            ("_bridge/status", {"sessionId": session_id}),
            ("session/bridgeStatus", {"sessionId": session_id}),
            ("_bridge/decide", {"id": round_trip, **decision}),
            ("session/new", {**place, **meta}),
        ]

    foreign = [await refused(stranger, m, **p) for m, p in calls(session, record["id"], agent)]
    unknown = [await refused(stranger, m, **p) for m, p in calls("s-no", "rt-no", "a-no")]
    told = str(foreign).replace(session, "s-no").replace(record["id"], "rt-no")
    assert told.replace(agent, "a-no") == str(unknown)
    assert {error["code"] for error in foreign} == {NOT_FOUND, UNAVAILABLE}
    stranger.notify("session/cancel", sessionId=session)
    await stranger.call("session/list")
    assert await alice.round_trips(session=session) == [record]
    assert stranger.got == []
