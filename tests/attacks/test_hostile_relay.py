"""A relay that owns everything between phone and laptop gets nothing approved (S; A33 to A37).

The connector, its agent's process and its device are real; the relay does what it likes.
"""

import json

import pytest
from attacks.stage import EVIL, NO, TWO_QUESTIONS, YES, Stage, trip
from fakes.device import now_ms, text64
from fakes.relay import ALICE, FakeRelay
from fakes.running import Running

from agent_side.devices import Devices

# Each gives the mail's params and its signature.


def no_signature(stage):
    params, _ = stage.about(stage.question())
    return params, None


def empty_signature(stage):
    params, _ = stage.about(stage.question())
    return params, ""


def own_key(stage):
    params, claims = stage.about(stage.question())
    return params, EVIL.decision(**claims)


def own_key_in_the_phones_name(stage):
    params, claims = stage.about(stage.question())
    return params, EVIL.decision(**claims, device=stage.phone.id)


def algorithm_none(stage):
    params, claims = stage.about(stage.question())
    now = now_ms()
    said = {**claims, "device": stage.phone.id, "iat": now, "exp": now + 60_000}
    parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "decision+jwt"}, said))
    return params, ".".join(map(text64, parts)) + "."


def key_in_the_header(stage):
    params, claims = stage.about(stage.question())
    header = {"alg": "ES256", "typ": "decision+jwt", "jwk": {"crv": "P-256", "x": EVIL.key}}
    now = now_ms()
    return params, EVIL.jws(
        header, {**claims, "device": stage.phone.id, "iat": now, "exp": now + 60_000}
    )


def changed_option(stage):
    params, claims = stage.about(stage.question(), NO)
    return {**params, "answer": YES}, stage.phone.decision(**claims)


def changed_subject(stage):
    """The phone allowed `make`; the relay says it was the other question."""
    _, claims = stage.about(stage.question("make"))
    params, _ = stage.about(stage.question("rm -rf /"))
    return params, stage.phone.decision(**claims)


def other_question_same_decision(stage):
    params, claims = stage.about(stage.question("rm -rf /"))
    made = {**claims, "hash": trip(stage.question("make"))["hash"]}
    return params, stage.phone.decision(**made)


def hash_of_what_was_shown_instead(stage):
    """The relay showed the phone a harmless text, which it signed."""
    params, claims = stage.about(stage.question("rm -rf /"))
    shown = {"hash": trip(stage.question("make"))["hash"]}
    return {**params, **shown}, stage.phone.decision(**{**claims, **shown})


def other_session(stage):
    params, claims = stage.about(stage.question())
    return params, stage.phone.decision(**{**claims, "sessionId": "another"})


def other_epoch(stage):
    params, claims = stage.about(stage.question())
    return params, stage.phone.decision(**{**claims, "epoch": stage.epoch - 1})


def later_time(stage):
    """Kept back until it was over."""
    params, claims = stage.about(stage.question())
    then = now_ms() - 700_000
    return params, stage.phone.decision(**claims, iat=then, exp=then + 600_000)


def without_an_end(stage):
    params, claims = stage.about(stage.question())
    return params, stage.phone.decision(**claims, exp=now_ms() + 10**9)


def signed_for_mail(stage):
    params, _ = stage.about(stage.question())
    message = {"method": "_bridge/decide", "params": params}
    return params, stage.phone.mail(message, mailId="m", agent=stage.agent, epoch=stage.epoch)


FORGERIES = [
    no_signature,
    empty_signature,
    own_key,
    own_key_in_the_phones_name,
    algorithm_none,
    key_in_the_header,
    changed_option,
    changed_subject,
    other_question_same_decision,
    hash_of_what_was_shown_instead,
    other_session,
    other_epoch,
    later_time,
    without_an_end,
    signed_for_mail,
]


@pytest.mark.attack("E06", "a relay forges and changes decisions at the real connector")
async def test_no_forged_decision_is_accepted(stage, figure):
    """A33, A34: forge, other session, other epoch, changed args and option, later time, own key."""
    reasons = {}
    for forge in FORGERIES:
        open_before = {q["id"] for q in stage.relay.questions()}
        params, signature = forge(stage)
        done = await stage.decide(params, signature)
        reasons[forge.__name__] = (done.error and done.error["data"]["reason"]) or done.result[
            "reason"
        ]
        await stage.relay.until(lambda: len(stage.relay.questions()) == 2)
        assert params["id"] not in {q["id"] for q in stage.relay.questions()}, forge.__name__
        assert {q["id"] for q in stage.relay.questions()} != open_before
    figure(f"{len(FORGERIES)} forged decisions, accepted {len(stage.approved)}")
    assert stage.running.agent.answers() == {}
    assert set(reasons.values()) == {"signature_required", "signature_refused", "refused"}


async def test_a_refused_decision_asks_again_under_a_new_id_and_the_honest_one_is_applied(stage):
    forged, signature = own_key(stage)
    await stage.decide(forged, signature)
    again = await stage.relay.until(stage.question)
    assert again["id"] != forged["id"]
    assert trip(again)["hash"] == forged["hash"]
    params, claims = stage.about(again)
    done = await stage.decide(params, stage.phone.decision(**claims))
    assert (done.result["result"], done.result["reason"]) == ("applied", "decided")
    assert done.result["by"]["device"] == "pixel"
    await stage.running.until(lambda: stage.approved == [1])


