import asyncio
import itertools
import json
import os
import signal

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge import keys
from bridge.mail import parse_mail
from bridge.protocol.entry import Origin
from bridge.protocol.errors import InvalidParams, NotFound, Overloaded, StoreUnavailable
from bridge.protocol.round_trip import SUBJECT_LIMIT, Decision, Outcome, State, hash_of

FOR_LAWS = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_numbers = itertools.count(1)


async def mails(store, agent="a1"):
    return [
        parse_mail(id_.decode(), fields)
        for id_, fields in await store.commands.xrange(keys.mail("acme", agent))
    ]


async def audited(store, event: bytes) -> list[dict[bytes, bytes]]:
    found = await store.commands.xrange(keys.audit("acme"))
    return [fields for _, fields in found if fields[b"event"] == event]


# Opening.


async def test_a_question_is_recorded_with_its_entry(writer):
    cursor, text, _ = question = writer.question(1)
    await writer.append(question)

    record = await writer.round_trips.get("acme", "rt-1")

    assert record.state is State.OPEN
    assert (record.session_id, record.agent, record.cursor) == ("s1", "a1", cursor)
    assert record.entry == text
    assert record.option_ids == ["allow", "no"]
    assert hash_of(record.subject) == record.hash
    assert record.as_json()["toolCallId"] == "c1"
    assert "decision" not in record.as_json()


async def test_an_id_that_is_taken_is_not_opened_again(writer):
    await writer.append(writer.question(1), writer.question(2, subject=writer.subject("rm -rf /")))
    await writer.append(writer.question(1, subject=writer.subject("forged")), session="s2")
    assert "git push" in (await writer.round_trips.get("acme", "rt-1")).subject


async def test_a_subject_that_is_no_json_opens_with_options_of_no_kind(writer):
    await writer.append(writer.question(1, subject="plain words"))
    decided = await writer.decide("allow", hash_=hash_of("plain words"))
    assert decided.state is Outcome.RECORDED


# Deciding.


async def test_the_first_answer_is_recorded_mailed_and_audited(store, writer):
    await writer.append(writer.question(1))

    decided = await writer.decide("allow")

    assert (decided.state, decided.by) == (Outcome.RECORDED, Origin("alice"))
    assert decided.answer == {"optionId": "allow"}
    [mail] = await mails(store)
    assert mail.mail_id == "d-1"
    assert mail.origin == Origin("alice")
    assert mail.message == {
        "method": "_bridge/decide",
        "params": {
            "id": "rt-1",
            "sessionId": "s1",
            "hash": hash_of(writer.subject()),
            "answer": {"optionId": "allow"},
            "decisionId": "d-1",
        },
    }
    [entry] = await audited(store, b"decided")
    assert (entry[b"roundTrip"], entry[b"decisionId"]) == (b"rt-1", b"d-1")
    assert (await writer.round_trips.get("acme", "rt-1")).state is State.DECIDED


async def test_a_second_answer_is_told_who_won(writer):
    await writer.append(writer.question(1))
    await writer.decide("no", decision_id="d-1", who="alice")
    late = await writer.decide("allow", decision_id="d-2", who="bob")
    assert (late.state, late.by, late.answer) == (
        Outcome.LATE,
        Origin("alice"),
        {"optionId": "no"},
    )


async def test_the_same_decision_id_gives_the_same_outcome(store, writer):
    await writer.append(writer.question(1))
    first = await writer.decide()
    assert await writer.decide() == first
    await writer.append(writer.resolved(2))
    assert await writer.decide() == first
    assert len(await mails(store)) == len(await audited(store, b"decided")) == 1


async def test_a_late_answer_stays_late_after_the_end(writer):
    await writer.append(writer.question(1))
    await writer.decide()
    before = await writer.decide("no", decision_id="d-2", who="bob")
    await writer.append(writer.resolved(2))
    assert await writer.decide("no", decision_id="d-2", who="bob") == before


