"""One client's questions: each asked once, withdrawn when it is over."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.changes import Change
from bridge.protocol import acp, entry, jsonrpc, round_trip
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
