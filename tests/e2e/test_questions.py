"""A question of the agent at every surface: asked, answered once, withdrawn, told by whom."""

import pytest
from e2e.asking import (
    all_asked,
    chosen,
    closed_records,
    is_changed,
    is_question_of,
    opened_question,
    parallel,
    questions,
)
from fakes.editor import is_resolved
from fakes.running import asks

from bridge.protocol.entry import timestamp


async def test_every_surface_is_asked_and_the_list_says_waiting(stage):
    """A01."""
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    turn = alice.prompt(session, "go")
    for person in (alice, bob):
        asked = await person.question()
        assert asked["params"]["toolCall"]["rawInput"] == {"command": "make"}
    assert (await bob.session(session))["state"] == "waiting"
    bob.choose(asked, "yes")
    assert (await alice.answer(turn))["stopReason"] == "end_turn"


async def test_parallel_questions_are_all_listed_and_answered_in_any_order(stage):
    """A03."""
    at = await stage(turns=[parallel(3)])
    alice, session = await at.opened()
    await alice.call("_bridge/watch")
    turn = alice.prompt(session, "go")
    asked = await all_asked(alice, 3)
    assert len(await alice.round_trips(session=session)) == 3
    for number, option in ((2, "yes"), (3, "no"), (1, "always")):
        alice.choose(asked[f"make {number}"], option)
    await alice.answer(turn)
    assert chosen(at.agent) == {1: "always", 2: "yes", 3: "no"}
    await closed_records(alice, session, 3)


async def test_three_surfaces_answer_three_questions_and_each_is_told_by_whom(stage):
    at = await stage(connect=False, turns=[parallel(3)])
    editor = await at.editor()
    session = await editor.new(at.site.work)
    people = [await at.joined(session, name) for name in ("alice", "bob")]
    turn = editor.prompt(session, "go")
    alice, bob = people
    asked = {person: await all_asked(person, 3) for person in (alice, bob, editor)}
    alice.choose(asked[alice]["make 2"], "yes")
    await alice.resolved("call-2", state="closed")
    bob.choose(asked[bob]["make 3"], "no")
    await bob.resolved("call-3", state="closed")
    editor.choose(asked[editor]["make 1"], "always")
    assert (await editor.answer(turn))["stopReason"] == "end_turn"
    for person in people:
        by = [(await person.resolved(f"call-{n}", state="closed"))["by"] for n in (1, 2, 3)]
        assert [by[1]["subject"], by[2]["subject"]] == ["alice", "bob"]
        assert by[0]["door"] == "editor"
    told = [m["params"]["update"] for m in editor.got if is_resolved(m)]
    by = {u["toolCallId"]: u["_meta"]["chimera.bridge"]["resolved"]["by"] for u in told}
    assert by["call-2"]["subject"] == "alice"
    assert by["call-3"]["subject"] == "bob"
    # Its own answer it knows.
    assert chosen(at.agent) == {1: "always", 2: "yes", 3: "no"}


async def test_an_answered_question_is_not_asked_of_who_comes_later(stage):
    """A05."""
    at = await stage(turns=[[asks(), {"chunks": 1, "text": "made"}, {"until_cancel": True}]])
    alice, session = await at.opened()
    alice.prompt(session, "go")
    alice.choose(await alice.question(), "yes")
    await alice.resolved("call-0", state="closed")
    await alice.leave()
    await alice.come()
    before = len(alice.got)
    await alice.load(session)
    assert await alice.round_trips(session=session) == []  # behind all that load asks
    assert [q for q in questions(alice) if q in alice.got[before:]] == []


async def test_a_question_that_nobody_saw_is_asked_of_the_first_who_comes(stage, tmp_path):
    """A06, A26, A30."""
    gate = tmp_path / "gate"
    at = await stage(turns=[[{"delay_until_file": str(gate)}, asks()]])
    alice, session = await at.opened()
    alice.prompt(session, "go")
    await alice.until(lambda m: m["method"] == "_bridge/turn")
    await alice.drop()
    bob = await at.enter("bob", decide=True)  # the page: it is told, and not asked
    await bob.call("_bridge/watch")
    gate.touch()
    shown = await bob.until(is_changed("roundTrip", sessionId=session))
    await alice.come()
    await alice.load(session)
    asked = await alice.question()
    (record,) = await bob.round_trips(session=session)
    assert record["askedAt"] == shown["params"]["roundTrip"]["askedAt"]
    await alice.drop()  # between the question and the answer
    await alice.come_back(session)
    again = await alice.question(after=alice.got.index(asked) + 1)
    assert again["params"]["toolCall"] == asked["params"]["toolCall"]
    alice.choose(again, "yes")
    await alice.ended(session)
    assert chosen(at.agent) == {0: "yes"}
    assert questions(bob) == []