@pytest.mark.parametrize("reason", ["local", "cancelled", "turn_ended", "agent_exited", "rule"])
async def test_an_answer_after_another_end_is_told_how_it_ended(writer, reason):
    by = {"subject": "anna", "door": "editor"}
    await writer.append(writer.question(1))
    await writer.append(writer.resolved(2, result="void", reason=reason, by=by))
    decided = await writer.decide()
    assert (decided.state, decided.reason, decided.by) == (
        Outcome.CLOSED,
        reason,
        Origin("anna", door="editor"),
    )


async def test_an_answer_after_the_end_of_time_is_late(store, writer):
    past = await store.time_ms() - 1
    await writer.append(writer.question(1, expires_at=past))
    decided = await writer.decide()
    assert (decided.state, decided.reason) == (Outcome.LATE, "expired")
    assert await mails(store) == []
    await writer.append(writer.resolved(2, result="void", reason="expired"))
    assert (await writer.decide()).state is Outcome.LATE


async def test_an_answer_before_the_end_of_time_is_recorded(store, writer):
    await writer.append(writer.question(1, expires_at=await store.time_ms() + 60_000))
    assert (await writer.decide()).state is Outcome.RECORDED


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"hash_": hash_of("something else")}, "hash"),
        ({"option": "always"}, "unknown_option"),
        ({"option": ""}, "unknown_option"),
        ({"option": 7}, "unknown_option"),
        ({"option": None}, "unknown_option"),
    ],
)
async def test_an_answer_to_something_else_is_refused_and_nothing_recorded(
    store, writer, given, reason
):
    await writer.append(writer.question(1))
    decided = await writer.decide(**given)
    assert (decided.state, decided.reason) == (Outcome.REFUSED, reason)
    assert await mails(store) == []
    assert (await writer.round_trips.get("acme", "rt-1")).state is State.OPEN


async def test_a_subject_over_the_limit_can_only_be_rejected(writer):
    subject = writer.subject("x" * SUBJECT_LIMIT)
    await writer.append(writer.question(1, subject=subject))
    allowed = await writer.decide("allow", hash_=hash_of(subject))
    assert (allowed.state, allowed.reason) == (Outcome.REFUSED, "subject_too_big")
    assert (await writer.decide("no", hash_=hash_of(subject))).state is Outcome.RECORDED


@pytest.mark.attack("A33", "a question that its agent cut short, allowed through the API")
async def test_a_subject_that_was_cut_can_only_be_rejected(writer):
    """A33."""
    subject = json.dumps({**json.loads(writer.subject()), "truncated": True})
    await writer.append(writer.question(1, subject=subject))
    allowed = await writer.decide("allow", hash_=hash_of(subject))
    assert (allowed.state, allowed.reason) == (Outcome.REFUSED, "truncated")
    assert (await writer.decide("no", hash_=hash_of(subject))).state is Outcome.RECORDED


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"action": "accept", "content": {"name": "ä", "list": [], "n": 1.5}}, Outcome.RECORDED),
        ({"action": "decline"}, Outcome.RECORDED),
        ({"action": "perhaps"}, Outcome.REFUSED),
        ({"optionId": "allow"}, Outcome.REFUSED),
        ({}, Outcome.REFUSED),
    ],
    ids=str,
)
async def test_an_elicitation_takes_its_actions_and_keeps_the_content(store, writer, answer, state):
    await writer.append(writer.question(1, kind="elicitation"))
    decision = Decision("rt-1", hash_of(writer.subject()), answer, "d-1")
    decided = await writer.round_trips.decide("acme", decision, Origin("alice"))
    assert decided.state is state
    if state is Outcome.RECORDED:
        assert (await mails(store))[0].message["params"]["answer"] == answer
        assert (await writer.round_trips.get("acme", "rt-1")).decision.answer == answer


async def test_a_large_elicitation_can_only_be_declined(writer):
    subject = "x" * (SUBJECT_LIMIT + 1)
    await writer.append(writer.question(1, kind="elicitation", subject=subject))
    for action, state in (("accept", Outcome.REFUSED), ("cancel", Outcome.RECORDED)):
        decision = Decision("rt-1", hash_of(subject), {"action": action}, f"d-{action}")
        assert (await writer.round_trips.decide("acme", decision, Origin("a"))).state is state


