"""Questions that nobody answers: they wait, unless the owner says otherwise."""

import asyncio

import pytest
from fakes.relay import FakeRelay
from fakes.running import ANNA, Running, asks, stamp

from agent_side import unanswered
from agent_side.deadlines import Deadlines
from agent_side.unanswered import End, Unanswered
from bridge.protocol import entry


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("wait", ()),
        ("expire:30m", (Unanswered(End.EXPIRE, 1800),)),
        ("escalate:5m,deny:1h", (Unanswered(End.ESCALATE, 300), Unanswered(End.DENY, 3600))),
    ],
)
def test_a_policy_is_read(text, ends):
    assert unanswered.parse(text) == ends


@pytest.mark.parametrize("text", ["", "expire", "expire:0s", "expire:1m,deny:2m", "drop:1m", "1m"])
def test_a_policy_that_says_nothing_plain_is_refused(text):
    with pytest.raises(ValueError, match=r"none of|two things"):
        unanswered.parse(text)


async def test_a_question_waits_for_ever_by_default(tmp_path):
    """A21."""
    deadlines = Deadlines((), lambda *_: pytest.fail("nothing ends it"))
    deadlines.arm("rt-1", 0)
    assert deadlines.ends_after_ms is None
    async with Running(tmp_path, turns=[[asks()]]) as running:
        running.prompt(await running.session())
        [id_] = await running.asked()
        assert running.connector.questions[id_].round_trip.expires_at is None


async def test_a_question_that_was_answered_has_no_end_any_more():
    due: asyncio.Queue[str] = asyncio.Queue()
    deadlines = Deadlines((Unanswered(End.ESCALATE, 0),), lambda id_, _: due.put_nowait(id_))
    deadlines.arm("rt-1", 0)
    deadlines.arm("rt-2", 0)
    deadlines.disarm("rt-1")
    async with asyncio.timeout(20):
        assert await due.get() == "rt-2"
    assert due.empty()


async def test_the_agent_is_told_that_nobody_answered_and_never_that_somebody_refused(tmp_path):
    """A17, A22, A23: expired is cancelled and denied is the option; neither is a person's."""
    for policy, told in (("expire:1s", None), ("deny:1s", "no")):
        folder = tmp_path / policy[:3]
        settings = {"unanswered": policy}
        async with Running(folder, turns=[[asks()]], settings=settings) as running:
            session = await running.session()
            await running.prompt(session)
            answer = running.agent.answers()[0]
            assert answer["outcome"].get("optionId") == told
            assert answer["_meta"]["chimera.bridge"]["reason"] == "expired"
            [said] = [m["params"] for m in running.entries(session, entry.RESOLVED)]
            assert (said["result"], said["reason"]) == ("void", "expired")
            assert "by" not in said


async def test_a_question_is_called_out_again_and_stays_open(tmp_path):
    settings = {"unanswered": "escalate:1s"}
    async with Running(tmp_path, turns=[[asks()]], settings=settings) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        await running.until(lambda: running.entries(session, entry.ESCALATED))
        running.connector.answer(id_, {"optionId": "yes"}, ANNA)
        await ended
        assert running.agent.answers()[0]["outcome"]["optionId"] == "yes"


async def test_a_question_s_end_is_told_by_the_relay_s_clock(tmp_path):
    """R21."""
    async with FakeRelay() as relay:
        relay.ahead_ms = 3_600_000
        settings = {"unanswered": "expire:30m"}
        async with Running(tmp_path, relay=relay, turns=[[asks()]], settings=settings) as running:
            await relay.attached()
            session = await running.session()
            running.prompt(session)
            [id_] = await running.asked()
            question = running.connector.questions[id_]
            end = entry.milliseconds(question.round_trip.expires_at)
            assert abs(end - question.asked_at - 5_400_000) < 60_000
            [shown] = await relay.until(relay.questions)
            assert stamp(shown)["roundTrip"]["expiresAt"] == question.round_trip.expires_at
