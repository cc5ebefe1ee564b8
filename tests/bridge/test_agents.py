import asyncio

import pytest

from bridge import agents, keys
from bridge.protocol.attachment import Reason, State
from bridge.protocol.errors import InvalidParams, NotFound, Replaced
from bridge.protocol.uplink import AgentCard

FIELDS = {"id", "name", "title", "version", "host", "os", "roots", "modes"}


async def attachment(writer, agent="a1"):
    return (await writer.agents.get("acme", agent)).attachment


# Claiming.


async def test_a_claimed_agent_is_attached_and_described(writer):
    record = await writer.agents.get("acme", "a1")
    assert record.attachment.state is State.ATTACHED
    assert (record.card.title, record.connector.host, record.epoch) == (
        "Claude",
        "mbp",
        writer.epoch,
    )
    assert record.as_json().keys() >= FIELDS
    assert record.as_json()["attachment"]["state"] == "attached"


async def test_a_higher_epoch_takes_over_and_the_old_one_cannot_renew(writer):
    old = writer.claim
    await writer.take_claim(epoch=old.epoch + 1, writer="w2")
    assert not await writer.agents.renew(old, 0)
    assert await writer.agents.renew(writer.claim, 0)


async def test_the_same_process_resumes_its_claim(writer):
    old = writer.claim
    await writer.take_claim(epoch=old.epoch)
    assert writer.claim.epoch == old.epoch
    assert (await writer.append(writer.update(1))).state == "ok"


@pytest.mark.parametrize(("behind", "process"), [(0, "w2"), (1, "w1"), (1, "w2")])
async def test_another_process_without_a_higher_epoch_is_told_who_holds(writer, behind, process):
    held = writer.epoch
    with pytest.raises(Replaced, match=f"epoch {held}") as refused:
        await writer.take_claim(epoch=held - behind, writer=process)
    assert refused.value.data["epoch"] == held


async def test_a_clock_more_than_a_day_ahead_is_refused_with_the_way_out(writer):
    with pytest.raises(InvalidParams, match="set this machine's clock"):
        await writer.take_claim(epoch=writer.epoch + agents.AHEAD_MS + 60_000)
    with pytest.raises(InvalidParams, match="a day ahead"):
        await writer.take_claim(journaled=10**15)


async def test_an_epoch_below_one_is_refused(writer):
    with pytest.raises(InvalidParams, match="invalid epoch 0"):
        await writer.take_claim("a2", epoch=0)


async def test_of_many_processes_of_one_epoch_one_gets_the_claim(store, writer):
    async def attempt(process: str) -> bool:
        try:
            await writer.take_claim("a9", epoch=writer.epoch, writer=process)
        except Replaced:
            return False
        return True

    won = await asyncio.gather(*(attempt(f"p{n}") for n in range(50)))
    assert won.count(True) == 1


# Renewing and closing.


async def test_a_renewal_notes_when_the_agent_was_last_heard(writer):
    before = await writer.store.time_ms()
    await writer.agents.renew(writer.claim, 5000)
    after = await writer.store.time_ms()
    assert before <= (await attachment(writer)).last_seen + 5000 <= after


async def test_a_renewal_notes_how_long_the_way_takes_until_another_connection_comes(writer):
    async def known() -> int | None:
        return await writer.agents.round_trip_ms("acme", "a1")

    await writer.agents.renew(writer.claim, 0)
    assert await known() is None
    await writer.agents.renew(writer.claim, 0, 17)
    await writer.agents.renew(writer.claim, 0)
    assert await known() == 17
    await writer.take_claim()
    assert await known() is None


async def test_an_agent_that_was_not_heard_for_long_is_unresponsive(writer):
    await writer.agents.renew(writer.claim, 60_000)
    found = await attachment(writer)
    assert (found.state, found.reason) == (State.UNRESPONSIVE, Reason.PONG_MISSED)


async def test_the_last_word_is_never_in_the_future(writer):
    await writer.agents.renew(writer.claim, -5000)
    assert (await attachment(writer)).last_seen <= await writer.store.time_ms()