async def test_a_decision_id_that_was_used_for_something_else_is_refused(writer):
    await writer.append(writer.question(1), writer.question(2, "rt-2"))
    await writer.decide(decision_id="d-1")
    again = await writer.decide(id_="rt-2", decision_id="d-1")
    assert (again.state, again.reason) == (Outcome.REFUSED, "decision_id_used")


async def test_full_mail_refuses_the_answer_and_records_nothing(store, writer):
    await writer.append(writer.question(1))
    for n in range(1000):
        await writer.send(f"m-{n}")
    with pytest.raises(Overloaded, match="nothing was recorded"):
        await writer.decide()
    assert (await writer.round_trips.get("acme", "rt-1")).state is State.OPEN
    assert await audited(store, b"decided") == []


async def test_of_two_hundred_answers_at_once_one_wins(store, writer):
    await writer.append(writer.question(1))
    decided = await asyncio.gather(
        *(
            writer.decide(("allow", "no")[n % 2], decision_id=f"d-{n}", who=f"p{n}")
            for n in range(200)
        )
    )
    [winner] = [each for each in decided if each.state is Outcome.RECORDED]
    assert {each.by for each in decided} == {winner.by}
    assert len(await mails(store)) == len(await audited(store, b"decided")) == 1


@FOR_LAWS
@given(data=st.data())
async def test_any_mix_of_answers_and_ends_gives_exactly_one_result(store, writer, data):
    session, id_ = f"law-{(n := next(_numbers))}", f"rt-{n}"
    await writer.append(writer.question(1, id_, session=session), session=session)
    step = st.one_of(
        st.tuples(st.sampled_from(["allow", "no", "other"]), st.integers(1, 4)),
        st.sampled_from(["applied", "void"]),
    )
    seq, winners, ended = 1, set(), []
    for step_ in data.draw(st.lists(step, min_size=4, max_size=12)):
        if isinstance(step_, str):
            seq += 1
            end = writer.resolved(seq, id_, session=session, result=step_, reason="cancelled")
            await writer.append(end, session=session)
            ended.append(step_)
        else:
            option, who = step_
            decision_id = f"d-{id_}-{who}"
            decided = await writer.decide(option, id_=id_, decision_id=decision_id, who=f"p{who}")
            if decided.state is Outcome.RECORDED:
                winners.add((decided.by.subject, decided.answer["optionId"]))
                assert decided.answer["optionId"] != "other"

    record = await writer.round_trips.get("acme", id_)
    posted = [mail for mail in await mails(store) if mail.message["params"].get("id") == id_]
    written = [
        fields
        for fields in await audited(store, b"decided")
        if fields[b"roundTrip"] == id_.encode()
    ]
    assert len(winners) == len(posted) == len(written) <= 1
    assert (record.decision is not None) == bool(winners)
    assert record.result == (ended[0] if ended else None)
    closes = [f for f in await audited(store, b"closed") if f[b"roundTrip"] == id_.encode()]
    assert len(closes) == min(1, len(ended))


# Closing.


async def test_the_end_is_recorded_once_and_the_entry_is_let_go(store, writer):
    await writer.append(writer.question(1))
    await writer.decide()
    by = {"subject": "alice", "device": "pixel", "door": "page"}
    await writer.append(writer.resolved(2, answer={"optionId": "allow"}, by=by))
    await writer.append(writer.resolved(3, result="void", reason="cancelled"))

    record = await writer.round_trips.get("acme", "rt-1")

    assert (record.state, record.result, record.reason) == (State.CLOSED, "applied", "decided")
    assert record.by == Origin("alice", device="pixel", door="page")
    assert record.answer == record.decision.answer == {"optionId": "allow"}
    assert record.entry is None
    assert record.as_json()["closedAt"]
    assert len(await audited(store, b"closed")) == 1


