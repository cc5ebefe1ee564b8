"""A viewer's place: history, then live, or too slow; every entry once, in order, or a gap."""

import asyncio
import itertools
from dataclasses import dataclass, field

import pytest
from fakes.viewer import FrameViewer, Stream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge import keys
from bridge.hub import Hub, HubLimits
from bridge.log import LogLimits
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.subscriber import Subscriber
from bridge.viewer import Item

SLOW = 8 << 20  # bytes not taken, over every bound
_numbers = itertools.count(1)


@pytest.fixture
def hub(writer):
    return Hub(writer.log, writer.inbox)


async def watching(hub, after=START, viewer=None, session="s1", *, history=True):
    """A viewer that has the history and is live, and its subscriber."""
    viewer = viewer or FrameViewer()
    subscriber = Subscriber(hub.channel("acme", session), viewer, after, history=history)
    await subscriber.start(hub.log)
    return viewer, subscriber


def items(*entries):
    return [Item(*each) for each in entries]


def updates(writer, first, last, **more):
    return [writer.update(seq, **more) for seq in range(first, last + 1)]


def seqs(cursors):
    return [cursor.seq for cursor in cursors]


# History, then live.


async def test_history_comes_first_and_then_what_is_live(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(4)))
    assert seqs(viewer.seen) == [1, 2, 3, 4]
    assert viewer.gaps == []


async def test_history_of_several_pages_is_whole(hub, writer):
    await writer.append(*updates(writer, 1, 256))
    for first in range(257, 2300, 256):
        await writer.append(*updates(writer, first, first + 255))
    viewer, subscriber = await watching(hub, after=Cursor(writer.epoch, 1))
    assert seqs(viewer.seen) == list(range(2, 2305))
    assert subscriber.last == Cursor(writer.epoch, 2304)


async def test_only_what_follows_the_cursor_comes(hub, writer):
    await writer.append(*updates(writer, 1, 5))
    viewer, _ = await watching(hub, after=Cursor(writer.epoch, 3))
    assert seqs(viewer.seen) == [4, 5]


async def test_without_history_only_what_is_new_comes(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    viewer, subscriber = await watching(hub, history=False)
    assert subscriber.last == Cursor(writer.epoch, 3)
    hub.publish("acme", "s1", items(writer.update(4)))
    assert seqs(viewer.seen) == [4]


async def test_what_comes_live_while_history_is_read_comes_once_and_after_it(hub, writer):
    """B11."""
    await writer.append(*updates(writer, 1, 3))
    await watching(hub)
    joining = asyncio.create_task(watching(hub))
    await asyncio.sleep(0)
    for seq in range(4, 40):
        hub.publish("acme", "s1", items(writer.update(seq)))
        await asyncio.sleep(0)
    await writer.append(*updates(writer, 4, 39))
    viewer, _ = await joining
    assert seqs(viewer.seen) == list(range(1, 40))


async def test_who_joins_gets_what_was_shown_and_is_not_stored_yet(hub, writer):
    await writer.append(*updates(writer, 1, 2))
    await watching(hub)
    hub.publish("acme", "s1", items(*updates(writer, 3, 5)))
    viewer, _ = await watching(hub)
    assert seqs(viewer.seen) == [1, 2, 3, 4, 5]


async def test_what_is_stored_is_kept_for_nobody(hub, writer):
    await watching(hub)
    hub.publish("acme", "s1", items(*updates(writer, 1, 5)))
    hub.stored("acme", "s1", [], Cursor(writer.epoch, 4))
    assert seqs(item.cursor for item in hub.channel("acme", "s1").unstored()) == [5]


async def test_questions_in_the_history_are_passed_over_silently(hub, writer):
    await writer.append(writer.update(1), writer.question(2), writer.update(3), writer.question(4))
    viewer, subscriber = await watching(hub)
    assert seqs(viewer.seen) == [1, 3]
    assert viewer.asked == []
    assert subscriber.last == Cursor(writer.epoch, 4)


async def test_a_stream_of_texts_gets_questions_of_the_history_too(hub, writer):
    await writer.append(writer.update(1), writer.question(2))
    stream, _ = await watching(hub, viewer=Stream())
    assert seqs(stream.seen) == [1, 2]


# How much history.


async def test_a_long_session_is_loaded_from_its_newest_part_and_says_so(writer):
    """F07."""
    hub = Hub(writer.log, writer.inbox, HubLimits(load_entries=10))
    await writer.append(*updates(writer, 1, 30))
    viewer, _ = await watching(hub)
    assert viewer.record[0] == ("gap", Cursor(writer.epoch, 20), "history_starts_here")
    assert seqs(viewer.seen) == list(range(21, 31))


async def test_a_session_of_large_entries_is_loaded_by_its_bytes(writer):
    hub = Hub(writer.log, writer.inbox, HubLimits(load_bytes=1 << 20))
    for seq in range(1, 1300, 100):
        await writer.append(*updates(writer, seq, seq + 99, text="x" * 2000))
    viewer, _ = await watching(hub)
    assert seqs(viewer.seen) == list(range(301, 1301))
    assert viewer.gaps == [(Cursor(writer.epoch, 300), "history_starts_here")]


async def test_a_session_whose_entries_are_gone_says_so_and_goes_on(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    await writer.store.commands.delete(keys.log("acme", "s1"))
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(4)))
    assert viewer.record[0] == ("gap", Cursor(writer.epoch, 3), "history_starts_here")
    assert seqs(viewer.seen) == [4]


