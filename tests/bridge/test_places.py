"""An uplink's sessions when the store was away: nothing acknowledged is lost, nothing said once."""

import asyncio
import contextlib
import time

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.served import serving
from websockets.exceptions import InvalidStatus

from bridge import keys
from bridge.protocol import acp, entry, uplink
from bridge.protocol.cursor import START
from bridge.protocol.entry import META_KEY

ANSWERED_WITHIN_SECONDS = 3.5


@pytest.fixture
async def on_own(own_server):
    """A relay with a server of its own, and an attached connector."""
    async with serving(own_server.start()) as relay, UplinkPeer(relay) as peer:
        await peer.hello("s1")
        yield relay, peer


async def forget(process, *names):
    await process.relay.store.commands.delete(*names)


async def forget_log(process, session="s1"):
    """Lose a session's entries as a store does that comes back older."""
    await forget(process, keys.log("acme", session), keys.meta("acme", session))


async def stored(process):
    return [cursor.seq for cursor, _ in await process.relay.log.read("acme", "s1", START)]


async def send_again(connector, entries):
    before = len(connector.got)
    for text in entries:
        await connector.say(text)
    await connector.acknowledged(len(entries), after=before)


# The store has lost entries.


async def test_what_was_acknowledged_and_is_lost_is_asked_for_again(process, connector):
    entries = [connector.update(seq) for seq in (1, 2, 3)]
    await connector.store(*entries)
    await forget_log(process)
    process.relay.uplinks.recovered()
    assert await connector.resend_asked() == 0
    await send_again(connector, entries)
    assert await stored(process) == [1, 2, 3]


async def test_what_is_still_stored_is_not_asked_for_again(process, connector):
    await connector.store(connector.update(1))
    process.relay.uplinks.recovered()
    await connector.call(uplink.TOKEN, token=connector.token)  # behind the comparison
    assert not any(m["params"]["resend"] for m in connector.all(uplink.ACK))


async def test_a_loss_that_the_next_entry_shows_is_asked_for_from_what_is_stored(
    process, connector
):
    entries = [connector.update(seq) for seq in (1, 2, 3)]
    await connector.store(*entries[:2])
    await forget_log(process)
    await connector.say(entries[2])
    assert await connector.resend_asked() == 0
    await send_again(connector, entries)
    assert await stored(process) == [1, 2, 3]


async def test_a_question_that_was_lost_is_asked_once(process, connector):
    async with ClientPeer(process) as client:
        await client.initialize()
        await client.load()
        entries = [connector.update(1), connector.question(2)]
        await connector.store(*entries)
        await client.question()
        await forget_log(process)
        await forget(process, keys.round_trip("acme", "rt-1"), keys.asked("acme", "s1"))
        process.relay.uplinks.recovered()
        await connector.resend_asked()
        await send_again(connector, entries)
        assert len((await client.call("_bridge/round_trips"))["roundTrips"]) == 1
        assert len(client.questions) == 1


async def test_a_claim_that_the_store_lost_is_taken_again_by_hello(process, connector):
    await connector.store(connector.update(1))
    await process.relay.store.commands.flushall()
    process.relay.uplinks.recovered()
    assert await connector.closed() == 1012  # not 4409: the connector shall come again
    async with UplinkPeer(process, epoch=connector.epoch) as again:
        result = await again.hello("s1")
        assert result["sessions"][0]["seq"] == 0


async def test_an_entry_under_a_lost_claim_makes_the_connector_come_again(process, connector):
    await process.relay.store.commands.flushall()
    await connector.say(connector.update(1))
    assert await connector.closed() == 1012


# The store is away.


