"""Entries and prompts over lost connections: each once, in order, nothing missing."""

import random

from e2e.asking import chosen, is_changed, opened_question
from fakes.cable import Cable
from fakes.dashboard import meta_of
from fakes.editor import is_method
from fakes.running import asks

STREAMED = 2_000


def texts(person, session):
    """What the agent said in a session, piece by piece."""
    updates = [m["params"]["update"] for m in person.entries(session, "session/update")]
    said = [u for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
    return [u["content"]["text"] for u in said]


def parts(count):
    return [f"part {n} " for n in range(count)]


async def test_an_answer_over_a_cut_line_is_recorded_first_and_applied_once(stage):
    """A04."""
    at = await stage(connect=False, turns=[[asks()]])
    async with Cable(at.site.url) as cable:
        await at.connect(relay=cable.url)
        alice, session = await at.opened(decide=True)
        await alice.call("_bridge/watch")
        turn = alice.prompt(session, "go")
        asked = await opened_question(alice, session)
        cable.cut()
        decided = await alice.decide(asked["id"], {"optionId": "yes"}, "d-1")
        assert decided["state"] == "recorded"
        (record,) = await alice.round_trips("all", session)
        assert (record["state"], "result" in record) == ("decided", False)
        cable.mend()
        shown = await alice.until(is_changed("roundTrip", id=asked["id"], state="closed"))
        assert shown["params"]["roundTrip"]["result"] == "applied"
        await alice.answer(turn)
    assert chosen(at.agent) == {0: "yes"}
    assert len([m for m in at.agent.lines("in") if "method" not in m]) == 1


async def test_what_is_said_while_a_dashboard_is_away_is_there_when_it_is_back(stage):
    """B01."""
    at = await stage(turns=[[{"chunks": 500, "every": 0.001, "apart": True}]])
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    alice.prompt(session, "go")
    await bob.has(session, 50)
    await bob.drop()
    await alice.has(session, 400)
    await bob.come_back(session)
    await bob.ended(session)
    assert texts(bob, session) == parts(500)


async def test_a_dashboard_that_comes_back_again_and_again_sees_each_entry_once(stage):
    """B02."""
    at = await stage(turns=[[{"chunks": STREAMED, "every": 0.0003, "apart": True}]])
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    alice.prompt(session, "go")
    chance = random.Random(7)
    for _ in range(50):
        await bob.has(session, min(bob.count(session) + chance.randrange(1, 60), STREAMED))
        await bob.drop()
        await bob.come_back(session)
    await bob.ended(session)
    assert bob.seqs(session) == list(range(1, bob.count(session) + 1))
    assert texts(bob, session) == parts(STREAMED)


async def test_a_prompt_that_is_sent_twice_runs_once_and_both_are_answered(stage):
    """B05, B07."""
    at = await stage(turns=[[{"chunks": 1, "text": "once"}], [{"chunks": 1, "text": "twice"}]])
    alice, session = await at.opened()
    bob = await at.joined(session, "bob")
    turns = [alice.prompt(session, "go", mailId="m-same") for _ in range(2)]
    again = bob.prompt(session, "go", mailId="m-same")
    for person, turn in ((alice, turns[0]), (alice, turns[1]), (bob, again)):
        assert (await person.answer(turn))["stopReason"] == "end_turn"
    after = bob.prompt(session, "go", mailId="m-same")
    assert (await bob.answer(after))["stopReason"] == "end_turn"
    assert len(at.agent.received("session/prompt")) == 1
    assert texts(alice, session) == ["once"]


async def test_a_prompt_whose_sender_was_cut_off_is_answered_when_sent_again(stage, tmp_path):
    """B08."""
    gate = tmp_path / "gate"
    at = await stage(turns=[[{"delay_until_file": str(gate)}, {"chunks": 1, "text": "once"}]])
    alice, session = await at.opened()
    alice.prompt(session, "go", mailId="m-cut")
    await alice.until(is_method("_bridge/turn"))
    await alice.drop()
    await alice.come_back(session)
    turn = alice.prompt(session, "go", mailId="m-cut")
    gate.touch()
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    assert len(at.agent.received("session/prompt")) == 1


async def test_after_a_hole_the_relay_asks_again_and_shows_nothing_beyond_it(shared_site):
    """B10."""
    async with (
        await shared_site.uplink("holed") as connector,
        await shared_site.dashboard() as alice,
    ):
        await connector.hello("s-holed")
        await alice.load("s-holed")
        parts = {seq: connector.update(seq, session="s-holed") for seq in range(1, 10)}
        await connector.store(*(parts[seq] for seq in range(1, 7)), session="s-holed")
        await connector.say(parts[8])
        assert await connector.resend_asked() == 6
        await connector.store(*(parts[seq] for seq in (7, 8, 9)), session="s-holed")
        await alice.has("s-holed", 9)
        assert alice.seqs("s-holed") == list(range(1, 10))
        assert [m for m in alice.got if m["method"] == "_bridge/gap"] == []


async def test_what_the_agent_says_after_its_turn_is_shown_behind_the_turns_end(stage, tmp_path):
    """B16."""
    gate, late = tmp_path / "gate", {"chunks": 1, "text": "and this"}
    at = await stage(
        turns=[[{"chunks": 1, "text": "done"}, {"late": [{"delay_until_file": str(gate)}, late]}]]
    )
    alice, session = await at.opened()
    await alice.answer(alice.prompt(session, "go"))
    gate.touch()
    await alice.until(lambda _: "and this" in texts(alice, session))
    said = [m for m in alice.entries(session) if m["method"] == "session/update"]
    (end,) = [m for m in alice.entries(session) if is_end(m)]
    assert meta_of(said[-1])["seq"] > meta_of(end)["seq"]
    await alice.leave()
    await alice.come()
    await alice.load(session)
    assert texts(alice, session)[2:] == ["done", "and this"]


async def test_connector_and_dashboard_come_back_to_a_relay_that_was_killed(own_stage, own_site):
    stream = {"chunks": 400, "every": 0.002, "apart": True}
    made = {"chunks": 1, "text": "made"}
    at = await own_stage(turns=[[asks({}, 0, wait=False), stream, {"await": 0}, made]])
    alice, session = await at.opened()
    alice.prompt(session, "go", mailId="m-1", echo=True)
    asked = await alice.question()
    await alice.has(session, 100)
    await own_site.kill_relay()
    await alice.closed()
    await own_site.start_relay()
    await alice.come_back(session)
    again = await alice.question(after=alice.got.index(asked) + 1)
    turn = alice.prompt(session, "go", mailId="m-1")  # waits for the turn that runs
    alice.choose(again, "yes")
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    assert chosen(at.agent) == {0: "yes"}
    assert "".join(texts(alice, session)) == "".join([*parts(400), "made"])  # joined while away
    seqs = {meta_of(m)["seq"] for m in alice.got if "seq" in meta_of(m)}
    assert seqs == set(range(1, max(seqs) + 1))  # questions too
    assert len(alice.seqs(session)) == len(set(alice.seqs(session)))


def is_end(message):
    return message["method"] == "_bridge/turn" and message["params"]["state"] == "ended"
