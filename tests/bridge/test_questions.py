"""One client's questions: each asked once, withdrawn when it is over."""

import json

import pytest
from fakes.peers import ClientPeer
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge import questions as module
from bridge.changes import Change
from bridge.protocol import acp, entry, jsonrpc, round_trip, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY, Meta, Origin, RoundTrip
from bridge.questions import Questions

SELECTED = {"outcome": {"outcome": "selected", "optionId": "allow"}}
CANCELLED = {"outcome": {"outcome": "cancelled"}}


def question(id_="rt-1", *, session="s1", call="c1", kind="permission"):
    subject = json.dumps({"command": id_})
    asked = RoundTrip(id_, kind, subject, round_trip.hash_of(subject), ["allow", "no"])
    method = entry.PERMISSION if kind == "permission" else entry.ELICITATION
    fields = {"toolCall": {"toolCallId": call}} if call else {"message": "which?"}
    return entry.stamp(method, session, Meta(1, 1, round_trip=asked), fields, id_=id_)


def change(id_="rt-1", state="decided", **more):
    return Change("roundTrip", id_, session_id="s1", state=state, by=Origin("bob"), **more)


def answer(request, result=SELECTED):
    return jsonrpc.parse(jsonrpc.result(json.loads(request)["id"], result))


def methods(texts):
    return [json.loads(text)["method"] for text in texts]


@pytest.fixture
def questions():
    return Questions()


def test_a_question_is_asked_as_the_agent_asked_it_under_an_own_id(questions):
    text = question()
    request = json.loads(questions.ask(text))
    sent = json.loads(text)
    assert (request["method"], request["params"]) == (sent["method"], sent["params"])
    assert request["id"] == 1


def test_a_question_is_asked_once(questions):
    assert questions.ask(question())
    assert questions.ask(question()) is None
    assert json.loads(questions.ask(question("rt-2")))["id"] == 2


def test_an_entry_without_a_round_trip_is_no_question(questions):
    assert questions.ask(entry.stamp(entry.PERMISSION, "s1", Meta(1, 1), {})) is None


def test_an_answer_names_the_question_its_hash_and_the_option(questions):
    request = questions.ask(question())
    asked, given_ = questions.take(answer(request))
    assert (asked.round_trip, asked.session_id) == ("rt-1", "s1")
    assert asked.hash == round_trip.hash_of('{"command": "rt-1"}')
    assert given_ == {"optionId": "allow"}
    assert questions.take(answer(request)) is None  # once


@pytest.mark.parametrize(
    ("result", "meant"),
    [
        ({"action": "accept", "content": {"a": 1}}, {"action": "accept", "content": {"a": 1}}),
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "cancel"}, None),
        ({}, None),
    ],
    ids=str,
)
def test_a_forms_answer(questions, result, meant):
    request = questions.ask(question(kind="elicitation", call=""))
    taken = questions.take(answer(request, result))
    assert (taken and taken[1]) == meant


@pytest.mark.parametrize("result", [CANCELLED, {}, [], "allow", {"outcome": "selected"}], ids=str)
def test_what_is_no_answer(questions, result):
    assert questions.take(answer(questions.ask(question()), result)) is None


def test_who_did_not_answer_is_told_who_did_and_that_its_request_is_over(questions):
    questions.ask(question())
    cancel, update = (json.loads(text) for text in questions.withdraw(change()))
    assert (cancel["method"], cancel["params"]) == (acp.CANCEL_REQUEST, {"requestId": 1})
    assert update["params"]["update"]["toolCallId"] == "c1"
    resolved = update["params"]["update"]["_meta"][META_KEY]["resolved"]
    assert (resolved["state"], resolved["by"]["subject"]) == ("decided", "bob")


@pytest.mark.parametrize("result", [SELECTED, CANCELLED, {}], ids=str)
def test_whoever_has_answered_in_any_way_is_not_cancelled(questions, result):
    questions.take(answer(questions.ask(question()), result))
    assert methods(questions.withdraw(change())) == [entry.UPDATE]


