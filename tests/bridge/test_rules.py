"""A tenant's rules in the store, and what they change in deciding."""

import asyncio
import itertools

import msgspec
import pytest

from bridge import keys
from bridge.dry_run import of as dry_run
from bridge.mail import parse_mail
from bridge.protocol.entry import Origin
from bridge.protocol.errors import InvalidParams, NotFound, PasskeyRequired
from bridge.protocol.round_trip import Decision, Outcome, RuleNote, State, hash_of
from bridge.rules import MOST, Rules, made
from bridge.warden import Warden

ROOT = Origin("root")
_numbers = itertools.count(1)


@pytest.fixture
def rules(store, inbox):
    return Rules(store, inbox)


class Holders:
    """An uplink that is here."""

    def held(self):
        return {("acme", "a1")}


@pytest.fixture
def warden(store, rules, writer):
    return Warden(store, rules, writer.round_trips, Holders())


async def add(rules, action, position=None, **wish):
    return await rules.add("acme", made({"action": action, **wish}, ROOT, 0), position)


async def answer(writer, option="allow", who="alice", *, signature=None, passkey="", remember=None):
    given = {"optionId": option} | ({"remember": remember} if remember else {})
    decision = Decision("rt-1", hash_of(writer.subject()), given, f"d-{next(_numbers)}")
    decide = writer.round_trips.decide
    return await decide("acme", decision, Origin(who), signature, passkey=passkey)


async def mails(store):
    found = await store.commands.xrange(keys.mail("acme", "a1"))
    return [parse_mail(id_.decode(), fields) for id_, fields in found]


async def events(store):
    found = await store.commands.xrange(keys.audit("acme"))
    return [fields[b"event"].decode() for _, fields in found]


# The list.


async def test_rules_keep_their_order_and_each_change_is_in_the_audit(store, rules):
    last = await add(rules, "deny", match={"tools": ["delete"]})
    before = await add(rules, "ask", 0, match={"agents": ["claude"]})
    listed = await rules.of("acme")
    assert listed.rules == [before, last]
    await rules.remove("acme", last.id, ROOT)
    assert (await rules.of("acme")).rules == [before]
    assert (await rules.of("acme")).version != listed.version
    assert await events(store) == ["rule_added", "rule_added", "rule_removed"]
    assert (await rules.of("other")).rules == []
    with pytest.raises(NotFound):
        await rules.remove("acme", last.id, ROOT)


async def test_changes_at_the_same_time_all_count(rules):
    await asyncio.gather(*(add(rules, "ask") for _ in range(4)))
    assert len((await rules.of("acme")).rules) == 4