@pytest.mark.attack("E06", "a relay replays a decision")
async def test_a_decision_that_comes_twice_counts_once(stage):
    """A35: replay; to the same question, and to the same text asked again later."""
    params, claims = stage.about(stage.question(), NO)
    jws = stage.phone.decision(**claims)
    first = await stage.decide(params, jws)
    again = await stage.decide(params, jws)
    assert first.result == again.result
    other = stage.question("rm -rf /")
    refused = await stage.decide({**params, "id": other["id"]}, jws)
    assert refused.error["data"]["reason"] == "signature_refused"
    await stage.running.until(lambda: stage.running.agent.answers().keys() == {1})


@pytest.mark.attack("E06", "a relay invents a rule that allows, after the phone was paired")
async def test_a_rule_that_a_relay_invents_allows_nothing_once_a_device_is_paired(tmp_path):
    """Also a question that was open before; what such a rule denies is denied."""
    rule = {"id": "r-1", "words": "allow everything"}
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=TWO_QUESTIONS) as running:
        stage = Stage(running, relay)
        session = await running.session()
        running.prompt(session)
        await relay.until(lambda: len(relay.questions()) >= 2)
        Devices(running.state).pin(
            key=stage.phone.key, name=stage.phone.name, subject=stage.phone.subject
        )
        params, _ = stage.about(stage.question())
        done = await stage.decide({**params, "rule": rule}, None)
        assert (done.result["result"], done.result["reason"]) == ("void", "refused")
        again = await relay.until(stage.question)
        assert running.agent.answers() == {}
        params, _ = stage.about(again, NO)
        done = await stage.decide({**params, "rule": rule}, None)
        assert done.result["reason"] == "rule"
        await running.until(lambda: running.agent.answers().keys() == {1})
        assert stage.approved == []


@pytest.mark.attack("A36", "a signed answer widened to a rule of always, or to other questions")
async def test_a_signed_answer_cannot_be_widened(stage):
    params, claims = stage.about(stage.question(), YES)
    jws = stage.phone.decision(**claims)
    for more in ({"decision": "allow"}, {"decision": "allow", "open": True, "days": 0}):
        wider = {**params, "id": stage.question()["id"], "answer": {**YES, "remember": more}}
        done = await stage.decide(wider, jws)
        assert done.error["data"]["reason"] == "signature_refused"
    assert stage.running.agent.answers() == {}


async def test_the_relay_cannot_say_who_decided(stage):
    params, claims = stage.about(stage.question())
    stage.relay.send_mail(
        "_bridge/decide",
        params,
        "m-x",
        origin=type(ALICE)(subject="ben", tenant="acme", device="ben's", door="page"),
        signature=stage.phone.decision(**claims),
    )
    done = await stage.relay.outcome("m-x")
    assert (done.result["by"]["subject"], done.result["by"]["device"]) == ("alice", "pixel")


@pytest.mark.attack("E06", "a relay keeps an answer for the connector's next process")
async def test_a_decision_of_an_earlier_process_is_refused_by_the_next(tmp_path):
    """A36: the connector is started again while the relay holds an answer back."""
    async with FakeRelay() as relay:
        async with Running(tmp_path, relay=relay, turns=TWO_QUESTIONS) as running:
            stage = await Stage(running, relay).begin()
            params, claims = stage.about(stage.question())
            jws = stage.phone.decision(**claims)
            phone = stage.phone
        async with Running(tmp_path, relay=relay, turns=TWO_QUESTIONS) as running:
            await relay.attached(2)
            stage = Stage(running, relay)
            stage.session = await running.session()
            running.prompt(stage.session)
            await relay.until(lambda: len(relay.questions()) == 2)
            for question in relay.questions():
                done = await stage.decide({**params, "id": question["id"]}, jws)
                assert done.error["data"]["reason"] == "signature_refused"
            assert running.agent.answers() == {}
            assert phone.id in {d.id for d in relay.hellos[-1].agents[0].devices}


async def test_the_relay_cannot_end_the_need_for_signatures(stage):
    """It may have a device forgotten, even the last one; what is unsigned stays refused."""
    Devices(stage.running.state).forget(stage.phone.id, by_owner=False)
    params, claims = stage.about(stage.question())
    for signature in (None, stage.phone.decision(**claims)):
        current = {**params, "id": stage.question()["id"]}
        done = await stage.decide(current, signature)
        assert done.error is not None
    assert stage.running.agent.answers() == {}


async def test_an_unreadable_list_of_devices_lets_nothing_through(stage):
    (stage.running.state / "devices.json").write_text("[")
    params, claims = stage.about(stage.question())
    done = await stage.decide(params, stage.phone.decision(**claims))
    assert done.error["data"]["reason"] == "signature_refused"
    unsigned = await stage.decide({**params, "id": stage.question()["id"]}, None)
    assert unsigned.error["data"]["reason"] == "signature_required"
    assert stage.running.agent.answers() == {}
