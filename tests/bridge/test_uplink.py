"""A connector's connection: claim, entries up, acknowledgements and mail down."""

import asyncio
import contextlib
import dataclasses
import time

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.served import serving
from websockets.exceptions import ConnectionClosed

from bridge import keys
from bridge.agents import RENEW_SECONDS
from bridge.protocol import uplink
from bridge.protocol.attachment import Reason, State
from bridge.protocol.cursor import START
from bridge.protocol.entry import Origin

CANCEL = {"method": "session/cancel", "params": {"sessionId": "s1"}}
ALICE = Origin("alice", "acme")


async def send(process, mail_id, tenant="acme"):
    return await process.relay.mailbox.send(tenant, "a1", mail_id, ALICE, CANCEL, None)


async def attachment(process, state, reason=None):
    """Wait until the agent's attachment is in a state."""
    async with asyncio.timeout(10):
        while True:
            found = (await process.relay.agents.get("acme", "a1")).attachment
            if found.state == state and reason in (None, found.reason):
                return found
            await asyncio.sleep(0.01)


# Hello.


async def test_hello_is_answered_with_what_is_stored_and_what_is_closed(process, connector):
    await connector.store(connector.update(1), connector.question(2), connector.resolved(3))
    async with UplinkPeer(process, epoch=connector.epoch) as again:
        result = await again.hello("s1", "s2", opened=("rt-1", "rt-2"))
    stored = {s["sessionId"]: (s["epoch"], s["seq"]) for s in result["sessions"]}
    assert stored == {"s1": (connector.epoch, 3), "s2": (0, 0)}
    assert result["closed"] == ["rt-1"]
    assert result["relay"]["node"] == process.relay.node
    assert result["limits"]["windowEntries"] == uplink.WINDOW_ENTRIES


@pytest.mark.parametrize(
    "first",
    [b'{"jsonrpc":"2.0","method":"uplink/ping","params":{"n":1}}', b"no json", b"[]", b'{"id":1}'],
    ids=["ping", "no JSON", "a list", "no method"],
)
async def test_whatever_comes_before_hello_closes_as_a_protocol_error(process, first):
    async with UplinkPeer(process) as peer:
        await peer.say(first)
        assert await peer.closed() == 1002


async def test_hello_without_an_agent_is_refused(process):
    async with UplinkPeer(process) as peer:
        fields = {"epoch": 1, "writer": "w", "connector": {"version": "1"}, "agents": []}
        with pytest.raises(Refused, match="no agent"):
            await peer.call(uplink.HELLO, **fields)
        assert await peer.closed() == 4400


async def test_a_session_of_another_agent_is_refused(process, connector):
    async with UplinkPeer(process, "a2") as other:
        with pytest.raises(Refused, match="unknown session"):
            await other.hello("s1")
        assert await other.closed() == 4404


async def test_an_epoch_days_ahead_is_refused_with_the_way_out(process):
    ahead = time.time_ns() // 10**6 + 3 * 24 * 3600 * 1000
    async with UplinkPeer(process, epoch=ahead) as peer:
        with pytest.raises(Refused, match="set this machine's clock"):
            await peer.hello()


async def test_what_comes_together_with_hello_is_taken_after_it(process):
    async with UplinkPeer(process) as peer:
        hello = asyncio.create_task(peer.hello("s1"))
        await asyncio.sleep(0)
        await peer.store(peer.update(1), peer.update(2))
        assert (await hello)["sessions"][0]["seq"] == 0


# The claim.


async def test_an_older_epoch_is_refused_and_told_which_one_holds(process, connector):
    async with UplinkPeer(process, epoch=connector.epoch - 1, writer="w0") as late:
        with pytest.raises(Refused) as refused:
            await late.hello()
        assert refused.value.data["epoch"] == connector.epoch
        assert await late.closed() == 4409


async def test_a_newer_process_takes_over_and_the_older_one_is_closed(process, connector):
    async with UplinkPeer(process, writer="w2", epoch=connector.epoch + 1) as newer:
        await newer.hello("s1")
        with contextlib.suppress(ConnectionClosed):
            await connector.say(connector.update(1))
        assert await connector.closed() == 4409
        await newer.store(newer.update(1))


