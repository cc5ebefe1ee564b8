import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge import keys
from bridge.mail import parse_mail
from bridge.protocol.attachment import GRACE_MS, Reason
from bridge.protocol.entry import Origin
from bridge.protocol.errors import AgentUnavailable, InvalidParams, Overloaded, Replaced
from bridge.protocol.uplink import Mail, MailDone


async def waiting(store, agent="a1", tenant="acme") -> list[Mail]:
    found = await store.commands.xrange(keys.mail(tenant, agent))
    return [parse_mail(id_.decode(), fields) for id_, fields in found]


# Sending.


async def test_a_mail_is_read_as_it_was_sent(store, writer):
    message = {"method": "session/prompt", "params": {"prompt": [], "text": "ä", "n": 1.5}}
    origin = Origin("alice", tenant="acme", device="pixel", door="page")
    n = await writer.mailbox.send("acme", "a1", "m-1", origin, message, 1_790_000_000_000)
    assert await waiting(store) == [Mail(n, "m-1", origin, message, 1_790_000_000_000)]


async def test_a_mail_without_an_end_has_none(store, writer):
    await writer.send()
    assert (await waiting(store))[0].not_after is None


async def test_the_same_id_gives_the_same_number_and_nothing_new(store, writer):
    numbers = [await writer.send(id_) for id_ in ("m-1", "m-2", "m-1", "m-1")]
    assert numbers == [numbers[0], numbers[1], numbers[0], numbers[0]]
    assert numbers[0] < numbers[1]
    assert [mail.mail_id for mail in await waiting(store)] == ["m-1", "m-2"]


async def test_the_same_id_at_the_same_time_is_taken_once(store, writer):
    numbers = await asyncio.gather(*(writer.send() for _ in range(50)))
    assert len(set(numbers)) == 1
    assert len(await waiting(store)) == 1


async def test_numbers_rise_even_if_redis_forgot_the_last_ones(store, writer):
    first = await writer.send("m-1")
    await store.commands.delete(keys.mail("acme", "a1"), keys.mailed("acme", "a1"))
    while await store.time_ms() <= first:  # Redis is not lost and back within a millisecond
        pass
    assert await writer.send("m-2") > first


async def test_numbers_go_on_behind_what_the_connector_has_on_disk(writer):
    ahead = writer.epoch + 3600_000  # a relay before this one had a clock that ran ahead
    await writer.take_claim(epoch=writer.epoch, journaled=ahead)
    assert await writer.send() > ahead


@pytest.mark.parametrize("mail_id", ["", "a b", "x" * 65])
async def test_an_id_that_is_none_is_refused(writer, mail_id):
    with pytest.raises(InvalidParams, match="invalid mail id"):
        await writer.send(mail_id)


async def test_too_much_unacknowledged_mail_is_refused_not_dropped(store, writer):
    """B20."""
    numbers = [await writer.send(f"m-{n}") for n in range(1000)]
    with pytest.raises(Overloaded, match="full"):
        await writer.send("one-too-many")
    assert await writer.send("m-7") == numbers[7]
    await writer.mailbox.acknowledge(writer.claim, numbers[0])
    assert await writer.send("one-too-many") > numbers[-1]
    assert len(await waiting(store)) == 1000


# Of an agent that is away.


async def test_an_agent_that_never_connected_takes_no_mail(writer):
    with pytest.raises(AgentUnavailable, match="'a9' is detached \\(never_connected\\)"):
        await writer.send(agent="a9")
    assert await writer.store.commands.exists(keys.mail("acme", "a9")) == 0


async def test_an_agent_that_went_for_a_moment_takes_mail(store, writer):
    await writer.agents.close(writer.claim, Reason.SOCKET_CLOSED)
    await writer.send()
    assert len(await waiting(store)) == 1


@pytest.mark.parametrize(
    ("reason", "ago", "state"),
    [(Reason.SOCKET_CLOSED, GRACE_MS, "detached"), (Reason.SAID_GOODBYE, 0, "ended")],
)
async def test_an_agent_that_is_gone_takes_no_mail_but_knows_what_it_took(
    store, writer, reason, ago, state
):
    n = await writer.send("m-1")
    await writer.agents.close(writer.claim, reason)
    gone_at = await store.time_ms() - ago
    await store.commands.hset(keys.claim("acme", "a1"), "closed_at", gone_at)
    with pytest.raises(AgentUnavailable, match=f"is {state} .*start its connector again"):
        await writer.send("m-2")
    assert await writer.send("m-1") == n


