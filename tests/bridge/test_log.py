import asyncio
import itertools
import os
import signal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge import keys
from bridge.agents import Claim
from bridge.append import CALL_ENTRIES, Appended, LogLimits
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import InvalidParams
from bridge.protocol.uplink import Arrivals

FOR_LAWS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
AT = 1_790_000_000_123  # ms
_numbers = itertools.count(1)


# Appending.


async def test_entries_are_read_back_byte_for_byte_and_in_order(writer):
    entries = [writer.update(seq, text=f"zwölf {seq}") for seq in range(1, 6)]

    appended = await writer.append(*entries)

    assert appended == Appended("ok", Cursor(writer.epoch, 5))
    assert await writer.log.read("acme", "s1", START) == [(c, text) for c, text, _ in entries]


async def test_an_entry_without_its_envelope_is_stored_as_well(writer):
    cursor, text, _ = writer.update(1)
    assert (await writer.append((cursor, text, None))).state == "ok"
    assert await writer.log.read("acme", "s1", START) == [(cursor, text)]


async def test_repeated_entries_are_acknowledged_and_not_stored_again(writer):
    entries = [writer.update(1), writer.update(2)]
    await writer.append(*entries)

    appended = await writer.append(*entries, writer.update(3))

    assert appended == Appended("ok", Cursor(writer.epoch, 3))
    assert [c.seq for c in await writer.texts()] == [1, 2, 3]


async def test_a_hole_is_refused_with_the_last_stored_cursor(writer):
    await writer.append(writer.update(1))
    appended = await writer.append(writer.update(2), writer.update(4))
    assert appended == Appended("gap", Cursor(writer.epoch, 2))
    assert [c.seq for c in await writer.texts()] == [1, 2]


async def test_a_log_begins_with_the_first_entry(writer):
    assert await writer.append(writer.update(7)) == Appended("gap", START)
    assert await writer.log.last("acme", "s1") == START


async def test_a_new_epoch_goes_on_where_the_old_one_ended(writer):
    await writer.append(writer.update(1), writer.update(2))
    old = Cursor(writer.epoch, 2)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")

    appended = await writer.append(writer.update(1, prev=old))

    assert appended == Appended("ok", Cursor(old.epoch + 1, 1))
    assert await writer.texts() == [Cursor(old.epoch, 1), old, appended.cursor]


async def test_a_new_epoch_that_names_another_end_is_a_hole(writer):
    await writer.append(writer.update(1))
    old = Cursor(writer.epoch, 1)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")
    assert await writer.append(writer.update(1, prev=Cursor(old.epoch, 9))) == Appended("gap", old)


async def test_a_new_epoch_may_have_lost_a_tail_that_is_stored(writer):
    await writer.append(writer.update(1), writer.update(2))
    old = Cursor(writer.epoch, 1)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")
    assert (await writer.append(writer.update(1, prev=old))).state == "ok"


async def test_a_refill_may_bring_entries_of_older_epochs(writer):
    old = writer.epoch - 5
    appended = await writer.append(
        writer.update(1, epoch=old),
        writer.update(2, epoch=old),
        writer.update(1, prev=Cursor(old, 2)),
    )
    assert appended == Appended("ok", Cursor(writer.epoch, 1))


async def test_an_entry_of_an_epoch_beyond_the_claim_is_refused(writer):
    appended = await writer.append(writer.update(1), writer.update(1, epoch=writer.epoch + 1))
    assert appended == Appended("fenced", Cursor(writer.epoch, 1))


async def test_an_older_process_writes_nothing_after_it_was_replaced(writer):
    old = writer.claim
    entry_of_old = writer.update(1)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")
    assert (await writer.append(entry_of_old, claim=old)).state == "fenced"
    assert await writer.texts() == []


async def test_another_process_of_the_same_epoch_writes_nothing(writer):
    forged = Claim("acme", "a1", writer.epoch, "someone else", "n")
    assert (await writer.append(writer.update(1), claim=forged)).state == "fenced"