async def test_an_older_one_at_another_relay_process_is_told_at_once(
    redis_url, process, connector, figure
):
    async with (
        serving(redis_url, state_dir=process.settings.state_dir) as second,
        UplinkPeer(second, writer="w2", epoch=connector.epoch + 1) as newer,
    ):
        await newer.hello("s1")
        began = time.monotonic()
        assert await connector.closed() == 4409
        figure(f"the older connector was told after {(time.monotonic() - began) * 1000:.0f} ms")


async def test_an_older_one_that_says_nothing_is_closed_when_its_claim_is_renewed(
    process, connector
):
    async with UplinkPeer(process, writer="w2", epoch=connector.epoch + 1) as newer:
        await newer.hello("s1")
        process.relay.uplinks.recovered()  # renews at once
        assert await connector.closed() == 4409


async def test_the_end_of_an_old_connection_does_not_end_the_new_one(process, connector):
    async with UplinkPeer(process, epoch=connector.epoch) as again:
        await again.hello("s1")
        await connector.socket.close()
        await again.store(again.update(1))
        await attachment(process, "attached")


# Entries.


async def test_entries_are_acknowledged_when_they_are_stored(process, connector):
    await connector.store(connector.update(1), connector.update(2))
    assert (await process.relay.log.last("acme", "s1")).seq == 2


async def test_a_repeat_is_acknowledged_and_stored_once(process, connector):
    await connector.store(connector.update(1), connector.update(2))
    before = len(connector.got)
    await connector.say(connector.update(1))
    await connector.acknowledged(2, after=before)
    assert len(await process.relay.log.read("acme", "s1", START)) == 2


async def test_after_a_hole_it_is_asked_once_to_send_again(process, connector):
    await connector.store(connector.update(1))
    for seq in (3, 4, 5):
        await connector.say(connector.update(seq))
    assert await connector.resend_asked() == 1
    await connector.store(*(connector.update(seq) for seq in range(2, 6)))
    assert sum(m["params"]["resend"] for m in connector.all(uplink.ACK)) == 1


async def test_a_second_hole_is_asked_for_as_well(connector):
    await connector.store(connector.update(1))
    await connector.say(connector.update(3))
    assert await connector.resend_asked() == 1
    await connector.store(connector.update(2))
    await connector.store(connector.update(3))
    before = len(connector.got)
    await connector.say(connector.update(5))
    assert await connector.resend_asked(after=before) == 3


async def test_entries_wait_for_their_sessions_card(connector):
    await connector.say(connector.update(1, session="s2"))
    await connector.say(connector.update(2, session="s2"))
    await connector.notify(uplink.SESSION, connector.card("s2"))
    await connector.acknowledged(2, session="s2")


async def test_entries_that_never_get_a_card_close_the_uplink(monkeypatch, connector):
    monkeypatch.setattr(uplink, "WINDOW_ENTRIES", 3)
    for seq in range(1, 5):
        await connector.say(connector.update(seq, session="nobodys"))
    assert await connector.closed() == 4400


async def test_a_card_of_a_foreign_session_is_not_taken(process, connector):
    async with UplinkPeer(process, "a2") as other:
        await other.hello()
        await other.notify(uplink.SESSION, other.card("s1"))
        await other.say(other.update(1))
        await other.notify(uplink.PING, {"n": 7})
        await other.told(uplink.PONG, n=7)
        await connector.store(connector.update(1, "mine"))
        stored = await process.relay.log.read_before("acme", "s1", None, 10)
    assert len(stored) == 1
    assert b"mine" in stored[0][1]


async def test_the_same_session_id_in_another_tenant_is_another_session(process, connector):
    async with UplinkPeer(process, tenant="other") as other:
        await other.hello("s1")
        await connector.store(connector.update(1))
        await other.store(other.update(1), other.update(2))
    assert (await process.relay.log.last("acme", "s1")).seq == 1


@pytest.mark.parametrize(
    "text",
    [b"no json", b"7", b'{"jsonrpc":"2.0","method":"session/update","params":{}}', b'{"id":1.5}'],
    ids=["no JSON", "a number", "an entry without a number", "an id that is a fraction"],
)
async def test_what_cannot_be_read_closes_the_uplink(connector, text):
    await connector.say(text)
    assert await connector.closed() == 4400


