"""The audit in a real Redis: what is written, found and sealed, and that tampering shows."""

import asyncio

import pytest

from bridge import keys
from bridge.audit import Audit, Search, as_json
from bridge.protocol.entry import Origin
from bridge.tokens import Tokens

ALICE = Origin("alice", "acme", "pixel", "page")


@pytest.fixture
def audit(store, tmp_path):
    return Audit(store, Tokens(tmp_path / "keys"))


async def events(audit, tenant="acme", **wanted):
    page = await audit.search(tenant, Search(**wanted), None, 100)
    return [record.fields["event"] for record in page.records]


async def test_a_decision_and_its_end_are_recorded_with_what_was_asked(writer, audit):
    await writer.append(writer.question(1))
    await writer.decide()
    await writer.append(writer.resolved(2, answer={"optionId": "allow"}))
    page = await audit.search("acme", Search(), None, 10)
    closed, decided = [as_json(record) for record in page.records]
    assert (decided["event"], decided["meaning"], decided["roundTrip"]) == (
        "decided",
        "allow",
        "rt-1",
    )
    assert decided["hash"]
    assert decided["by"]["subject"] == "alice"
    assert (closed["event"], closed["result"], closed["meaning"]) == ("closed", "applied", "allow")
    assert closed["decidedAt"] == decided["at"]
    assert closed["askedAt"] == decided["askedAt"]


async def test_records_are_found_by_what_was_done_by_whom_and_by_text(audit):
    await audit.write("acme", "sign_in", ALICE, **{"from": "192.0.2.7"})
    await audit.write("acme", "sign_out", Origin("bob", "acme", "mac", "page"))
    assert await events(audit) == ["sign_out", "sign_in"]
    assert await events(audit, subject="alice") == ["sign_in"]
    assert await events(audit, event="sign_out") == ["sign_out"]
    assert await events(audit, text="192.0.2.7") == ["sign_in"]
    assert await events(audit, text="PIXEL") == ["sign_in"]
    assert await events(audit, tenant="other") == []


async def test_a_search_goes_on_where_the_page_before_ended(audit):
    for _ in range(5):
        await audit.write("acme", "sign_in", ALICE)
    first = await audit.search("acme", Search(), None, 3)
    rest = await audit.search("acme", Search(), first.next, 3)
    ids = [record.id for record in (*first.records, *rest.records)]
    assert len(set(ids)) == 5
    assert ids == sorted(ids, reverse=True)
    assert rest.next is None


async def test_a_repeat_after_a_lost_reply_writes_once(proxy, on_lossy_way, tmp_path):
    audit = Audit(on_lossy_way.store, Tokens(tmp_path / "keys"))
    await audit.write("acme", "sign_in", ALICE)  # the script is known now
    proxy.lose_reply_to("EVALSHA")
    await audit.write("acme", "sign_in", ALICE)
    assert await events(audit) == ["sign_in", "sign_in"]


async def test_what_was_sealed_holds_and_what_came_after_is_counted(audit):
    await audit.write("acme", "sign_in", ALICE)
    await audit.seal("acme")
    await audit.write("acme", "sign_out", ALICE)
    found = await audit.check("acme")
    assert (found.fault, found.records, found.seals, found.unsealed) == ("", 2, 1, 1)


async def test_two_processes_that_seal_at_once_make_one_chain(audit, redis_url, tmp_path):
    from bridge.redis import Store

    second = Store.open(redis_url)
    other = Audit(second, Tokens(tmp_path / "keys"))
    for _ in range(20):
        await asyncio.gather(audit.write("acme", "sign_in", ALICE), other.write("acme", "sign_in"))
        await asyncio.gather(audit.seal("acme"), other.seal("acme"))
    await second.aclose()
    found = await audit.check("acme")
    assert (found.fault, found.records, found.unsealed) == ("", 40, 0)


@pytest.mark.parametrize("how", ["removed", "all removed", "seals removed and one forged"])
async def test_whoever_writes_redis_by_hand_is_found_out(audit, store, how):
    for _ in range(3):
        await audit.write("acme", "sign_in", ALICE)
        await audit.seal("acme")
    redis, name = store.commands, keys.audit("acme")
    if how == "removed":
        [first, *_] = await redis.xrange(name)
        await redis.xdel(name, first[0])
    elif how == "all removed":
        await redis.delete(name)
    else:
        await redis.delete(keys.seals("acme"))
        await redis.xadd(
            keys.seals("acme"),
            {"upto": "1-0", "count": 1, "link": "00", "kid": "1", "signature": "AAAA"},
        )
    assert (await audit.check("acme")).fault


async def test_a_process_that_ends_seals_what_it_wrote(audit):
    await audit.write("acme", "sign_in", ALICE)
    await audit.seal_all()
    found = await audit.check("acme")
    assert (found.seals, found.unsealed) == (1, 0)


async def test_every_key_of_the_audit_has_an_end(audit, store):
    await audit.write("acme", "sign_in", ALICE)
    await audit.seal("acme")
    for name in (keys.audit("acme"), keys.seals("acme")):
        assert await store.commands.pttl(name) > 0