async def test_a_session_belongs_to_the_agent_that_first_wrote_it(writer):
    await writer.append(writer.update(1))
    other = await writer.take_claim("a2", epoch=writer.epoch)
    assert await writer.append(writer.update(2), claim=other) == Appended("foreign", START)
    assert len(await writer.texts()) == 1


async def test_the_same_session_id_in_another_tenant_is_another_session(writer):
    await writer.append(writer.update(1))
    foreign = await writer.take_claim(tenant="globex")

    assert await writer.log.read("globex", "s1", START) == []
    assert await writer.log.last("globex", "s1") == START
    assert await writer.log.first("globex", "s1") is None
    await writer.append(writer.update(1, text="theirs"), claim=foreign)

    assert len(await writer.log.read("acme", "s1", START)) == 1
    assert b"theirs" in (await writer.log.read("globex", "s1", START))[0][1]


async def test_a_batch_larger_than_one_call_arrives_whole(writer):
    count = CALL_ENTRIES * 3 + 7
    told: asyncio.Queue[Appended] = asyncio.Queue()
    entries = [writer.update(seq) for seq in range(1, count + 1)]
    writer.log.append(writer.claim, "s1", entries, told.put_nowait)
    while (await told.get()).cursor.seq < count:
        pass
    assert [c.seq for c in await writer.texts()] == list(range(1, count + 1))


async def test_large_entries_are_divided_by_their_bytes(writer):
    entries = [writer.update(seq, text="x" * (3 << 20)) for seq in range(1, 4)]
    told: asyncio.Queue[Appended] = asyncio.Queue()
    writer.log.append(writer.claim, "s1", entries, told.put_nowait)
    cursors = [(await told.get()).cursor.seq for _ in entries]
    assert cursors == [1, 2, 3]


async def test_many_sessions_are_stored_side_by_side(writer):
    names = [f"s{n}" for n in range(40)]
    entry = writer.update(1)
    stored = await asyncio.gather(*(writer.append(entry, session=name) for name in names))
    assert {appended.state for appended in stored} == {"ok"}


async def test_an_id_that_is_none_is_refused_before_anything_is_queued(writer):
    with pytest.raises(InvalidParams, match="round-trip id"):
        writer.log.append(writer.claim, "s1", [writer.question(1, "a b")], print)
    with pytest.raises(InvalidParams, match="session id"):
        writer.log.append(writer.claim, "s:1", [writer.update(1)], print)
    with pytest.raises(InvalidParams, match="resolved"):
        writer.log.append(writer.claim, "s1", [writer.resolved(1, result="maybe")], print)
    assert (await writer.append(writer.update(1))).state == "ok"


async def test_a_callback_that_fails_stops_nobody_else(writer, caplog):
    def fail(_: Appended) -> None:
        raise RuntimeError("boom")

    writer.log.append(writer.claim, "s1", [writer.update(1)], fail)
    assert (await writer.append(writer.update(2))).state == "ok"
    assert "boom" in caplog.text


# Laws.


@FOR_LAWS
@given(data=st.data())
async def test_any_mix_of_appends_repeats_and_reorders_gives_a_log_without_gap_or_repeat(
    writer, data
):
    session = f"law-{next(_numbers)}"
    now = writer.epoch
    epochs = [now - 2, now - 1, now]
    arrivals = Arrivals()
    kept = []
    step = st.tuples(st.sampled_from(epochs), st.integers(1, 6), st.integers(1, 4))
    for epoch, first, count in data.draw(st.lists(step, min_size=2, max_size=12)):
        batch = [
            writer.update(s, epoch=epoch, session=session) for s in range(first, first + count)
        ]
        appended = await writer.append(*batch, session=session)
        for cursor, text, _ in batch:
            verdict = arrivals.accept(cursor)
            if verdict:
                kept.append((cursor, text))
            if verdict is None:
                break
        assert appended.cursor == arrivals.last
        assert (appended.state == "gap") == (verdict is None)

    assert await writer.log.read("acme", session, START) == kept
    assert await writer.log.last("acme", session) == arrivals.last


