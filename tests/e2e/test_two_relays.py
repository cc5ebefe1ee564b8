"""Two relay processes over one Redis: the connector at one, a dashboard at the other."""

import pytest
from e2e.asking import chosen
from e2e.conftest import Stage
from fakes.connector import FakeConnector
from fakes.running import asks
from fakes.site import Site


@pytest.fixture
async def both(tmp_path, redis_url):
    async with Site(tmp_path / "a", redis_url=redis_url) as a:
        keys = tmp_path / "a" / "relay"
        async with Site(tmp_path / "b", redis_url=redis_url, keys=keys) as b:
            yield a, b


async def test_a_stream_a_question_and_its_answer_pass_from_one_to_the_other(both, tmp_path):
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
    token = await a.token("agent", "box")
    count = 100
    async with (
        FakeConnector(a.url, token, "hasty") as hasty,
        await a.dashboard() as alice,
        await b.dashboard("bob") as bob,
    ):
        await hasty.greet()
        for person in (alice, bob):
            await person.load(hasty.session)
        for n in range(count):
            await hasty.ask(2 * n + 1, f"rt-{n}")
            await hasty.resolve(2 * n + 2, f"rt-{n}", result="applied", reason="rule")
        for person in (alice, bob):
            await person.has(hasty.session, count)
            await person.call("session/load", sessionId=hasty.session, cwd="/", mcpServers=[])
            await person.call("session/list")  # behind what load asks
            asked = {m["id"] for m in person.got if m["method"] == "session/request_permission"}
            withdrawn = [m["params"] for m in person.got if m["method"] == "$/cancel_request"]
            assert asked == {params["requestId"] for params in withdrawn}
            assert len(withdrawn) == len(asked)