async def test_a_session_that_is_held_whole_has_no_gap(hub, writer):
    await writer.append(*updates(writer, 1, 5))
    viewer, _ = await watching(hub)
    assert viewer.gaps == []


async def test_a_cursor_that_was_trimmed_gets_a_gap_and_what_is_held(writer_with):
    async with writer_with(LogLimits(entries=200)) as writer:
        for first in range(1, 1001, 50):
            await writer.append(*updates(writer, first, first + 49))
        held = await writer.texts()
        viewer, _ = await watching(Hub(writer.log, writer.inbox), after=Cursor(writer.epoch, 2))
        assert viewer.record[0] == ("gap", Cursor(writer.epoch, held[0].seq - 1), "trimmed")
        assert viewer.seen == held


async def test_an_unknown_cursor_gets_a_gap_and_what_is_held(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    viewer, _ = await watching(hub, after=Cursor(7, 7))
    assert viewer.record[0] == ("gap", START, "tail_lost")
    assert seqs(viewer.seen) == [1, 2, 3]


async def test_a_cursor_in_a_lost_tail_gets_a_gap_from_where_the_log_goes_on(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    old = Cursor(writer.epoch, 3)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")
    await writer.append(writer.update(1, prev=old))
    viewer, _ = await watching(hub, after=Cursor(old.epoch, 9))
    assert viewer.gaps == [(old, "tail_lost")]
    assert viewer.seen == [Cursor(writer.epoch, 1)]


async def test_a_cursor_of_an_older_epoch_is_valid(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    old = Cursor(writer.epoch, 3)
    await writer.take_claim(epoch=writer.epoch + 1, writer="w2")
    await writer.append(writer.update(1, prev=old), writer.update(2))
    viewer, _ = await watching(hub, after=Cursor(old.epoch, 2))
    assert viewer.gaps == []
    assert viewer.seen == [old, Cursor(writer.epoch, 1), Cursor(writer.epoch, 2)]


async def test_a_cursor_ahead_of_the_store_waits_and_is_no_gap(hub, writer):
    await writer.append(*updates(writer, 1, 3))
    viewer, _ = await watching(hub, after=Cursor(writer.epoch, 5))
    hub.publish("acme", "s1", items(*updates(writer, 4, 7)))
    await writer.append(*updates(writer, 4, 8))
    await viewer.has(Cursor(writer.epoch, 8))
    assert seqs(viewer.seen) == [6, 7, 8]
    assert viewer.gaps == []


# Too slow.


async def test_a_slow_viewer_catches_up_from_the_log_when_it_has_drained(hub, writer):
    viewer, _ = await watching(hub)
    other, _ = await watching(hub)
    viewer.buffered = SLOW
    large = updates(writer, 1, 40, text="x" * 5000)
    hub.publish("acme", "s1", items(*large[:20]))
    hub.publish("acme", "s1", items(*large[20:]))
    assert viewer.seen == []
    assert seqs(other.seen) == list(range(1, 41))
    await writer.append(*large)
    viewer.buffered = 0
    await viewer.has(Cursor(writer.epoch, 40))
    hub.publish("acme", "s1", items(writer.update(41)))
    assert seqs(viewer.seen) == list(range(1, 42))
    assert viewer.gaps == []


async def test_a_viewer_that_never_drains_loses_its_place(writer):
    """F02."""
    hub = Hub(writer.log, writer.inbox, HubLimits(drain_seconds=0.05))
    viewer, subscriber = await watching(hub)
    viewer.buffered = SLOW
    hub.publish("acme", "s1", items(*updates(writer, 1, 20, text="x" * 5000)))
    await viewer.until(lambda: viewer.lost_place)
    assert hub._channels == {}
    assert subscriber.last == START


async def test_a_viewer_that_does_not_take_its_history_loses_its_place(writer):
    hub = Hub(writer.log, writer.inbox, HubLimits(drain_seconds=0.05))
    await writer.append(*updates(writer, 1, 3))
    viewer = FrameViewer()
    viewer.buffered = SLOW
    await watching(hub, viewer=viewer)
    assert viewer.lost_place
    assert hub._channels == {}


async def test_a_slow_viewer_is_asked_at_once(hub, writer):
    viewer, _ = await watching(hub)
    viewer.buffered = SLOW
    hub.publish("acme", "s1", items(*updates(writer, 1, 20, text="x" * 5000)))
    question = Item(*writer.question(21))
    hub.publish("acme", "s1", [question])
    hub.stored("acme", "s1", [question])
    assert viewer.asked == [question.cursor]
    viewer.lost_place = True
    hub.close()


async def test_a_slow_viewer_waits_out_an_outage_of_the_store(on_own_server):
    writer, server = on_own_server
    hub = Hub(writer.log, writer.inbox)
    viewer, _ = await watching(hub)
    viewer.buffered = SLOW
    large = updates(writer, 1, 20, text="x" * 5000)
    hub.publish("acme", "s1", items(*large))
    server.stop()
    viewer.buffered = 0
    appending = asyncio.create_task(writer.append(*large))
    await asyncio.to_thread(server.start)
    assert (await appending).state == "ok"
    await viewer.has(Cursor(writer.epoch, 20))
    assert seqs(viewer.seen) == list(range(1, 21))


async def test_more_than_may_be_held_is_read_from_the_log(writer):
    hub = Hub(writer.log, writer.inbox, HubLimits(held_bytes=2000))
    await writer.append(*updates(writer, 1, 3))
    await watching(hub)
    joining = asyncio.create_task(watching(hub))
    await asyncio.sleep(0)
    large = updates(writer, 4, 60, text="x" * 500)
    for each in large:
        hub.publish("acme", "s1", items(each))
    await writer.append(*large)
    viewer, _ = await joining
    assert seqs(viewer.seen) == list(range(1, 61))


# The law.


@dataclass
class Session:
    """A session as its connector knows it, and everything that has become of it."""

    writer: object
    hub: Hub
    name: str
    said: list = field(default_factory=list)  # the log as it will be
    shown: int = 0  # of said, live
    stored: int = 0  # of said, in Redis
    watching: list = field(default_factory=list)  # viewer, subscriber, the cursor it came with
    joining: list = field(default_factory=list)

    async def speak(self, count):
        for _ in range(count):
            cursor = self.said[-1][0] if self.said else START
            first = cursor.epoch != self.writer.epoch
            seq = 1 if first else cursor.seq + 1
            prev = cursor if first and cursor != START else None
            make = self.writer.question if seq % 7 == 0 and not prev else self.writer.update
            more = {"id_": f"{self.name}-{len(self.said)}"} if seq % 7 == 0 and not prev else {}
            if make == self.writer.update:
                more = {"prev": prev, "text": "x" * (seq % 5 * 400)}
            self.said.append(make(seq, session=self.name, **more))

    async def show(self, count):
        """Publish the next entries live; sometimes again what was shown before."""
        start = max(0, self.shown - count % 3)
        self.shown = max(self.shown, min(len(self.said), self.shown + count))
        self.hub.publish("acme", self.name, items(*self.said[start : self.shown]))

    async def show_later(self, count):
        """Leave a hole in what is live: another process had the uplink meanwhile."""
        self.shown = min(len(self.said), self.shown + count)

    async def store(self, count):
        batch = self.said[self.stored : self.stored + count]
        if not batch:
            return
        await self.writer.append(*batch, session=self.name)
        self.stored += len(batch)
        self.tell_stored()

    def tell_stored(self):
        last = self.said[self.stored - 1]
        questions = [last] if last[2].method in entry.QUESTIONS else []
        self.hub.stored("acme", self.name, items(*questions), last[0])

    async def crash(self, _):
        """Lose what is not stored, and go on in a new epoch from there."""
        del self.said[self.stored :]
        self.shown = min(self.shown, self.stored)
        await self.writer.take_claim(epoch=self.writer.epoch + 1, writer=f"w{next(_numbers)}")

    async def join(self, choice):
        known = [START, *(cursor for cursor, _, _ in self.said[: max(self.shown, self.stored)])]
        after = known[choice * 7 % len(known)]
        viewer = Stream()
        made = await watching(self.hub, after, viewer, self.name)
        self.watching.append((*made, after))

    async def join_meanwhile(self, choice):
        """Join while the next steps go on."""
        self.joining.append(asyncio.create_task(self.join(choice)))
        await asyncio.sleep(0)

    async def leave(self, choice):
        if self.watching:
            _, subscriber, _ = self.watching.pop(choice % len(self.watching))
            subscriber.leave()

    async def stall(self, choice):
        if self.watching:
            self.watching[choice % len(self.watching)][0].buffered = SLOW

    async def drain(self, _):
        for viewer, _, _ in self.watching:
            viewer.buffered = 0
        await asyncio.sleep(0)

    async def settle(self):
        await self.drain(0)
        await asyncio.gather(*self.joining)
        await self.speak(1)  # something that everybody must get at the end
        await self.store(len(self.said))
        last = self.said[-1][0]
        for viewer, _, _ in self.watching:
            await viewer.has(last)

    def check(self):
        whole = [cursor for cursor, _, _ in self.said]
        texts = {cursor: text for cursor, text, _ in self.said}
        for viewer, subscriber, after in self.watching:
            kept = viewer.kept()
            floor = after if not viewer.gaps else min(after, *(gap[0] for gap in viewer.gaps))
            assert kept == [cursor for cursor in whole if cursor > floor][-len(kept) :]
            assert len(kept) == len([cursor for cursor in whole if cursor > floor])
            shown = [what for what in viewer.record if what[0] == "shown"]
            assert all(texts.get(cursor, text) == text for _, cursor, text in shown)
            assert subscriber.last == whole[-1]


STEPS = ["speak", "show", "show", "show_later", "store", "store", "crash", "join", "leave"]
STEPS += ["stall", "drain", "join_meanwhile", "join_meanwhile"]


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 9)), min_size=15, max_size=60))
async def test_any_interleaving_shows_every_entry_once_and_in_order(writer, steps):
    limits = HubLimits(held_bytes=1500, buffered_bytes=1000)
    session = Session(writer, Hub(writer.log, writer.inbox, limits), f"law-{next(_numbers)}")
    await session.speak(5)
    await session.join(0)
    for step, number in steps:
        await getattr(session, step)(number)
    await session.settle()
    session.check()