async def test_while_the_store_is_away_requests_fail_soon_and_the_sockets_stay(own_server, on_own):
    relay, connector = on_own
    async with ClientPeer(relay) as client:
        await client.initialize()
        await client.load()
        own_server.stop()
        begun = time.monotonic()
        with pytest.raises(Refused) as refused:
            await client.call("session/list")
        assert time.monotonic() - begun < ANSWERED_WITHIN_SECONDS
        assert refused.value.code == -32013
        await connector.notify(uplink.PING, {"n": 1})
        await connector.told(uplink.PONG, n=1)
        own_server.start()
        async with asyncio.timeout(15):
            while True:
                try:
                    assert await client.call("session/list")
                    break
                except Refused:
                    pass


async def test_what_comes_during_an_outage_is_shown_at_once_and_acknowledged_after_it(
    own_server, on_own
):
    relay, connector = on_own
    async with ClientPeer(relay) as client:
        await client.initialize()
        await client.load()
        own_server.stop()
        await connector.say(connector.update(1))
        await client.until(lambda _: client.seqs() == [1])
        assert connector.all(uplink.ACK) == []
        own_server.start()
        await connector.acknowledged(1)
    assert await stored(relay) == [1]


async def test_a_connector_that_comes_during_an_outage_is_told_to_come_again(own_server, on_own):
    relay, connector = on_own
    own_server.stop()
    with pytest.raises(InvalidStatus) as refused:
        async with UplinkPeer(relay, epoch=connector.epoch):
            pass  # whose token it is can only be said by the store
    assert refused.value.response.status_code == 503
    assert refused.value.response.headers["Retry-After"] == "2"
    own_server.start()


async def test_a_session_cannot_be_loaded_during_an_outage_but_after_it(own_server, on_own):
    relay, connector = on_own
    await connector.store(connector.update(1))
    async with ClientPeer(relay) as client:
        await client.initialize()
        own_server.stop()
        with pytest.raises(Refused, match="redis"):
            await client.load()
        own_server.start()
        async with asyncio.timeout(15):
            while client.seqs() != [1]:
                with contextlib.suppress(Refused):
                    await client.load()


async def test_a_card_that_comes_during_an_outage_is_kept(own_server, on_own):
    relay, connector = on_own
    own_server.stop()
    await connector.notify(uplink.SESSION, connector.card("s2"))
    await connector.say(connector.update(1, session="s2"))
    await connector.notify(uplink.PING, {"n": 1})
    await connector.told(uplink.PONG, n=1)
    own_server.start()
    await connector.acknowledged(1, session="s2")
    assert (await relay.relay.sessions.get("acme", "s2")).agent == "a1"


async def test_an_answer_given_during_an_outage_counts_after_it(own_server, on_own, heard):
    relay, connector = on_own
    async with ClientPeer(relay) as client:
        await client.initialize()
        await client.load()
        await connector.store(connector.question(1))
        asked = await client.question()
        own_server.stop()
        waits = heard("waits for the store")
        await client.choose(asked)
        await asyncio.wait_for(waits.wait(), 10)
        own_server.start()
        decide = await connector.mail(acp.DECIDE)
    assert decide["message"]["params"]["answer"] == {"optionId": "allow"}


async def test_a_store_that_comes_back_empty_is_filled_again(own_server, on_own):
    relay, connector = on_own
    await connector.store(connector.update(1))
    await relay.relay.store.commands.flushall()
    own_server.stop()
    own_server.start()
    assert await connector.closed() == 1012
    async with connector:
        result = await connector.hello("s1")
        assert result["sessions"][0]["seq"] == 0
        await connector.store(connector.update(1))


async def test_a_watcher_is_told_of_what_changed_after_an_outage(own_server, on_own):
    relay, connector = on_own
    async with ClientPeer(relay) as client:
        await client.initialize(decide=True)
        await client.call("_bridge/watch")
        own_server.stop()
        await connector.say(connector.question(1))
        own_server.start()
        changed = await client.until(lambda m: "roundTrip" in m.get("params", {}))
    assert changed["params"]["roundTrip"]["id"] == "rt-1"
    assert META_KEY not in changed["params"]
    assert entry.PERMISSION not in [m.get("method") for m in client.got]