def test_the_request_is_cancelled_once_and_the_card_says_both_steps(questions):
    questions.ask(question())
    assert methods(questions.withdraw(change())) == [acp.CANCEL_REQUEST, entry.UPDATE]
    assert methods(questions.withdraw(change(state="closed"))) == [entry.UPDATE]
    assert questions.withdraw(change(state="closed")) == []


def test_a_question_without_a_tool_call_is_only_withdrawn(questions):
    questions.ask(question(kind="elicitation", call=""))
    assert methods(questions.withdraw(change())) == [acp.CANCEL_REQUEST]
    assert questions.late(questions._by_request[1], {"state": "late"}) == []


def test_a_late_answer_is_told_how_it_stands(questions):
    asked, _ = questions.take(answer(questions.ask(question())))
    (update,) = questions.late(asked, {"state": "late", "reason": "decided"})
    shown = json.loads(update)["params"]["update"]["_meta"][META_KEY]["resolved"]
    assert shown == {"id": "rt-1", "state": "late", "reason": "decided"}


def test_a_question_whose_end_came_first_is_not_asked(questions):
    questions.close("rt-1")
    assert questions.ask(question()) is None


def test_leaving_a_session_withdraws_its_questions_and_no_others(questions):
    questions.ask(question("rt-1"))
    questions.ask(question("rt-2", session="s2"))
    assert methods(questions.forget("s1")) == [acp.CANCEL_REQUEST]
    assert questions.forget("s1") == []
    assert questions.ask(question("rt-1"))
    assert questions.ask(question("rt-2", session="s2")) is None


def test_asked_again_only_when_the_earlier_request_is_over(questions):
    request = questions.ask(question())
    assert questions.ask(question(), again=True) is None
    questions.take(answer(request, CANCELLED))
    assert questions.ask(question()) is None
    assert json.loads(questions.ask(question(), again=True))["id"] == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "again", "yes", "dismiss", "decided", "closed", "leave"]),
            st.sampled_from(["rt-1", "rt-2"]),
        ),
        max_size=25,
    )
)
def test_whatever_happens_each_request_ends_at_most_once(steps):
    questions, open_requests, ended = Questions(), {}, []
    for what, id_ in steps:
        told = []
        if what in {"ask", "again"}:
            request = questions.ask(question(id_), again=what == "again")
            if request is not None:
                number = json.loads(request)["id"]
                assert id_ not in open_requests
                open_requests[id_] = number
        elif what in {"yes", "dismiss"} and id_ in open_requests:
            number = open_requests.pop(id_)
            ended.append(number)
            result = SELECTED if what == "yes" else CANCELLED
            questions.take(jsonrpc.parse(jsonrpc.result(number, result)))
        elif what in {"decided", "closed"}:
            told = questions.withdraw(change(id_, what))
        elif what == "leave":
            told = questions.forget("s1")
        for text in told:
            message = json.loads(text)
            if message["method"] == acp.CANCEL_REQUEST:
                number = message["params"]["requestId"]
                open_requests = {k: n for k, n in open_requests.items() if n != number}
                ended.append(number)
    assert len(ended) == len(set(ended))


# At a real relay.


async def both_asked(connector, client, other):
    await connector.store(connector.update(1))
    await client.load()
    await other.load()
    await connector.store(connector.question(2))
    return await client.question(), await other.question()


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


async def test_so_many_questions_may_be_open_at_one_client(monkeypatch, connector, client):
    monkeypatch.setattr(module, "ASKED_LIMIT", 2)
    await client.load()
    await connector.store(*(connector.question(n, f"rt-{n}") for n in (1, 2, 3)))
    await client.call("session/list")
    assert len(client.questions) == 2


async def test_close_leaves_and_withdraws_what_was_asked(connector, client, other):
    asked, _ = await both_asked(connector, client, other)
    assert await client.call("session/close", sessionId="s1") == {}
    await client.told(acp.CANCEL_REQUEST, requestId=asked["id"])
    await connector.store(connector.update(3))
    await other.until(lambda _: 3 in other.seqs())
    await client.call("session/list")
    assert client.seqs() == [1]