async def test_a_question_whose_id_cannot_be_one_closes_the_uplink(connector):
    await connector.say(connector.question(1, "no id/at all"))
    assert await connector.closed() == 4400


async def test_an_agents_card_is_stored(process, connector):
    card = {"id": "a1", "name": "claude", "title": "New", "modes": ["plan"]}
    await connector.notify(uplink.AGENT, card)
    await connector.call(uplink.TOKEN, token=connector.token)  # behind it
    assert (await process.relay.agents.get("acme", "a1")).card.title == "New"


async def test_who_sends_faster_than_the_store_takes_is_told_to_come_again(monkeypatch, connector):
    monkeypatch.setattr("bridge.uplink.MAX_ERRANDS", 2)
    for _ in range(200):
        await connector.notify(uplink.SESSION, connector.card("s1"))
    assert await connector.closed() == 1013


async def test_an_unknown_request_is_refused_and_the_link_lives(connector):
    with pytest.raises(Refused) as refused:
        await connector.call("uplink/nothing")
    assert refused.value.code == -32601
    await connector.store(connector.update(1))


# Mail.


async def test_mail_is_delivered_and_forgotten_when_it_is_journaled(process, connector):
    n = await send(process, "m-1")
    mail = await connector.mail("session/cancel")
    assert (mail["mailId"], mail["n"], mail["origin"]["subject"]) == ("m-1", n, "alice")
    await connector.notify(uplink.MAIL_JOURNALED, {"upTo": n})
    await connector.call(uplink.TOKEN, token=connector.token)
    assert await process.relay.store.commands.xlen(keys.mail("acme", "a1")) == 0


async def test_mail_that_is_not_journaled_comes_again_on_the_next_connection(process, connector):
    first = await send(process, "m-1")
    await send(process, "m-2")
    await connector.until(lambda m: m.get("params", {}).get("mailId") == "m-2")
    async with UplinkPeer(process, epoch=connector.epoch) as again:
        await again.hello("s1", journaled=first)
        mail = await again.mail("session/cancel")
    assert mail["mailId"] == "m-2"


@pytest.mark.parametrize("params", [{}, {"upTo": "all"}, {"upTo": 1.5}], ids=str)
async def test_a_malformed_acknowledgement_of_mail_changes_nothing(process, connector, params):
    await send(process, "m-1")
    await connector.notify(uplink.MAIL_JOURNALED, params)
    await connector.call(uplink.TOKEN, token=connector.token)
    assert await process.relay.store.commands.xlen(keys.mail("acme", "a1")) == 1


async def test_a_mails_outcome_said_before_goodbye_is_kept(process, connector):
    await send(process, "m-1")
    mail = await connector.mail("session/cancel")
    await connector.done(mail, result={})
    await connector.notify(uplink.GOODBYE, {"reason": "stopped"})
    await connector.socket.close()
    await attachment(process, "ended")
    assert await process.relay.mailbox.outcome("acme", "m-1") is not None


# The end.


async def test_goodbye_ends_the_agent(process, connector):
    await connector.notify(uplink.GOODBYE, {"reason": "stopped"})
    await connector.socket.close()
    await attachment(process, "ended", Reason.SAID_GOODBYE)


async def test_a_lost_socket_is_disconnected_at_first(process, connector):
    connector.socket.transport.abort()
    await attachment(process, "disconnected", Reason.SOCKET_CLOSED)


async def test_a_relay_that_stops_tells_the_connector_to_come_again(redis_url):
    async with serving(redis_url) as first, UplinkPeer(first) as peer:
        await peer.hello("s1")
        first.server.should_exit = True
        assert await peer.closed() == 1012
        await first.stopped()
    async with serving(redis_url) as second:
        await attachment(second, "disconnected", Reason.RELAY_RESTARTING)


async def test_a_revoked_token_ends_the_uplink(process, connector):
    (connection,) = process.relay.uplinks._all
    process.relay.identities.closed(connection.identity.token_id)
    assert await connector.closed() == 4401
    await attachment(process, "disconnected", Reason.TOKEN_REVOKED)


async def test_a_token_that_has_ended_ends_the_uplink(process, connector):
    (connection,) = process.relay.uplinks._all
    connection.identity = dataclasses.replace(connection.identity, expires_at=1)
    assert await connector.closed() == 4401
    await attachment(process, "disconnected", Reason.TOKEN_EXPIRED)