@FOR_LAWS
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 900)), min_size=1, max_size=25))
async def test_a_trimmed_log_is_the_newest_part_without_a_hole(writer_with, shapes):
    session = f"law-{next(_numbers)}"
    async with writer_with(LogLimits(entries=32, bytes=16_000)) as writer:
        seqs = itertools.count(1)
        for count, size in shapes:
            batch = [
                writer.update(next(seqs), session=session, text="x" * size) for _ in range(count)
            ]
            await writer.append(*batch, session=session)
        held = [cursor.seq for cursor in await writer.texts(session)]

        last = next(seqs) - 1
        assert held == list(range(held[0], last + 1))
        assert (await writer.log.first("acme", session)).seq == held[0]


# Trimming.


async def test_old_entries_go_when_there_are_too_many(writer_with):
    async with writer_with(LogLimits(entries=200)) as writer:
        for start in range(1, 2001, 50):
            await writer.append(*(writer.update(seq) for seq in range(start, start + 50)))
        held = await writer.texts()
        assert held[-1].seq == 2000
        assert 180 <= len(held) <= 400  # Redis drops whole nodes of 100


async def test_old_entries_go_when_they_are_too_large(writer_with):
    async with writer_with(LogLimits(bytes=100_000)) as writer:
        for seq in range(1, 101):
            await writer.append(writer.update(seq, text="x" * 5000))
        assert 15 <= len(await writer.texts()) <= 25


async def test_old_entries_go_when_they_are_too_old(writer_with):
    async with writer_with(LogLimits(age_seconds=1)) as writer:
        seqs = itertools.count(1)
        while (await writer.log.first("acme", "s1") or Cursor(0, 1)).seq == 1:
            await writer.append(*(writer.update(next(seqs)) for _ in range(20)))
        assert (await writer.texts())[-1].seq == next(seqs) - 1


async def test_an_entry_larger_than_the_limit_is_held_until_the_next(writer_with):
    async with writer_with(LogLimits(bytes=1000)) as writer:
        await writer.append(writer.update(1, text="x" * 5000))
        assert len(await writer.texts()) == 1


async def test_a_session_that_expired_begins_anew_with_a_refill(store, writer):
    await writer.append(writer.update(1), writer.update(2))
    await store.commands.delete(keys.meta("acme", "s1"))

    assert await writer.append(writer.update(3)) == Appended("gap", START)
    await writer.append(writer.update(1), writer.update(2), writer.update(3))

    assert [c.seq for c in await writer.texts()] == [1, 2, 3]


# Reading.


async def test_reading_goes_on_after_a_cursor_page_by_page(writer):
    await writer.append(*(writer.update(seq) for seq in range(1, 11)))
    cursor, pages = START, []
    while page := await writer.log.read("acme", "s1", cursor, count=4):
        pages.append([c.seq for c, _ in page])
        cursor = page[-1][0]
    assert pages == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]


async def test_entries_of_one_millisecond_are_all_read_after_any_of_them(writer):
    """B19."""
    ids = [f"rt-{n}" for n in range(10)]
    entries = [writer.question(n + 1, id_, at=AT) for n, id_ in enumerate(ids)]
    await writer.append(*entries)
    texts = [text for _, text, _ in entries]
    for n, (cursor, _, _) in enumerate(entries):
        after = await writer.log.read("acme", "s1", cursor)
        assert [text for _, text in after] == texts[n + 1 :]


async def test_the_newest_page_comes_oldest_first(writer):
    await writer.append(*(writer.update(seq) for seq in range(1, 11)))
    newest = await writer.log.read_before("acme", "s1", None, 3)
    before = await writer.log.read_before("acme", "s1", newest[0][0], 3)
    assert [c.seq for c, _ in newest] == [8, 9, 10]
    assert [c.seq for c, _ in before] == [5, 6, 7]


