"""What connectors keep: older pages and whole entries, over this process's uplink or another's."""

import asyncio
import json
import time

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.served import serving

from bridge import keys
from bridge.protocol import uplink
from bridge.protocol.acp import Role
from bridge.protocol.cursor import START


async def trimmed(process, connector):
    """Entries 1 to 3, the first of them no more at the relay."""
    await connector.store(*[connector.update(n) for n in (1, 2, 3)])
    held = keys.log("acme", "s1")
    await process.relay.store.commands.xtrim(held, minid=f"{connector.epoch}-2", approximate=False)


def at(connector, seq):
    return f"{connector.epoch}:{seq}"


def seqs(page):
    return [m["params"]["_meta"]["chimera.bridge"]["seq"] for m in page["entries"]]


async def give(connector, *results, asked=0):
    """Answer what the connector is asked, one after the other; gives the params of each."""
    seen = []
    for result in results:
        request = await connector.until(lambda m: m.get("method") == uplink.HISTORY, after=asked)
        asked = connector.got.index(request) + 1
        seen.append(request["params"])
        reply = {"jsonrpc": "2.0", "id": request["id"], **result}
        await connector.say(json.dumps(reply))
    return seen


def page(connector, *numbers, more=False):
    entries = [json.loads(connector.update(n)) for n in numbers]
    return {"result": {"entries": entries, "more": more, "first": "5:1", "sessionId": "s1"}}


async def test_what_the_log_has_no_more_comes_from_the_connector(process, connector, client):
    await trimmed(process, connector)
    newest = await client.call("_bridge/history", sessionId="s1")
    assert seqs(newest) == [2, 3]
    assert newest["more"] is True
    asking = asyncio.create_task(
        client.call("_bridge/history", sessionId="s1", before=at(connector, 2), limit=50)
    )
    (asked,) = await give(connector, page(connector, 1))
    assert asked == {"sessionId": "s1", "limit": 50, "before": at(connector, 2)}
    older = await asking
    assert seqs(older) == [1]
    assert older["more"] is False


async def test_the_first_entry_of_all_is_the_end_and_nobody_is_asked(connector, client):
    await connector.store(connector.update(1, prev=str(START)))
    assert (await client.call("_bridge/history", sessionId="s1"))["more"] is False


async def test_an_entry_is_given_in_pieces_while_other_requests_are_served(
    process, connector, client
):
    await trimmed(process, connector)
    asking = await client.ask(
        "_bridge/entry", {"sessionId": "s1", "at": at(connector, 1), "offset": 7}
    )
    assert (await client.call("_bridge/agents"))["agents"]
    piece = {"at": at(connector, 1), "offset": 7, "size": 9, "text": "é", "next": None}
    (asked,) = await give(connector, {"result": piece})
    assert asked == {"sessionId": "s1", "at": at(connector, 1), "offset": 7}
    assert await client.answer(asking) == piece


async def test_rest_gives_pages_and_pieces_too(process, connector):
    await trimmed(process, connector)
    piece = {"at": at(connector, 1), "offset": 0, "size": 1, "text": "x", "next": None}
    async with process.client() as asking, asyncio.TaskGroup() as tasks:
        answers = tasks.create_task(give(connector, page(connector, 1), {"result": piece}))
        got = (await asking.get(f"/api/sessions/s1/log?before={at(connector, 2)}")).json()
        assert [len(got["entries"]), got["more"]] == [1, False]
        assert (
            await asking.get(f"/api/sessions/s1/log/{at(connector, 1)}?limit=9")
        ).json() == piece
    assert answers.result()[1] == {
        "sessionId": "s1",
        "at": at(connector, 1),
        "offset": 0,
        "limit": 9,
    }


async def test_what_the_connector_refuses_is_refused_in_its_words(process, connector, client):
    await trimmed(process, connector)
    asking = asyncio.create_task(client.call("_bridge/entry", sessionId="s1", at="7:7"))
    error = {"code": -32002, "message": "no entry 7:7", "data": {"reason": "not_found"}}
    await give(connector, {"error": error})
    with pytest.raises(Refused) as refused:
        await asking
    assert refused.value.code == -32002


