"""What a relay may decide by rules or for two people, judged again at the connector."""

import pytest
from fakes.device import FakeDevice
from fakes.relay import ALICE, FakeRelay
from fakes.running import ANNA, Running, asks, stamp

from agent_side.devices import Devices

YES, NO = {"optionId": "yes"}, {"optionId": "no"}
RULE = {"id": "r-1", "words": "refuse every question"}


class Stage:
    """A machine that asks one question, two phones, and a relay that does what it likes."""

    def __init__(self, relay, running):
        self.relay, self.running = relay, running
        self.alice, self.bob = FakeDevice(), FakeDevice("pixel 2", "bob")
        self.count = 0

    async def begin(self, *phones):
        for phone in phones:
            Devices(self.running.state).pin(key=phone.key, name=phone.name, subject=phone.subject)
        await self.relay.attached()
        self.session = await self.running.session()
        self.running.prompt(self.session)
        return await self.question()

    async def question(self):
        [found] = await self.relay.until(self.relay.questions)
        return found

    def about(self, question, answer=YES):
        self.count += 1
        return {
            "id": question["id"],
            "sessionId": self.session,
            "hash": stamp(question)["roundTrip"]["hash"],
            "answer": answer,
            "decisionId": f"d-{self.count}",
        }

    def signed(self, phone, params, **other):
        epoch = self.relay.hellos[-1].epoch
        return phone.decision(**{**params, "epoch": epoch, **other})

    def first(self, phone, params, **other):
        """The first approval as a relay brings it; another decision of the same question."""
        self.count += 1
        claims = {**params, "decisionId": f"d-{self.count}", **other}
        by = {"subject": phone.subject, "tenant": "acme"}
        signature = self.signed(phone, claims)
        return {"decisionId": claims["decisionId"], "by": by, "signature": signature}

    async def decide(self, params, signature=None, origin=ALICE):
        self.count += 1
        mail_id = f"m-{self.count}"
        self.relay.send_mail("_bridge/decide", params, mail_id, signature=signature, origin=origin)
        return await self.relay.outcome(mail_id)

    async def is_told(self, *options):
        """Wait until the agent has read these answers."""
        await self.running.until(lambda: self.answered == list(options))

    @property
    def answered(self):
        return [a["outcome"].get("optionId") for a in self.running.agent.answers().values()]


@pytest.fixture
async def make(tmp_path):
    async with FakeRelay() as relay:
        runs = []

        async def started(**settings):
            running = Running(tmp_path, relay=relay, turns=[[asks()]], settings=settings)
            await running.__aenter__()
            runs.append(running)
            return Stage(relay, running)

        yield started
        for running in runs:
            await running.stop()


async def test_two_signed_approvals_of_two_people_are_applied(make):
    stage = await make(two_people="medium")
    question = await stage.begin(stage.alice, stage.bob)
    assert stamp(question)["roundTrip"]["people"] == 2
    params = stage.about(question)
    mail = {**params, "first": stage.first(stage.bob, params)}
    done = await stage.decide(mail, stage.signed(stage.alice, params))
    assert (done.result["result"], done.result["by"]["subject"]) == ("applied", "alice")
    assert done.result["also"]["subject"] == "bob"
    await stage.is_told("yes")


@pytest.mark.attack("A15", "one person's approval of what takes two")
@pytest.mark.parametrize(
    "trick",
    [
        "alone",
        "twice the same device",
        "another device of one person",
        "unsigned first",
        "first of another answer",
        "first of another question",
        "first of a stranger",
    ],
)
async def test_no_relay_makes_two_people_of_one(make, trick, figure):
    stage = await make(two_people="medium")
    second = FakeDevice("tablet", "alice")
    question = await stage.begin(stage.alice, stage.bob, second)
    params = stage.about(question)
    first = {
        "alone": None,
        "twice the same device": stage.first(stage.alice, params),
        "another device of one person": stage.first(second, params),
        "unsigned first": {"decisionId": "d-x", "by": {"subject": "bob"}},
        "first of another answer": stage.first(stage.bob, params, answer=NO),
        "first of another question": stage.first(stage.bob, params, id="rt-other"),
        "first of a stranger": stage.first(FakeDevice("x", "eve"), params),
    }[trick]
    mail = params if first is None else {**params, "first": first}
    await stage.decide(mail, stage.signed(stage.alice, params))
    assert stage.answered == []
    again = await stage.question()
    assert again["id"] != question["id"]
    figure(f"executed {len(stage.answered)}")


