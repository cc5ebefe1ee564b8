"""Requests that wait for an agent: behind their turn's end, or with their mail's outcome."""

import pytest
from fakes.peers import ClientPeer, Refused

from bridge import waiting
from bridge.protocol import acp, uplink


async def test_a_prompt_is_answered_behind_its_turns_end_and_all_its_text(connector, client):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    assert mail["origin"]["subject"] == "alice"
    after = f"{connector.epoch}:4"
    await connector.done(mail, result={"stopReason": "end_turn"}, after=after)  # before its text
    await connector.store(
        connector.words(1, "m-1"),
        connector.turn(2, "started", "m-1"),
        connector.update(3),
        connector.turn(4, "ended", "m-1", stopReason="max_tokens"),
    )
    assert await client.answer(asked) == {"stopReason": "max_tokens"}
    assert client.seqs() == [2, 3, 4]
    assert client.got[-1]["id"] == asked


@pytest.mark.parametrize("outcome", [{"result": {}}, {"error": {"code": 1, "message": "broke"}}])
async def test_however_late_its_text_comes_a_prompt_is_not_answered_before(
    monkeypatch, connector, client, outcome
):
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.001)
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    await connector.done(mail, after=f"{connector.epoch}:2", **outcome)
    for _ in range(50):
        await client.call("session/list")
    await connector.store(connector.update(1), connector.turn(2, "ended", "m-1"))
    assert await client.answer(asked) == {"stopReason": "end_turn"}
    assert client.got[-1]["id"] == asked


async def test_a_turn_whose_end_was_shown_already_is_answered_by_its_outcome(connector, client):
    asked = await client.prompt("m-1")
    await connector.done(await connector.mail("session/prompt"), result={"stopReason": "refusal"})
    assert await client.answer(asked) == {"stopReason": "refusal"}


@pytest.mark.parametrize("echo", [True, False])
async def test_ones_own_words_come_back_only_when_asked_for(connector, client, other, echo):
    await other.load()
    asked = await client.prompt("m-1", echo=echo)
    await connector.mail("session/prompt")
    await connector.store(connector.words(1, "m-1"), connector.turn(2, "ended", "m-1"))
    await client.answer(asked)
    assert client.seqs() == ([1, 2] if echo else [2])
    await other.until(lambda _: other.seqs() == [1, 2])


async def test_ones_own_words_are_in_the_history_afterwards(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    await connector.store(connector.words(1, "m-1"), connector.turn(2, "ended", "m-1"))
    await client.answer(asked)
    await client.load()
    assert client.seqs() == [2, 1, 2]


async def test_a_turn_that_fails_is_an_error(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    error = {"code": -32603, "message": "the agent broke", "data": {}}
    await connector.store(connector.turn(1, "ended", "m-1", error=error))
    with pytest.raises(Refused, match="the agent broke"):
        await client.answer(asked)


async def test_a_turn_that_a_crash_cut_off_is_said_to_be_unknown(connector, client):
    asked = await client.prompt("m-1")
    await connector.mail("session/prompt")
    await connector.store(connector.turn(1, "unknown", "m-1"))
    with pytest.raises(Refused, match="is not known"):
        await client.answer(asked)


async def test_a_prompt_that_the_connector_refuses_is_an_error(connector, client):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    await connector.done(mail, error={"code": -32602, "message": "too late", "data": {}})
    with pytest.raises(Refused, match="too late"):
        await client.answer(asked)


async def test_a_prompt_without_words_is_refused_before_anything_is_sent(client):
    with pytest.raises(Refused, match="needs prompt"):
        await client.call("session/prompt", sessionId="s1")


async def test_the_same_mail_again_after_it_is_over_gives_the_same_answer(
    process, connector, client
):
    asked = await client.prompt("m-1")
    mail = await connector.mail("session/prompt")
    await connector.store(connector.turn(1, "ended", "m-1", stopReason="end_turn"))
    await connector.done(mail, result={"stopReason": "end_turn"})
    await client.answer(asked)
    await client.call("session/list")  # behind the outcome
    async with ClientPeer(process) as again:
        await again.initialize()
        assert await again.answer(await again.prompt("m-1")) == {"stopReason": "end_turn"}
    assert len(connector.all(uplink.MAIL)) == 1


async def test_the_same_mail_over_a_new_connection_waits_for_the_same_turn(
    process, connector, client
):
    await client.prompt("m-1")
    await connector.mail("session/prompt")
    await client.socket.close()
    async with ClientPeer(process) as again:
        await again.initialize()
        asked = await again.prompt("m-1")
        await again.until(lambda m: m.get("method") is None)
        await again.call("session/list")  # the prompt is served before it
        await connector.store(connector.turn(1, "ended", "m-1"))
        assert await again.answer(asked) == {"stopReason": "end_turn"}
    assert len(connector.all(uplink.MAIL)) == 1


async def test_a_mail_that_is_waited_for_and_sent_again_answers_both(connector, client):
    asked = [await client.prompt("m-1") for _ in range(2)]
    await client.call("session/list")  # both are taken by then
    await connector.store(connector.turn(1, "ended", "m-1"))
    assert [await client.answer(one) for one in asked] == [{"stopReason": "end_turn"}] * 2
    assert len(connector.all(uplink.MAIL)) == 1


async def test_another_request_that_is_cancelled_is_given_up(connector, client):
    asked = await client.ask("session/set_mode", {"sessionId": "s1", "modeId": "plan"})
    await connector.mail("session/set_mode")
    await client.notify(acp.CANCEL_REQUEST, {"requestId": asked})
    with pytest.raises(Refused) as refused:
        await client.answer(asked)
    assert refused.value.code == -32800
