"""Two relay processes over one Redis: the connector at one, a dashboard at the other."""

import pytest
from e2e.asking import chosen
from e2e.conftest import Stage
from fakes.running import asks
from fakes.site import Site


@pytest.fixture(scope="module")
async def both(tmp_path_factory, redis_server):
    folder = tmp_path_factory.mktemp("both")
    async with Site(folder / "a", redis_url=redis_server) as a:
        keys = folder / "a" / "relay"
        async with Site(folder / "b", redis_url=redis_server, keys=keys) as b:
            yield a, b


async def test_a_stream_a_question_and_its_answer_pass_from_one_to_the_other(both, tmp_path):
    """B09."""
    a, b = both
    script = {"turns": [[{"chunks": 300}, asks(), {"chunks": 300}], [asks()]]}
    at = Stage(a, tmp_path, script)
    await at.connect()
    alice, session = await at.opened()
    bob = await at.stack.enter_async_context(await b.dashboard("bob"))
    await bob.load(session)
    turn = bob.prompt(session, "go", echo=True)
    asked = [await person.question() for person in (alice, bob)]
    bob.choose(asked[1], "yes")
    assert (await bob.answer(turn))["stopReason"] == "end_turn"
    await alice.ended(session)
    told = await alice.resolved("call-0", state="closed")
    assert told["by"]["subject"] == "bob"
    await alice.withdrawn(asked[0])
    assert alice.entries(session) == bob.entries(session)
    assert len(at.agent.received("session/prompt")) == 1
    assert bob.seqs(session) == sorted(set(bob.seqs(session)))
    again = alice.prompt(session, "go")
    asked = [
        await p.question(after=p.got.index(q) + 1) for p, q in zip((alice, bob), asked, strict=True)
    ]
    alice.choose(asked[0], "no")
    await alice.answer(again)
    await bob.withdrawn(asked[1])
    assert chosen(at.agent) == {0: "no"}
    status = [await person.call("_bridge/status", sessionId=session) for person in (alice, bob)]
    await at.stack.aclose()
    await at.connector.end()
    assert status[0]["state"] == status[1]["state"] == "attached"


async def test_questions_that_are_over_at_once_leave_nobody_asked(both):
    a, b = both
    count, at = 100, {"session": "s-hasty"}
    async with (
        await a.uplink("hasty") as hasty,
        await a.dashboard() as alice,
        await b.dashboard("bob") as bob,
    ):
        await hasty.hello("s-hasty")
        for person in (alice, bob):
            await person.load("s-hasty")
        for n in range(count):
            await hasty.say(hasty.question(2 * n + 1, f"rt-{n}", **at))
            await hasty.say(hasty.resolved(2 * n + 2, f"rt-{n}", reason="rule", **at))
        for person in (alice, bob):
            await person.has("s-hasty", count)
            await person.load("s-hasty")
            await person.call("session/list")  # behind what load asks
            asked = {m["id"] for m in person.got if m["method"] == "session/request_permission"}
            withdrawn = [m["params"] for m in person.got if m["method"] == "$/cancel_request"]
            assert asked == {params["requestId"] for params in withdrawn}
            assert len(withdrawn) == len(asked)