@pytest.mark.attack("A15", "an answer with another question's text")
async def test_a_decision_is_about_one_question_though_agents_repeat_their_ids(stage):
    """A15."""
    same = {"toolCallId": "call-0"}
    first, second = (
        asks({**same, "rawInput": {"command": "make a"}}, 0),
        asks({**same, "rawInput": {"command": "make b"}}, 1),
    )
    at = await stage(turns_by_text={"first": [first], "second": [second]})
    alice, one = await at.opened(decide=True)
    await alice.call("_bridge/watch")
    other = await alice.open(at.name, at.site.work)
    turns = alice.prompt(one, "first"), alice.prompt(other, "second")
    await alice.until(lambda _: len(turn_starts(alice)) == 2)
    a, b = [await opened_question(alice, session) for session in (one, other)]
    crossed = await alice.decide(a["id"], {"optionId": "yes"}, "d-x", hash=b["hash"])
    assert (crossed["state"], crossed["reason"]) == ("refused", "hash")
    assert len(await alice.round_trips(session=one)) == 1
    assert (await alice.decide(a["id"], {"optionId": "yes"}, "d-a"))["state"] == "recorded"
    await alice.answer(turns[0])
    assert chosen(at.agent) == {0: "yes"}
    assert [r["id"] for r in await alice.round_trips(session=other)] == [b["id"]]


@pytest.mark.attack("A16", "the same answer tapped twice")
async def test_a_second_tap_is_late_and_the_next_question_is_untouched(stage):
    """A16."""
    at = await stage(turns=[[asks({}, 0), asks({}, 1)]])
    alice, session = await at.opened(decide=True)
    await alice.call("_bridge/watch")
    alice.prompt(session, "go")
    first = await opened_question(alice, session)
    taps = [await alice.decide(first["id"], {"optionId": "yes"}, "tap-1") for _ in range(2)]
    third = await alice.decide(first["id"], {"optionId": "no"}, "tap-2")
    assert [tap["state"] for tap in taps] == ["recorded", "recorded"]
    assert third["state"] in {"late", "closed"}
    assert third["by"]["subject"] == "alice"
    after = await opened_question(alice, session, but=first)
    assert after["id"] != first["id"]
    assert chosen(at.agent) == {0: "yes"}


async def test_one_of_two_questions_expires_and_is_no_denial(shared_site):
    """A17."""
    async with (
        await shared_site.uplink("expiring") as connector,
        await shared_site.dashboard() as alice,
    ):
        at = {"session": "s-expiring"}
        await connector.hello("s-expiring")
        await alice.load("s-expiring")
        await connector.say(connector.question(1, "rt-past", expires_at=timestamp(1_000), **at))
        await connector.say(connector.question(2, "rt-open", **at))
        asked = [await alice.until(is_question_of(id_)) for id_ in ("rt-past", "rt-open")]
        alice.choose(asked[0], "allow")
        late = await alice.resolved("call-rt-past")
        assert (late["state"], late["reason"]) == ("late", "expired")
        await connector.say(connector.resolved(3, "rt-past", result="void", reason="expired", **at))
        await alice.resolved("call-rt-past", state="closed")
        records = {r["id"]: r for r in await alice.round_trips("all", "s-expiring")}
    assert records["rt-past"]["reason"] == "expired"
    assert "by" not in records["rt-past"]
    assert records["rt-open"]["state"] == "open"


async def test_a_cancel_answers_all_questions_of_the_turn_as_cancelled(stage):
    """A24."""
    at = await stage(turns=[parallel(2)], cancel="wait")
    alice, session = await at.opened()
    bob = await at.joined(session, "bob", role="approver")
    turn = alice.prompt(session, "go")
    asked = await all_asked(bob, 2)
    alice.notify("session/cancel", sessionId=session)
    assert (await alice.answer(turn))["stopReason"] == "cancelled"
    for question in asked.values():
        await bob.withdrawn(question)
    assert [a["outcome"]["outcome"] for a in at.agent.answers().values()] == ["cancelled"] * 2
    closed = await alice.round_trips("all", session)
    assert {record["reason"] for record in closed} == {"cancelled"}


async def test_others_are_told_at_once_who_answered(stage):
    """A28."""
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    others = [await at.joined(session, name) for name in ("bob", "carol")]
    turn = alice.prompt(session, "go")
    asked = {person: await person.question() for person in (alice, *others)}
    alice.choose(asked[alice], "yes")
    for person in others:
        await person.withdrawn(asked[person])
        told = await person.resolved("call-0")
        assert (told["by"]["subject"], told["answer"]) == ("alice", {"optionId": "yes"})
        person.choose(asked[person], "no")  # too late, and without an effect
    await alice.answer(turn)
    assert not [m for m in alice.got if m["method"] == "$/cancel_request"]
    assert chosen(at.agent) == {0: "yes"}


async def test_a_question_stays_listed_while_its_session_is_left_and_entered(stage):
    """A29."""
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    alice.prompt(session, "go")
    asked = await alice.question()
    await alice.call("session/close", sessionId=session)
    assert len(await alice.round_trips(session=session)) == 1
    await alice.load(session)
    again = await alice.question(after=alice.got.index(asked) + 1)
    alice.choose(again, "yes")
    await alice.ended(session)
    assert chosen(at.agent) == {0: "yes"}


def turn_starts(person):
    return [
        m for m in person.got if m["method"] == "_bridge/turn" and m["params"]["state"] == "started"
    ]
