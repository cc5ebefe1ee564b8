import asyncio
import itertools
import os
import signal

import pytest

from bridge import inbox as inbox_module
from bridge import keys
from bridge.inbox import Inbox
from bridge.outage import Outage
from bridge.protocol.errors import InvalidParams

LOG = keys.log("acme", "s1")


class Follower:
    """Collects the sequence numbers that it is given; waits for a count of them."""

    def __init__(self, inbox: Inbox, stream: str = LOG, after: str = "0-0", tenant="acme") -> None:
        self.ids: list[str] = []
        self._more = asyncio.Event()
        self.place = inbox.follow(tenant, stream, after, self._take)

    @property
    def seqs(self) -> list[int]:
        return [int(id_.split("-")[1]) for id_ in self.ids]

    async def until(self, count: int) -> list[int]:
        while len(self.ids) < count:
            self._more.clear()
            await self._more.wait()
        return self.seqs

    def _take(self, entries) -> None:
        self.ids += [stream_id for stream_id, _ in entries]
        self._more.set()


async def test_what_one_node_appends_another_sees_in_order_and_once(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    for start in range(1, 100, 10):
        await writer.append(*(writer.update(seq) for seq in range(start, start + 10)))
    assert await follower.until(100) == list(range(1, 101))


async def test_a_follower_begins_after_its_place(writer, other_node):
    await writer.append(*(writer.update(seq) for seq in range(1, 6)))
    follower = Follower(other_node, after=f"{writer.epoch}-3")
    assert await follower.until(2) == [4, 5]


async def test_a_long_history_comes_page_by_page_whole(writer, other_node):
    count = inbox_module.PAGE * 2 + 5
    for start in range(1, count, 500):
        await writer.append(
            *(writer.update(seq) for seq in range(start, min(start + 500, count + 1)))
        )
    while (await writer.log.last("acme", "s1")).seq < count:
        pass
    assert await Follower(other_node).until(count) == list(range(1, count + 1))


async def test_what_was_delivered_otherwise_is_not_delivered_again(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    follower.place.advance((writer.epoch, 2))
    follower.place.advance((writer.epoch, 1))  # never back
    await writer.append(*(writer.update(seq) for seq in range(1, 4)))
    assert await follower.until(1) == [3]
    assert follower.place.after == f"{writer.epoch}-3"


async def test_the_writing_node_sees_its_own_entries(writer):
    follower = Follower(writer.inbox)
    await writer.append(writer.update(1))
    assert await follower.until(1) == [1]


async def test_two_followers_of_one_stream_have_places_of_their_own(writer, other_node):
    await writer.append(writer.update(1), writer.update(2))
    first = Follower(other_node)
    await first.until(2)
    second = Follower(other_node, after=f"{writer.epoch}-1")
    assert await second.until(1) == [2]
    assert first.seqs == [1, 2]


async def test_a_follower_that_stopped_gets_nothing_more(writer, other_node):
    stopped, follower = Follower(other_node), Follower(other_node)
    await follower.place.ready()
    stopped.place.stop()
    await writer.append(writer.update(1))
    await follower.until(1)
    assert stopped.ids == []


async def test_the_last_one_to_stop_ends_the_watch(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    follower.place.stop()
    another = Follower(other_node, keys.changes("acme"))
    await another.place.ready()  # registered after the other was taken off
    assert await writer.store.commands.exists(keys.watch(LOG)) == 0


async def test_waiting_for_one_that_stopped_ends(inbox):
    place = inbox.follow("acme", LOG, "0-0", print)
    place.stop()
    await place.ready()


async def test_streams_of_several_tenants_are_followed_side_by_side(writer, other_node):
    ours = Follower(other_node)
    theirs = Follower(other_node, keys.log("globex", "s1"), tenant="globex")
    await writer.append(writer.update(1))
    claim = await writer.take_claim(tenant="globex")
    await writer.append(writer.update(1), writer.update(2), claim=claim)
    assert await theirs.until(2) == [1, 2]
    assert await ours.until(1) == [1]


async def test_a_stream_of_another_tenant_cannot_be_followed(inbox):
    with pytest.raises(InvalidParams, match="no stream of tenant 'acme'"):
        inbox.follow("acme", keys.log("globex", "s1"), "0-0", print)


async def test_a_follower_that_fails_stops_nobody_else(writer, other_node, caplog):
    def fail(_) -> None:
        raise RuntimeError("boom")

    await other_node.follow("acme", LOG, "0-0", fail).ready()
    follower = Follower(other_node)
    await writer.append(writer.update(1))
    assert await follower.until(1) == [1]
    assert "boom" in caplog.text


# Repair.


async def test_a_lost_wake_up_is_repaired_by_the_tick(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    await writer.store.commands.delete(keys.watch(LOG))  # so that nobody is woken
    await writer.append(writer.update(1))
    assert await follower.until(1) == [1]


async def test_an_inbox_that_is_gone_is_made_again(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    await writer.store.commands.delete(keys.inbox(other_node.node))
    for seq in itertools.count(1):
        await writer.append(writer.update(seq))
        await follower.until(seq)
        if await writer.store.commands.exists(keys.inbox(other_node.node)):
            break


async def test_a_reader_whose_connection_was_killed_misses_nothing(writer, other_node):
    follower = Follower(other_node)
    await follower.place.ready()
    recovered = asyncio.Event()
    other_node.recovered.add(recovered.set)

    for seq in itertools.count(1):
        await kill_blocked_readers(writer.store)
        await writer.append(writer.update(seq))
        assert (await follower.until(seq))[-1] == seq
        if recovered.is_set():
            break

    assert follower.seqs == list(range(1, seq + 1))


async def kill_blocked_readers(store) -> None:
    for client in await store.commands.client_list():
        if client["cmd"] == "xread" and "b" in client["flags"]:
            await store.commands.client_kill_filter(_id=client["id"])


async def test_a_restarted_redis_with_its_log_on_disk_loses_nothing(on_own_server):
    writer, server = on_own_server
    follower = Follower(writer.inbox)
    await writer.append(*(writer.update(seq) for seq in range(1, 4)))
    await follower.until(3)

    os.kill(server.pid, signal.SIGKILL)
    server.stop()
    server.start()
    await writer.append(*(writer.update(seq) for seq in range(4, 7)))

    assert await follower.until(6) == [1, 2, 3, 4, 5, 6]


async def test_a_redis_that_came_back_empty_is_watched_again(on_own_server):
    writer, _ = on_own_server
    follower = Follower(writer.inbox, keys.changes("acme"))
    await follower.until(1)
    recovered = asyncio.Event()
    writer.inbox.recovered.add(recovered.set)

    await writer.store.commands.flushall()
    await recovered.wait()
    await writer.take_claim(epoch=writer.epoch + 1)

    await follower.until(2)


async def test_leases_that_could_not_be_renewed_stay_due_while_redis_is_away(
    on_own_server, monkeypatch, caplog
):
    caplog.set_level("DEBUG", "bridge")
    monkeypatch.setattr(inbox_module, "RENEW_SECONDS", 1.5)
    writer, server = on_own_server
    follower = Follower(writer.inbox)
    await writer.append(writer.update(1))
    await follower.until(1)
    failures: asyncio.Queue[str] = asyncio.Queue()
    wait = Outage.wait

    async def noted(outage: Outage, error: Exception) -> None:
        failures.put_nowait(outage._whose)
        await wait(outage, error)

    monkeypatch.setattr(Outage, "wait", noted)
    server.stop()
    for _ in range(2):
        while await failures.get() != "the watch leases":
            pass
    server.start()

    assert "the watch leases: redis answers again" not in caplog.messages


async def test_wake_ups_that_cannot_be_sent_raise_nothing(on_own_server):
    writer, server = on_own_server
    server.stop()
    await writer.inbox.wake(["other"], LOG)
    server.start()