async def test_a_lease_that_ended_means_that_the_relay_process_died(writer, store):
    now = await store.time_ms()
    await store.commands.hset(keys.claim("acme", "a1"), "lease_until", now - 1)
    found = await attachment(writer)
    assert (found.state, found.reason) == (State.DISCONNECTED, Reason.RELAY_UNREACHABLE)


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (Reason.SOCKET_CLOSED, State.DISCONNECTED),
        (Reason.SAID_GOODBYE, State.ENDED),
        (Reason.AGENT_CRASHED, State.ENDED),
    ],
)
async def test_a_closed_connection_says_why(writer, reason, state):
    await writer.agents.close(writer.claim, reason)
    found = await attachment(writer)
    assert (found.state, found.reason) == (state, reason)
    assert not await writer.agents.renew(writer.claim, 0)


async def test_an_old_sockets_end_does_not_end_the_new_one(writer):
    old = writer.claim
    await writer.take_claim(epoch=old.epoch)
    await writer.agents.close(old, Reason.SOCKET_CLOSED)
    assert not await writer.agents.renew(old, 0)
    assert (await attachment(writer)).state is State.ATTACHED


async def test_a_living_claim_lets_its_sessions_live_on(store, writer):
    await writer.append(writer.update(1))
    await writer.append(writer.question(1), session="s2")
    meta, pinned = keys.meta("acme", "s1"), keys.meta("acme", "s2")
    await store.commands.pexpire(meta, 60_000)
    await store.commands.zadd(keys.sessions_of("acme", "a1"), {"gone": 1})

    await writer.agents.renew(writer.claim, 0)

    assert await store.commands.pttl(meta) > 3600_000
    assert await store.commands.pttl(pinned) == -1
    assert await store.commands.zscore(keys.sessions_of("acme", "a1"), "gone") is None


# Cards and lists.


async def test_a_card_is_replaced_by_its_holder_only(writer):
    await writer.agents.put_card(writer.claim, AgentCard("a1", "claude", login="claude /login"))
    old = writer.claim
    assert (await writer.agents.get("acme", "a1")).card.login == "claude /login"
    await writer.take_claim(epoch=old.epoch + 1, writer="w2")
    with pytest.raises(Replaced) as refused:
        await writer.agents.put_card(old, AgentCard("a1", "forged"))
    assert refused.value.data["epoch"] == old.epoch + 1


async def test_a_card_of_another_agent_is_refused(writer):
    with pytest.raises(InvalidParams, match="'a2', claimed is 'a1'"):
        await writer.agents.put_card(writer.claim, AgentCard("a2", "x"))


async def test_agents_are_listed_the_last_connected_first_and_gone_ones_are_not(store, writer):
    await writer.take_claim("a2")
    await writer.take_claim("a3")
    await store.commands.delete(keys.claim("acme", "a2"))
    assert {record.id for record in await writer.agents.list("acme")} == {"a1", "a3"}
    assert await store.commands.zrange(keys.agents("acme"), 0, -1, desc=True) == [b"a3", b"a1"]


async def test_an_agent_of_another_tenant_is_unknown(writer):
    with pytest.raises(NotFound) as foreign:
        await writer.agents.get("globex", "a1")
    with pytest.raises(NotFound) as unknown:
        await writer.agents.get("acme", "nobody")
    assert str(foreign.value).replace("a1", "") == str(unknown.value).replace("nobody", "")
    assert await writer.agents.list("globex") == []


async def test_a_claim_in_another_tenant_renews_and_closes_nothing_here(writer):
    mine = writer.claim
    await writer.take_claim(tenant="globex", epoch=mine.epoch)
    await writer.agents.close(writer.claim, Reason.SAID_GOODBYE)
    assert (await attachment(writer)).state is State.ATTACHED


# Under faults.


async def test_a_lost_reply_to_a_claim_leaves_one_claim_and_one_notice(on_lossy_way, proxy):
    writer = on_lossy_way
    before = await writer.store.commands.xlen(keys.changes("acme"))
    proxy.lose_reply_to("lost-one")
    await writer.take_claim("a2", writer="lost-one")
    assert proxy.lost.is_set()
    assert await writer.agents.renew(writer.claim, 0)
    assert await writer.store.commands.xlen(keys.changes("acme")) == before + 1
