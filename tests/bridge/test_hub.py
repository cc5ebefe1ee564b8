"""Channels: what goes to whom, once and in order, live and from the log."""

import pytest
from fakes.viewer import FrameViewer, Stream, payloads

from bridge import keys
from bridge.hub import Hub
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Meta, Origin
from bridge.protocol.errors import InvalidParams, StoreUnavailable
from bridge.subscriber import Subscriber
from bridge.viewer import Item


@pytest.fixture
def hub(writer):
    return Hub(writer.log, writer.inbox)


async def watching(hub, viewer=None, session="s1", after=START):
    """A viewer that has the history and is live."""
    viewer = viewer or FrameViewer()
    subscriber = Subscriber(hub.channel("acme", session), viewer, after, history=True)
    await subscriber.start(hub.log)
    return viewer, subscriber


def items(*entries):
    return [Item(*each) for each in entries]


def said_by_a_person(writer, seq):
    meta = Meta(writer.epoch, seq, origin=Origin("alice"))
    text = entry.stamp(entry.UPDATE, "s1", meta, {"update": {"text": "please"}})
    return Item(Cursor(writer.epoch, seq), text, entry.read(text))


async def test_a_live_entry_reaches_everybody_as_the_same_bytes(hub, writer):
    viewers = [(await watching(hub))[0] for _ in range(3)]
    hub.publish("acme", "s1", items(writer.update(1), writer.update(2)))
    first = viewers[0].frames[0]
    assert payloads(first) == [writer.update(1)[1], writer.update(2)[1]]
    assert all(viewer.frames[0] is first for viewer in viewers)


async def test_entries_that_are_not_plain_come_in_order_and_one_by_one(hub, writer):
    viewer, _ = await watching(hub)
    batch = items(writer.update(1), writer.update(2))
    batch += [said_by_a_person(writer, 3), *items(writer.update(4), writer.resolved(5))]
    hub.publish("acme", "s1", batch)
    assert [cursor.seq for cursor in viewer.seen] == [1, 2, 3, 4, 5]
    assert [len(payloads(frames)) for frames in viewer.frames] == [2, 1]


async def test_a_question_is_asked_when_it_is_stored_and_never_shown(hub, writer):
    viewer, _ = await watching(hub)
    question = Item(*writer.question(2))
    hub.publish("acme", "s1", [*items(writer.update(1)), question, *items(writer.update(3))])
    assert [cursor.seq for cursor in viewer.seen] == [1, 3]
    assert viewer.asked == []
    hub.stored("acme", "s1", [question], Cursor(writer.epoch, 3))
    assert viewer.asked == [question.cursor]


async def test_a_stream_of_texts_has_questions_too_and_is_not_asked(hub, writer):
    stream, _ = await watching(hub, Stream())
    question = Item(*writer.question(2))
    hub.publish("acme", "s1", [*items(writer.update(1)), question])
    hub.stored("acme", "s1", [question])
    assert [cursor.seq for cursor in stream.seen] == [1, 2]


async def test_a_repeated_entry_is_dropped(hub, writer):
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1), writer.update(2)))
    hub.publish("acme", "s1", items(writer.update(1), writer.update(2), writer.update(3)))
    assert [cursor.seq for cursor in viewer.seen] == [1, 2, 3]


async def test_an_entry_of_another_process_comes_from_the_log(hub, writer):
    viewer, _ = await watching(hub)
    await writer.append(writer.update(1))
    await viewer.has(Cursor(writer.epoch, 1))


async def test_a_stored_entry_that_was_shown_live_is_not_shown_again(hub, writer):
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1)))
    await writer.append(writer.update(1), writer.update(2))
    await viewer.has(Cursor(writer.epoch, 2))
    assert [cursor.seq for cursor in viewer.seen] == [1, 2]


async def test_a_live_entry_with_a_hole_before_it_waits_for_the_log(hub, writer):
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(3), writer.update(4)))
    assert viewer.seen == []
    await writer.append(writer.update(1), writer.update(2))
    await viewer.has(Cursor(writer.epoch, 4))
    assert [cursor.seq for cursor in viewer.seen] == [1, 2, 3, 4]


async def test_a_question_from_the_log_is_asked_because_it_is_stored(hub, writer):
    viewer, _ = await watching(hub)
    await writer.append(writer.question(1), writer.update(2))
    await viewer.until(lambda: viewer.asked == [Cursor(writer.epoch, 1)])
    await viewer.has(Cursor(writer.epoch, 2))