async def test_one_denial_is_enough(make):
    stage = await make(two_people="medium")
    params = stage.about(await stage.begin(stage.alice), NO)
    done = await stage.decide(params, stage.signed(stage.alice, params))
    assert done.result["result"] == "applied"
    await stage.is_told("no")


async def test_where_nothing_is_signed_two_names_are_needed(make):
    stage = await make(two_people="medium")
    params = stage.about(await stage.begin())
    first = {"decisionId": "d-0", "by": {"subject": "alice"}}
    refused = await stage.decide({**params, "first": first})
    assert refused.error is not None
    params = stage.about(await stage.question())
    first = {"decisionId": "d-00", "by": {"subject": "bob"}}
    done = await stage.decide({**params, "first": first})
    assert (done.result["result"], done.result["also"]["subject"]) == ("applied", "bob")


async def test_what_takes_two_is_allowed_by_no_preset_and_no_rule(make):
    stage = await make(two_people="medium", approval="full")
    question = await stage.begin()
    params = {**stage.about(question), "rule": RULE}
    done = await stage.decide(params)
    assert done.result["reason"] == "refused"
    assert stage.answered == []


# Rules of the relay.


@pytest.mark.parametrize(
    ("answer", "expired", "told", "reason"),
    [(NO, False, "no", "rule"), ({}, False, None, "rule"), ({}, True, None, "expired")],
)
async def test_a_rule_of_the_relay_may_refuse_and_end_without_a_signature(
    make, answer, expired, told, reason
):
    stage = await make()
    params = stage.about(await stage.begin(stage.alice), answer)
    done = await stage.decide({**params, "rule": RULE, "expired": expired})
    assert (done.result["result"], done.result["reason"]) == ("void", reason)
    assert done.result["rule"] == RULE
    assert "by" not in done.result
    await stage.is_told(told)


@pytest.mark.attack("A36", "an approval by a rule that the relay invents")
@pytest.mark.parametrize(
    ("settings", "is_paired", "is_taken"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"relay_rules": "on"}, True, True),
        ({"relay_rules": "off"}, False, False),
        ({"relay_rules": "on", "approval": "strict"}, True, False),
    ],
)
async def test_a_rule_of_the_relay_allows_only_where_the_owner_took_that(
    make, settings, is_paired, is_taken, figure
):
    stage = await make(**settings)
    question = await stage.begin(*([stage.alice] if is_paired else []))
    asked = stamp(question)["roundTrip"]
    assert asked.get("relayRules", False) == is_taken
    done = await stage.decide({**stage.about(question), "rule": RULE})
    assert done.result["reason"] == ("rule" if is_taken else "refused")
    if is_taken:
        await stage.is_told("yes")
    else:
        assert list(stage.running.connector.questions) != [question["id"]]
        figure(f"executed {len(stage.answered)}")


async def test_the_owner_s_later_word_comes_before_a_rule_of_the_relay(make):
    stage = await make(relay_rules="on")
    question = await stage.begin()
    connector = stage.running.connector
    connector.set_approval(stage.session, "strict", ANNA)
    done = await stage.decide({**stage.about(question), "rule": RULE})
    assert done.result["reason"] == "refused"
    connector.set_approval(stage.session, "suggest", ANNA)
    [again] = connector.questions.values()
    connector.rules.add(again.scope, "deny", ANNA)
    done = await stage.decide({**stage.about(await stage.question()), "rule": RULE})
    assert done.result["rule"]["words"].startswith("never run exactly")
    await stage.is_told("no")


async def test_a_rule_about_another_text_than_what_runs_allows_nothing(make):
    stage = await make(relay_rules="on")
    params = {**stage.about(await stage.begin()), "hash": "0" * 64, "rule": RULE}
    done = await stage.decide(params)
    assert done.result["reason"] == "refused"
    assert stage.answered == []