async def test_the_agents_of_other_tenants_are_unknown(writer):
    foreign = writer.mailbox.send("globex", "a1", "m-1", Origin("eve"), {"method": "x"}, None)
    with pytest.raises(AgentUnavailable, match="never_connected"):
        await foreign
    await writer.send("m-1")
    await writer.mailbox.done(writer.claim, MailDone("m-1", result=1))
    assert await writer.mailbox.outcome("globex", "m-1") is None


# Delivering.


async def test_mail_reaches_the_node_that_holds_the_agent(writer, other_node):
    arrived: asyncio.Queue[Mail] = asyncio.Queue()
    place = other_node.follow(
        "acme",
        keys.mail("acme", "a1"),
        "0-0",
        lambda entries: [arrived.put_nowait(parse_mail(*each)) for each in entries],
    )
    await place.ready()
    sent = [await writer.send(f"m-{n}") for n in range(3)]
    assert [(await arrived.get()).n for _ in range(3)] == sent


async def test_what_is_on_the_connectors_disk_is_forgotten(store, writer):
    numbers = [await writer.send(f"m-{n}") for n in range(3)]
    for up_to in (numbers[1], numbers[0], numbers[1]):
        await writer.mailbox.acknowledge(writer.claim, up_to)
    assert [mail.n for mail in await waiting(store)] == [numbers[2]]
    assert await writer.send("m-0") == numbers[0]


async def test_acknowledging_more_than_was_sent_does_not_lose_what_comes(store, writer):
    await writer.send("m-1")
    await writer.mailbox.acknowledge(writer.claim, 10**17)
    assert await writer.send("m-2") < 10**15
    assert [mail.mail_id for mail in await waiting(store)] == ["m-2"]


async def test_a_replaced_process_acknowledges_and_ends_nothing(store, writer):
    old = writer.claim
    n = await writer.send()
    await writer.take_claim(epoch=old.epoch + 1, writer="w2")
    with pytest.raises(Replaced):
        await writer.mailbox.acknowledge(old, n)
    with pytest.raises(Replaced):
        await writer.mailbox.done(old, MailDone("m-1", result="forged"))
    assert len(await waiting(store)) == 1
    assert await writer.mailbox.outcome("acme", "m-1") is None


# What became of it.


@pytest.mark.parametrize(
    "done",
    [
        MailDone("m-1", result={"sessionId": "s9", "list": []}),
        MailDone("m-1", error={"code": -32602, "message": "no such folder"}),
        MailDone("m-1"),
    ],
    ids=["result", "error", "nothing"],
)
async def test_the_outcome_is_kept_and_the_first_word_stays(store, writer, done):
    await writer.send()
    assert await writer.mailbox.outcome("acme", "m-1") is None
    await writer.mailbox.done(writer.claim, done)
    await writer.mailbox.done(writer.claim, MailDone("m-1", result="another"))
    assert await writer.mailbox.outcome("acme", "m-1") == done
    assert 0 < await store.commands.pttl(keys.done("acme", "m-1")) <= 600_000


async def test_an_agent_ends_only_mail_of_its_own(writer):
    await writer.send()
    await writer.take_claim("a2")
    await writer.mailbox.done(writer.claim, MailDone("m-1", result="forged"))
    assert await writer.mailbox.outcome("acme", "m-1") is None


# Laws and faults.


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.one_of(st.integers(0, 5), st.just("acknowledge")), max_size=15))
async def test_any_mix_of_sending_and_acknowledging_delivers_each_id_once(store, writer, steps):
    await store.commands.delete(keys.mail("acme", "a1"), keys.mailed("acme", "a1"))
    delivered, last = [], 0
    for step in [*steps, "acknowledge"]:
        if step != "acknowledge":
            await writer.send(f"m-{step}")
            continue
        fresh = [mail for mail in await waiting(store) if mail.n > last]
        delivered += [mail.mail_id for mail in fresh]
        last = max([last, *(mail.n for mail in fresh)])
        await writer.mailbox.acknowledge(writer.claim, last)
    expected = dict.fromkeys(f"m-{step}" for step in steps if step != "acknowledge")
    assert delivered == list(expected)


async def test_a_lost_reply_sends_one_mail(on_lossy_way, proxy, store):
    proxy.lose_reply_to("m-lost")
    # The script is what is repeated, not the look before it.
    n = await on_lossy_way.send("m-lost")
    proxy.lose_reply_to("EVALSHA")
    again = await on_lossy_way.send("m-lost-2")
    assert proxy.lost.is_set()
    assert n < again
    assert [mail.n for mail in await waiting(store)] == [n, again]