async def test_an_unknown_session_has_no_entries(writer):
    assert await writer.log.read("acme", "nobody", START) == []
    assert await writer.log.read_before("acme", "nobody", None, 5) == []
    assert await writer.log.last("acme", "nobody") == START
    assert await writer.log.first("acme", "nobody") is None


# Under faults.


async def test_a_lost_reply_stores_nothing_twice(on_lossy_way, proxy):
    writer = on_lossy_way
    await writer.append(writer.update(1))
    proxy.lose_reply_to("update 2")
    assert (await writer.append(writer.update(2))).state == "ok"
    assert proxy.lost.is_set()
    assert [c.seq for c in await writer.texts()] == [1, 2]


async def test_what_is_queued_while_redis_is_away_is_stored_when_it_is_back(on_own_server):
    writer, server = on_own_server
    await writer.append(writer.update(1))
    os.kill(server.pid, signal.SIGKILL)
    told: asyncio.Queue[Appended] = asyncio.Queue()
    for seq in range(2, 30):
        writer.log.append(writer.claim, "s1", [writer.update(seq)], told.put_nowait)
    server.stop()
    server.start()

    while (appended := await told.get()).cursor.seq < 29:
        assert appended.state == "ok"
    assert [c.seq for c in await writer.texts()] == list(range(1, 30))


async def test_a_redis_that_lost_its_scripts_gets_them_again(writer):
    await writer.append(writer.update(1))
    await writer.store.commands.script_flush()
    assert (await writer.append(writer.update(2))).state == "ok"


async def test_a_redis_that_is_full_for_a_while_loses_nothing(writer, heard):
    await writer.append(writer.update(1))
    redis = writer.store.commands
    refused = heard("maxmemory")
    await redis.config_set("maxmemory", 1)
    waiting = asyncio.create_task(writer.append(writer.update(2)))
    try:
        await refused.wait()
        assert not waiting.done()
    finally:
        await redis.config_set("maxmemory", 0)
    assert (await waiting).state == "ok"


async def test_a_session_that_redis_refuses_for_good_holds_up_no_other(writer, caplog):
    await writer.store.commands.set(keys.meta("acme", "broken"), "not a hash")
    assert (await writer.append(writer.update(1), session="broken")).state == "failed"
    assert (await writer.append(writer.update(1))).state == "ok"
    assert "WRONGTYPE" in caplog.text


async def test_a_session_that_redis_refuses_for_good_fails_alone_among_those_of_one_call(writer):
    await writer.store.commands.set(keys.meta("acme", "broken"), "not a hash")
    sessions = ["s1", "broken", "s2"]
    appended = await asyncio.gather(
        *(writer.append(writer.update(1), session=session) for session in sessions)
    )
    assert [each.state for each in appended] == ["ok", "failed", "ok"]


async def test_what_one_call_refuses_of_a_session_stops_no_other_in_it(writer):
    await writer.append(writer.update(1), session="theirs")
    other = await writer.take_claim("a2", epoch=writer.epoch)
    forged = Claim("acme", "a1", writer.epoch, "someone else", "n")
    appended = await asyncio.gather(
        writer.append(writer.question(1, "rt-1"), writer.update(2), session="asked"),
        writer.append(writer.update(2), session="hole"),
        writer.append(writer.update(1), session="fenced", claim=forged),
        writer.append(writer.update(2), session="theirs", claim=other),
        writer.append(writer.question(1, "rt-2"), session="also-asked"),
        writer.append(writer.update(1), session="plain"),
    )
    assert [each.state for each in appended] == ["ok", "gap", "fenced", "foreign", "ok", "ok"]
    for id_, session in (("rt-1", b"asked"), ("rt-2", b"also-asked")):
        record = await writer.store.commands.hget(keys.round_trip("acme", id_), "session")
        assert record == session