async def test_a_connector_that_is_away_is_named_with_its_machine(process, client, connector):
    await trimmed(process, connector)
    await connector.socket.close()
    while len(process.relay.uplinks):  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    async with process.client() as asking:
        answer = await asking.get(f"/api/sessions/s1/log?before={at(connector, 2)}")
    assert answer.status_code == 409
    said = answer.json()["error"]["message"]
    assert said.startswith("it is on mbp, which is disconnected")


async def test_a_connector_that_ends_meanwhile_fails_what_was_asked(process, connector, client):
    await trimmed(process, connector)
    asking = asyncio.create_task(client.call("_bridge/entry", sessionId="s1", at="7:7"))
    await connector.until(lambda m: m.get("method") == uplink.HISTORY)
    await connector.socket.close()
    with pytest.raises(Refused, match="meanwhile"):
        await asking


async def test_a_silent_line_is_given_up_soon(process, connector, client):
    """C19."""
    await trimmed(process, connector)
    begun = time.monotonic()
    with pytest.raises(Refused, match="does not answer"):
        await client.call("_bridge/entry", sessionId="s1", at="7:7")
    print(f"a silent line is told after {time.monotonic() - begun:.1f} s")
    assert time.monotonic() - begun < 5


async def test_a_client_asks_for_so_many_pages_at_once_and_no_more(process, connector, client):
    await trimmed(process, connector)
    asked = [await client.ask("_bridge/entry", {"sessionId": "s1", "at": "7:7"}) for _ in range(9)]
    with pytest.raises(Refused, match="on their way"):
        await client.answer(asked[-1])


async def test_another_tenant_gets_nothing(process, connector):
    await trimmed(process, connector)
    async with ClientPeer(process, tenant="globex") as stranger:
        await stranger.initialize()
        for method in ("_bridge/history", "_bridge/entry"):
            with pytest.raises(Refused) as refused:
                await stranger.call(method, sessionId="s1", at="7:7")
            assert refused.value.code == -32002


async def test_over_rest_nobody_gets_a_piece_without_a_token_or_of_another_tenant(
    process, connector
):
    await trimmed(process, connector)
    path = f"/api/sessions/s1/log/{at(connector, 1)}"
    async with process.client(None) as nobody, process.client(tenant="globex") as stranger:
        assert (await nobody.get(path)).status_code == 401
        foreign = await stranger.get(path)
    assert foreign.status_code == 404
    assert foreign.json()["error"]["reason"] == "not_found"


# Over two processes.


async def test_another_process_asks_the_one_that_has_the_uplink(process, redis_url):
    async with serving(redis_url) as second, UplinkPeer(process) as connector:
        await connector.hello("s1")
        await trimmed(process, connector)
        async with ClientPeer(second, Role.VIEWER) as client:
            await client.initialize()
            begun = time.monotonic()
            asking = asyncio.create_task(
                client.call("_bridge/history", sessionId="s1", before=at(connector, 2))
            )
            await give(connector, page(connector, 1))
            assert len((await asking)["entries"]) == 1
            print(f"a page over two processes: {1000 * (time.monotonic() - begun):.0f} ms")
            asking = asyncio.create_task(client.call("_bridge/entry", sessionId="s1", at="7:7"))
            error = {"code": -32002, "message": "no entry 7:7", "data": {"reason": "not_found"}}
            await give(connector, {"error": error}, asked=len(connector.got))
            with pytest.raises(Refused, match="no entry 7:7"):
                await asking


async def test_a_process_that_died_is_told_within_two_seconds(process, redis_url):
    """C19."""
    async with UplinkPeer(process) as connector:
        await connector.hello("s1")
        await trimmed(process, connector)
        dead = keys.claim("acme", "a1")
        await process.relay.store.commands.hset(dead, "node", "node-that-died")
        async with ClientPeer(process) as client:
            await client.initialize()
            begun = time.monotonic()
            with pytest.raises(Refused, match="it is on mbp, which is silent"):
                await client.call("_bridge/entry", sessionId="s1", at="7:7")
            print(f"a dead process is told after {time.monotonic() - begun:.1f} s")