async def test_a_session_cannot_close_anothers_question(writer):
    await writer.append(writer.question(1))
    await writer.append(writer.resolved(1), session="s2")
    assert (await writer.round_trips.get("acme", "rt-1")).state is State.OPEN


async def test_an_end_of_an_unknown_question_changes_nothing(writer):
    assert (await writer.append(writer.resolved(1))).state == "ok"
    with pytest.raises(NotFound):
        await writer.round_trips.get("acme", "rt-1")


# Reading.


async def test_open_ones_are_listed_and_all_of_the_last_day_on_demand(writer):
    for n in range(1, 5):
        await writer.append(writer.question(n, f"rt-{n}", at=1_790_000_000_000 + n))
    await writer.decide(id_="rt-2")
    await writer.append(writer.resolved(5, "rt-3"))

    listed = await writer.round_trips.list("acme")
    everything = await writer.round_trips.list("acme", open_only=False)
    newest = await writer.round_trips.list("acme", open_only=False, limit=2)

    assert [record.id for record in listed] == ["rt-4", "rt-1"]
    assert [record.id for record in everything] == ["rt-4", "rt-3", "rt-2", "rt-1"]
    assert [record.id for record in newest] == ["rt-4", "rt-3"]


async def test_those_of_one_session_are_listed(writer):
    await writer.append(writer.question(1, "rt-1"), writer.question(2, "rt-2"))
    await writer.append(writer.question(1, "rt-3"), session="s2")
    await writer.append(writer.resolved(3, "rt-2"))
    listed = await writer.round_trips.list("acme", open_only=False, session_id="s1")
    assert {record.id for record in listed} == {"rt-1", "rt-2"}
    assert [r.id for r in await writer.round_trips.list("acme", session_id="s2")] == ["rt-3"]


async def test_the_closed_ones_of_some_are_named(writer):
    await writer.append(writer.question(1), writer.question(2, "rt-2"), writer.resolved(3, "rt-2"))
    assert await writer.round_trips.closed_of("acme", ["rt-1", "rt-2", "rt-9"]) == ["rt-2"]
    assert await writer.round_trips.closed_of("acme", []) == []


async def test_round_trips_of_another_tenant_are_unknown(writer):
    await writer.append(writer.question(1))
    decision = Decision("rt-1", hash_of(writer.subject()), {"optionId": "allow"}, "d-1")
    for tenant, id_ in (("globex", "rt-1"), ("acme", "rt-x")):
        with pytest.raises(NotFound, match=f"unknown round-trip '{id_}'"):
            await writer.round_trips.get(tenant, id_)
        with pytest.raises(NotFound, match=f"unknown round-trip '{id_}'"):
            await writer.round_trips.decide(
                tenant, msgspec.structs.replace(decision, id=id_), Origin("eve")
            )
    assert await writer.round_trips.list("globex", open_only=False) == []
    assert await writer.round_trips.closed_of("globex", ["rt-1"]) == []
    with pytest.raises(InvalidParams, match="decision id"):
        await writer.decide(decision_id="a b")


# Under faults.


async def test_a_lost_reply_records_one_decision(on_lossy_way, proxy, store):
    writer = on_lossy_way
    await writer.append(writer.question(1))
    proxy.lose_reply_to("d-lost")
    decided = await writer.decide(decision_id="d-lost")
    assert proxy.lost.is_set()
    assert decided.state is Outcome.RECORDED
    assert len(await mails(store)) == len(await audited(store, b"decided")) == 1


async def test_a_frozen_redis_records_nothing_that_was_not_said(on_own_server):
    writer, server = on_own_server
    await writer.append(writer.question(1))
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await writer.decide()
    finally:
        os.kill(server.pid, signal.SIGCONT)
    # What the frozen server does with it afterwards, the same answer again finds out.
    assert (await writer.decide()).state is Outcome.RECORDED
    assert len(await mails(writer.store)) == 1


async def test_a_decision_outlives_a_killed_redis(on_own_server):
    writer, server = on_own_server
    await writer.append(writer.question(1))
    first = await writer.decide()
    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    server.start()
    assert await writer.decide() == first
    assert len(await mails(writer.store)) == 1
