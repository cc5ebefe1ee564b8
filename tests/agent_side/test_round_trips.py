"""Questions: each answered once, and told how it ended."""

import json

import pytest
from fakes.relay import ALICE, FakeRelay
from fakes.running import ANNA, Running, asks, stamp

from bridge.protocol import round_trip
from bridge.protocol.errors import InvalidParams, NotFound, UnknownOption

YES, NO = {"optionId": "yes"}, {"optionId": "no"}
THREE = [asks(id_=i, wait=False) for i in range(3)] + [{"await": i} for i in range(3)]


def outcome(option):
    return {"outcome": {"outcome": "selected", "optionId": option}}


def resolved(running, session):
    return [m["params"] for m in running.entries(session, "_bridge/resolved")]


async def test_an_answer_at_the_machine_reaches_the_agent_and_the_log(tmp_path):
    async with Running(tmp_path, turns=[[asks(), {"chunks": 1, "if": "yes"}]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        told = running.connector.answer(id_, YES, ANNA)
        await ended
        assert (told.result, told.reason, told.answer) == ("void", "local", YES)
        [said] = resolved(running, session)
        assert said["by"]["door"] == "terminal"
        assert running.agent.answers() == {0: outcome("yes")}
        assert running.texts(session) == ["part 0 "]


async def test_three_parallel_questions_are_answered_in_another_order(tmp_path):
    """A03."""
    async with Running(tmp_path, turns=[THREE]) as running:
        session = await running.session()
        ended = running.prompt(session)
        first, second, third = await running.asked(3)
        for id_, answer in ((second, YES), (third, NO), (first, {"optionId": "always"})):
            running.connector.answer(id_, answer, ANNA)
        await ended
        assert running.agent.answers() == {
            0: outcome("always"),
            1: outcome("yes"),
            2: outcome("no"),
        }


@pytest.mark.attack("A33", "a question that its agent cut short, allowed by a relay")
async def test_what_was_cut_is_not_allowed_from_afar_and_may_be_rejected_there(tmp_path):
    """A33."""
    turn = [asks({"rawInput": {"command": "make", "truncated": True}})]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[turn]) as running:
        running.prompt(await running.session())
        [question] = await relay.until(relay.questions)
        relay.decide(question, {"optionId": "yes"}, "d-1")
        assert (await relay.outcome("d-1")).result["reason"] == "refused"
        [again] = await relay.until(
            lambda: [one for one in relay.questions() if one["id"] != question["id"]]
        )
        relay.decide(again, {"optionId": "no"}, "d-2")
        assert (await relay.outcome("d-2")).result["result"] == "applied"
        await running.until(lambda: running.agent.answers() == {0: outcome("no")})


async def test_a_second_answer_is_told_which_one_won(tmp_path):
    """A16: the second tap answers nothing else."""
    async with Running(tmp_path, turns=[THREE]) as running:
        session = await running.session()
        running.prompt(session)
        first, *_ = await running.asked(3)
        running.connector.answer(first, YES, ANNA)
        late = running.connector.answer(first, NO, ANNA)
        assert late.answer == YES
        assert len(running.connector.questions) == 2


async def test_unknown_options_and_ids_are_refused(tmp_path):
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        running.prompt(session)
        [id_] = await running.asked()
        with pytest.raises(UnknownOption, match="'maybe'"):
            running.connector.answer(id_, {"optionId": "maybe"}, ANNA)
        with pytest.raises(NotFound):
            running.connector.answer("rt-none", YES, ANNA)
        assert id_ in running.connector.questions


async def test_the_entry_shows_the_subject_and_its_hash_and_the_agent_s_params(tmp_path):
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        running.prompt(session)
        [id_] = await running.asked()
        await running.until(lambda: running.door.asked)
        [entry] = running.entries(session, "session/request_permission")
        trip = stamp(entry)["roundTrip"]
        assert entry["id"] == trip["id"] == id_
        assert entry["params"]["sessionId"] == session
        assert entry["params"]["toolCall"]["rawInput"] == {"command": "make"}
        assert trip["hash"] == round_trip.hash_of(trip["subject"])
        assert json.loads(trip["subject"])["command"] == "make"
        assert trip["optionIds"] == ["always", "yes", "no"]


async def test_the_log_has_the_question_before_a_door_is_asked(tmp_path):
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        running.prompt(session)
        [id_] = await running.asked()
        await running.until(lambda: running.door.asked)
        told = running.door.told
        asked = told.index(("ask", id_))
        assert told.index(("entry", "session/request_permission")) < asked


async def test_a_question_that_the_turn_leaves_open_ends_with_the_turn(tmp_path):
    async with Running(tmp_path, turns=[[asks(wait=False)]]) as running:
        session = await running.session()
        await running.prompt(session)
        assert [r["reason"] for r in resolved(running, session)] == ["turn_ended"]


async def test_a_question_that_the_agent_takes_back_ends_as_cancelled(tmp_path):
    steps = [asks(wait=False), {"notify": ["$/cancel_request", {"requestId": 0}]}, asks(id_=1)]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        running.prompt(session)
        await running.until(lambda: len(running.door.asked) == 2)
        assert [r["reason"] for r in resolved(running, session)] == ["cancelled"]
        [second] = running.connector.questions
        running.connector.answer(second, {"optionId": "yes"}, ANNA)
        await running.until(lambda: 1 in running.agent.answers())
        told = [m["id"] for m in running.agent.lines("in") if "method" not in m]
        assert told == [0, 1], "a question is answered once"


async def test_a_question_nobody_could_answer_is_refused_to_the_agent(tmp_path):
    nothing = {"ask": {"toolCall": {"toolCallId": "c"}, "options": []}, "id": 5}
    stranger = {**asks(id_=6), "session": "another"}
    async with Running(tmp_path, turns=[[nothing, stranger]]) as running:
        session = await running.session()
        await running.prompt(session)
        assert {a["code"] for a in running.agent.answers().values()} == {-32602}


async def test_an_elicitation_is_a_question_with_its_form(tmp_path):
    form = {"mode": "form", "message": "Which?", "requestedSchema": {"type": "object"}}
    steps = [{"ask": form, "method": "elicitation/create", "id": "e1"}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        question = running.connector.questions[id_]
        assert json.loads(question.round_trip.subject)["form"] == form
        answer = {"action": "accept", "content": {"x": 1}}
        with pytest.raises(InvalidParams):
            running.connector.answer(id_, {"action": "maybe"}, ANNA)
        running.connector.answer(id_, answer, ANNA)
        await ended
        assert running.agent.answers() == {"e1": answer}


# From afar.


async def test_a_decision_is_applied_and_says_by_whom(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        session = await relay.new_session(running.work)
        ended = running.prompt(session)
        [question] = await relay.until(relay.questions)
        relay.decide(question, YES, "d-1")
        done = await relay.outcome("d-1")
        await ended
        assert done.result["result"] == "applied"
        assert running.agent.answers() == {0: outcome("yes")}
        [said] = resolved(running, session)
        assert (said["result"], said["reason"]) == ("applied", "decided")
        assert said["by"] == {
            "subject": "alice",
            "tenant": "acme",
            "device": "pixel",
            "door": "page",
        }


async def test_a_decision_about_another_text_asks_again_under_a_new_id(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        session = await relay.new_session(running.work)
        running.prompt(session)
        [question] = await relay.until(relay.questions)
        params = {"id": question["id"], "hash": "0" * 64, "answer": YES, "decisionId": "d"}
        relay.send_mail("_bridge/decide", params, "d")
        done = await relay.outcome("d")
        assert (done.result["result"], done.result["reason"]) == ("void", "refused")
        [again] = await relay.until(lambda: [q for q in relay.questions() if q != question])
        assert again["id"] != question["id"]
        assert stamp(again)["roundTrip"]["subject"] == stamp(question)["roundTrip"]["subject"]
        assert running.agent.answers() == {}
        relay.decide(again, NO, "d-2")
        await running.until(lambda: running.agent.answers() == {0: outcome("no")})


async def test_a_decision_after_the_editor_s_answer_is_told_who_won(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        session = await relay.new_session(running.work)
        running.prompt(session)
        [question] = await relay.until(relay.questions)
        running.connector.answer(question["id"], NO, ANNA)
        relay.decide(question, YES, "late")
        done = await relay.outcome("late")
        assert (done.result["reason"], done.result["answer"]) == ("local", NO)
        await running.until(lambda: running.agent.answers() == {0: outcome("no")})


async def test_a_decision_that_comes_twice_is_applied_once(tmp_path):
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, turns=[[asks(), asks(id_=1)]]) as running,
    ):
        session = await relay.new_session(running.work)
        running.prompt(session)
        [question] = await relay.until(relay.questions)
        relay.decide(question, YES, "d-1")
        await relay.outcome("d-1")
        relay.resend_mail()
        [other] = await relay.until(relay.questions)
        relay.send_mail("session/cancel", {"sessionId": session}, "c")
        await relay.outcome("c")
        assert other["id"] != question["id"]
        assert [r["reason"] for r in resolved(running, session)] == ["decided", "cancelled"]


async def test_more_than_a_person_can_see_may_only_be_rejected_from_afar(tmp_path):
    huge = {"command": "echo " + "x" * (1 << 20)}
    steps = [asks({"rawInput": huge})]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[steps]) as running:
        session = await relay.new_session(running.work)
        ended = running.prompt(session)
        [question] = await relay.until(relay.questions)
        relay.decide(question, YES, "allow")
        assert (await relay.outcome("allow")).result["reason"] == "refused"
        [again] = await relay.until(lambda: [q for q in relay.questions() if q != question])
        relay.decide(again, NO, "reject")
        assert (await relay.outcome("reject")).result["result"] == "applied"
        await ended
        assert running.agent.answers() == {0: outcome("no")}


async def test_what_the_relay_counts_as_closed_is_asked_anew(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        session = await relay.new_session(running.work)
        running.prompt(session)
        [question] = await relay.until(relay.questions)
        relay.closed = [question["id"]]
        relay.tear()
        await relay.attached(2)
        [again] = await relay.until(lambda: [q for q in relay.questions() if q != question])
        relay.decide(again, YES, "d")
        await running.until(lambda: running.agent.answers() == {0: outcome("yes")})


async def test_origin_is_the_mail_s_never_the_params(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
        session = await relay.new_session(running.work)
        running.prompt(session)
        [question] = await relay.until(relay.questions)
        trip = stamp(question)["roundTrip"]
        params = {"id": trip["id"], "hash": trip["hash"], "answer": {**YES, "by": "eve"}}
        forged = {
            **params,
            "decisionId": "d",
            "by": {"subject": "eve"},
            "origin": {"subject": "eve"},
        }
        relay.send_mail("_bridge/decide", forged, "d")
        await relay.outcome("d")
        [said] = resolved(running, session)
        assert said["by"]["subject"] == ALICE.subject
        assert said["answer"] == YES