async def test_a_fresh_token_is_taken_in_band(process, connector):
    fresh = process.token(kind="agent", subject="box")
    assert (await connector.call(uplink.TOKEN, token=fresh))["expiresAt"]
    foreign = process.token(kind="agent", subject="another")
    with pytest.raises(Refused, match="another subject"):
        await connector.call(uplink.TOKEN, token=foreign)
    with pytest.raises(Refused, match="token"):
        await connector.call(uplink.TOKEN, token="forged")


async def test_ping_is_answered_with_the_same_number(connector):
    await connector.notify(uplink.PING, {"n": 41})
    await connector.told(uplink.PONG, n=41)


async def test_a_silent_connector_is_asked_and_then_cut(process, connector):
    """C06, C07."""
    (connection,) = process.relay.uplinks._all
    heard = connection._socket.last_heard
    connection.tick(heard + 10.5)
    await connector.told(uplink.PING, n=1)
    assert len(connector.all(uplink.PING)) == 1
    connection.tick(heard + 21)
    assert await connector.closed() == 1001
    await attachment(process, "disconnected", Reason.PONG_MISSED)


async def test_the_time_of_a_round_trip_is_measured(process, connector):
    (connection,) = process.relay.uplinks._all
    connection.tick(connection._socket.last_heard + 10.5)
    ping = await connector.told(uplink.PING)
    await connector.notify(uplink.PONG, ping)
    await connector.call(uplink.TOKEN, token=connector.token)
    assert connection.round_trip_ms is not None
    connection._renewed_at = connection._socket.last_heard - RENEW_SECONDS
    connection.tick(connection._socket.last_heard)
    await connector.call(uplink.TOKEN, token=connector.token)  # behind the renewal
    (claim,) = connection._claims.values()
    known = await process.relay.agents.round_trip_ms(claim.tenant, claim.agent)
    assert known == connection.round_trip_ms


async def test_beats_keep_what_an_idle_connector_holds_and_a_lost_claim_is_made_anew(
    process, connector
):
    """C05."""
    await connector.store(connector.update(1))
    (connection,) = process.relay.uplinks._all
    (claim,) = connection._claims.values()
    commands = process.relay.store.commands
    held, meta = keys.claim(claim.tenant, claim.agent), keys.meta(claim.tenant, "s1")

    def beat() -> None:
        connection._renewed_at = connection._socket.last_heard - RENEW_SECONDS
        connection.tick(connection._socket.last_heard)

    for _ in range(3):  # each time as if nothing but beats had come for long
        almost = await process.relay.store.time_ms() + 5_000
        await commands.hset(held, "lease_until", almost)
        await commands.hdel(held, "sessions_at")
        await commands.pexpire(meta, 60_000)
        beat()
        await connector.call(uplink.TOKEN, token=connector.token)  # behind the renewal
        assert int(await commands.hget(held, "lease_until")) > almost
        assert await commands.pttl(meta) > 3_600_000
    await commands.delete(held)
    beat()
    assert await connector.closed() == 1012
    async with UplinkPeer(process, epoch=connector.epoch) as again:
        await again.hello("s1")
        await attachment(process, State.ATTACHED)


# Who watches.


async def test_the_connector_is_told_who_watches(process, connector):
    async with ClientPeer(process, subject="bob") as client:
        await client.initialize()
        await client.load()
        shown = await connector.until(lambda m: m.get("method") == uplink.PRESENCE)
        assert shown["params"]["watching"][0]["subject"] == "bob"
        assert shown["params"]["watching"][0]["role"] == "operator"
    await connector.told(uplink.PRESENCE, sessionId="s1", watching=[])


async def test_a_connector_that_comes_later_is_told_who_watches_already(process, connector):
    async with ClientPeer(process, subject="bob") as client:
        await client.initialize()
        await client.load()
        await connector.told(uplink.PRESENCE, sessionId="s1")
        async with UplinkPeer(process, epoch=connector.epoch) as again:
            await again.hello("s1")
            told = await again.told(uplink.PRESENCE, sessionId="s1")
    assert [connector["subject"] for connector in told["watching"]] == ["bob"]