async def test_a_new_epoch_goes_on_without_a_gap(hub, writer):
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1)))
    old, new = Cursor(writer.epoch, 1), writer.epoch + 1
    hub.publish("acme", "s1", items(writer.update(1, epoch=new, prev=old)))
    assert viewer.seen == [old, Cursor(new, 1)]
    assert viewer.gaps == []


async def test_a_new_epoch_that_lost_a_tail_takes_it_back(hub, writer):
    viewer, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1), writer.update(2), writer.update(3)))
    kept, new = Cursor(writer.epoch, 1), writer.epoch + 1
    hub.publish("acme", "s1", items(writer.update(1, epoch=new, prev=kept)))
    assert viewer.gaps == [(kept, "tail_lost")]
    assert viewer.kept() == [kept, Cursor(new, 1)]


async def test_a_new_epoch_ahead_of_what_was_shown_waits_for_the_log(hub, writer):
    viewer, _ = await watching(hub)
    old, new = Cursor(writer.epoch, 2), writer.epoch + 1
    hub.publish("acme", "s1", items(writer.update(1, epoch=new, prev=old)))
    assert viewer.seen == []
    await writer.append(writer.update(1), writer.update(2))
    await viewer.has(Cursor(new, 1))
    assert viewer.gaps == []


async def test_sessions_and_tenants_are_apart(hub, writer):
    mine, _ = await watching(hub)
    other, _ = await watching(hub, session="s2")
    hub.publish("acme", "s2", items(writer.update(1, session="s2")))
    hub.publish("umbrella", "s1", items(writer.update(1)))
    assert mine.seen == []
    assert other.seen == [Cursor(writer.epoch, 1)]


async def test_what_nobody_watches_costs_nothing(hub, writer):
    hub.publish("acme", "s1", items(writer.update(1)))
    hub.stored("acme", "s1", items(writer.question(2)))
    assert hub._channels == {}


async def test_the_last_one_to_leave_ends_the_channel(hub, writer):
    _, first = await watching(hub)
    _, second = await watching(hub)
    assert hub.channel("acme", "s1") is hub.channel("acme", "s1")
    first.leave()
    assert len(hub._channels) == 1
    second.leave()
    assert hub._channels == {}
    assert not writer.inbox.is_behind(keys.log("acme", "s1"), (9999999999999, 1))


async def test_a_viewer_that_left_gets_nothing_more(hub, writer):
    viewer, subscriber = await watching(hub)
    stays, _ = await watching(hub)
    subscriber.leave()
    subscriber.leave()
    hub.publish("acme", "s1", items(writer.update(1)))
    assert (viewer.seen, len(stays.seen)) == ([], 1)


async def test_a_failing_viewer_loses_its_place_alone(hub, writer):
    class Failing(FrameViewer):
        def write(self, frames):
            raise RuntimeError("a viewer that fails")

    failing, _ = await watching(hub, Failing())
    good, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1)))
    hub.publish("acme", "s1", items(writer.update(2)))
    assert failing.lost_place
    assert [cursor.seq for cursor in good.seen] == [1, 2]


async def test_a_viewer_may_leave_while_it_is_given_something(hub, writer):
    class Leaving(FrameViewer):
        def write(self, frames):
            subscriber.leave()

    leaving = Leaving()
    subscriber = Subscriber(hub.channel("acme", "s1"), leaving, START, history=True)
    await subscriber.start(hub.log)
    good, _ = await watching(hub)
    hub.publish("acme", "s1", items(writer.update(1)))
    assert len(good.seen) == 1
    assert not leaving.lost_place


async def test_a_bad_session_id_is_named(hub):
    with pytest.raises(InvalidParams, match="invalid session id '../s'"):
        hub.channel("acme", "../s")


async def test_without_the_store_starting_fails_and_leaves_nothing(on_own_server):
    writer, server = on_own_server
    hub = Hub(writer.log, writer.inbox)
    server.stop()
    with pytest.raises(StoreUnavailable):
        await watching(hub)
    assert hub._channels == {}


async def test_live_entries_are_shown_while_the_store_is_away(on_own_server):
    writer, server = on_own_server
    hub = Hub(writer.log, writer.inbox)
    viewer, _ = await watching(hub)
    server.stop()
    hub.publish("acme", "s1", items(writer.update(1)))
    assert [cursor.seq for cursor in viewer.seen] == [1]