@pytest.mark.parametrize(
    "wish",
    [
        {"action": "shrug"},
        {"action": "expire"},
        {"action": "deny", "seconds": 5},
        {"action": "allow"},
        {"action": "deny", "match": {"tool": ["x"]}},
        {"action": "deny", "match": {"tools": [""]}},
        {"action": "deny", "note": "x" * 501},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(wish):
    with pytest.raises(InvalidParams):
        made(wish, ROOT, 0)


async def test_there_is_an_end_to_how_many(store, rules):
    many = [msgspec.to_builtins(made({"action": "ask"}, ROOT, 0))] * MOST
    held = {"version": "v", "rules": msgspec.json.encode(many)}
    await store.commands.hset(keys.rules("acme"), mapping=held)
    with pytest.raises(InvalidParams, match="at most 200"):
        await add(rules, "ask")


# Deciding.


async def test_what_a_rule_denies_cannot_be_allowed_and_can_be_denied(rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "deny")
    refused = await answer(writer)
    assert (refused.state, refused.reason) == (Outcome.REFUSED, "rule")
    assert (await answer(writer, "no")).state is Outcome.RECORDED


async def test_two_people_must_approve_and_both_answers_travel(store, rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "two_people")
    first = await answer(writer, who="alice", signature="jws-1")
    assert first.state is Outcome.NEEDS_ANOTHER
    record = await writer.round_trips.get("acme", "rt-1")
    assert record.state is State.OPEN
    assert record.as_json()["half"]["by"] == {"subject": "alice"}
    assert record.as_json()["needs"]["people"] == 2
    assert await mails(store) == []
    again = await answer(writer, who="alice")
    assert (again.state, again.reason) == (Outcome.REFUSED, "same_person")
    wider = await answer(writer, who="bob", remember={"decision": "allow"})
    assert (wider.state, wider.reason) == (Outcome.REFUSED, "other_answer")
    assert (await answer(writer, who="bob", signature="jws-2")).state is Outcome.RECORDED
    [mail] = await mails(store)
    assert mail.signature == "jws-2"
    assert mail.message["params"]["first"]["signature"] == "jws-1"
    assert mail.message["params"]["first"]["by"] == {"subject": "alice"}
    assert await events(store) == ["rule_added", "first_approval", "decided"]


async def test_one_denial_ends_what_takes_two(store, rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "two_people")
    await answer(writer, who="alice")
    assert (await answer(writer, "no", who="alice")).state is Outcome.RECORDED
    [mail] = await mails(store)
    assert "first" not in mail.message["params"]


async def test_the_same_first_approval_again_is_the_same(rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "two_people")
    decision = Decision("rt-1", hash_of(writer.subject()), {"optionId": "allow"}, "d-same")
    decide = writer.round_trips.decide
    first = await decide("acme", decision, Origin("alice"))
    assert await decide("acme", decision, Origin("alice")) == first


async def test_of_many_at_the_same_time_two_are_taken(store, rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "two_people")
    people = [f"p{n}" for n in range(10)]
    told = await asyncio.gather(*(answer(writer, who=who) for who in people))
    states = [one.state for one in told]
    assert states.count(Outcome.NEEDS_ANOTHER) == states.count(Outcome.RECORDED) == 1
    assert states.count(Outcome.LATE) == 8
    assert len(await mails(store)) == 1


async def test_the_machine_s_own_wish_for_two_counts_without_any_rule(writer):
    cursor, text, envelope = writer.question(1)
    asked = msgspec.structs.replace(envelope.meta.round_trip, people=2)
    text = text.replace(b'"optionIds"', b'"people":2,"optionIds"')
    from bridge.protocol import entry

    assert entry.read(text).meta.round_trip == asked
    await writer.append((cursor, text, entry.read(text)))
    assert (await answer(writer)).state is Outcome.NEEDS_ANOTHER


@pytest.mark.attack("S23", "an approval of a dangerous class without a passkey's touch")
async def test_an_approval_without_the_passkey_that_a_rule_wants_is_refused(
    store, rules, writer, figure
):
    """S23."""
    await writer.append(writer.question(1))
    await add(rules, "passkey")
    with pytest.raises(PasskeyRequired):
        await answer(writer)
    assert await mails(store) == []
    figure(f"accepted without {len(await mails(store))}")
    assert (await answer(writer, passkey="pk-1")).state is Outcome.RECORDED


async def test_a_rule_made_while_a_question_is_open_counts_for_it(rules, writer):
    await writer.append(writer.question(1))
    assert (await writer.round_trips.get("acme", "rt-1")).as_json().get("needs") is None
    await add(rules, "two_people", match={"agents": ["claude"], "hosts": ["mbp"]})
    record = await writer.round_trips.get("acme", "rt-1")
    assert record.needs["people"] == 2
    assert (await answer(writer)).state is Outcome.NEEDS_ANOTHER


async def test_a_question_past_a_rule_s_end_cannot_be_answered(store, rules, writer):
    await writer.append(writer.question(1))
    await add(rules, "expire", seconds=60)
    record = await writer.round_trips.get("acme", "rt-1")
    assert record.end == record.opened_at + 60_000
    opened = await store.time_ms() - 61_000
    await store.commands.hset(keys.round_trip("acme", "rt-1"), "opened_at", opened)
    late = await answer(writer)
    assert (late.state, late.reason) == (Outcome.LATE, "expired")


# By themselves.


async def test_a_denial_by_rule_is_mailed_unsigned_and_named(store, rules, writer, warden):
    await writer.append(writer.question(1))
    rule = await add(rules, "deny")
    await warden.look()
    await warden.look()
    [mail] = await mails(store)
    assert mail.origin == Origin(f"rule {rule.id}", "acme", door="rule")
    assert mail.message["params"]["answer"] == {"optionId": "no"}
    assert mail.message["params"]["rule"] == {"id": rule.id, "words": "refuse every question"}
    late = await answer(writer)
    assert (late.state, late.by.door) == (Outcome.LATE, "rule")


async def test_an_allow_by_rule_waits_for_a_machine_that_takes_it(store, rules, writer, warden):
    await writer.append(writer.question(1))
    await add(rules, "allow", match={"agents": ["claude"]})
    await warden.look()
    assert await mails(store) == []
    await store.commands.hset(keys.round_trip("acme", "rt-1"), "relay_rules", "1")
    await warden.look()
    [mail] = await mails(store)
    assert mail.message["params"]["answer"] == {"optionId": "allow"}


async def test_an_end_by_rule_is_no_denial(store, rules, writer, warden):
    await writer.append(writer.question(1))
    await add(rules, "expire", seconds=60)
    await warden.look()
    assert await mails(store) == []
    opened = await store.time_ms() - 61_000
    await store.commands.hset(keys.round_trip("acme", "rt-1"), "opened_at", opened)
    await warden.look()
    [mail] = await mails(store)
    assert (mail.message["params"]["answer"], mail.message["params"]["expired"]) == ({}, True)


async def test_an_escalation_is_told_once_and_the_question_stays_open(store, rules, writer, warden):
    await writer.append(writer.question(1))
    await add(rules, "escalate", seconds=1)
    opened = await store.time_ms() - 2_000
    await store.commands.hset(keys.round_trip("acme", "rt-1"), "opened_at", opened)
    await warden.look()
    await warden.look()
    record = await writer.round_trips.get("acme", "rt-1")
    assert record.state is State.OPEN
    assert "escalatedAt" in record.as_json()
    assert (await events(store)).count("escalated") == 1


async def test_an_unsigned_end_by_rule_is_taken_where_signatures_are_needed(store, writer):
    from bridge.protocol.uplink import AgentCard

    card = AgentCard("a1", "claude", signed="required")
    await writer.take_claim(card=card, writer="w2")
    await writer.append(writer.question(1))
    assert (await answer(writer)).reason == "signature"
    note = RuleNote("r-1", "refuse")
    await writer.round_trips.decide_by_rule("acme", "rt-1", {"optionId": "no"}, note)
    assert len(await mails(store)) == 1


# What machines tell of their own.


async def test_a_question_that_a_machine_s_rule_decided_unasked_is_in_the_audit(store, writer):
    told = {
        "result": "void",
        "reason": "rule",
        "rule": {"id": "r-9", "words": "always make"},
        "asked": {"title": "make", "hash": "0" * 64, "risk": "low"},
        "answer": {"optionId": "allow"},
    }
    await writer.append(writer.resolved(1, id_="rt-x", **told))
    [(_, fields)] = await store.commands.xrange(keys.audit("acme"))
    assert (fields[b"event"], fields[b"reason"], fields[b"rule"]) == (b"closed", b"rule", b"r-9")
    assert fields[b"title"] == b"make"
    assert b"by" not in fields
    with pytest.raises(NotFound):
        await writer.round_trips.get("acme", "rt-x")


# The dry run.


async def test_a_dry_run_says_what_would_have_become_of_each_and_changes_nothing(
    store, rules, writer
):
    await writer.append(writer.question(1), writer.question(2, id_="rt-2"))
    await answer(writer)
    tried = [made({"action": "deny", "match": {"agents": ["claude"]}}, ROOT, 0)]
    found = await dry_run(writer.round_trips, "acme", tried)
    assert found["counts"] == {"deny": 2}
    assert {one["id"]: one["was"] for one in found["questions"]} == {
        "rt-1": "allowed",
        "rt-2": "open",
    }
    assert (await rules.of("acme")).rules == []
    assert len(await mails(store)) == 1
