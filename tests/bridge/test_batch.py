"""How entries follow each other, and the frames they go out as."""

import pytest
from fakes.viewer import FrameViewer, payloads

from bridge.batch import Batch, Link, link, predecessor
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Meta, Origin
from bridge.viewer import Item


def entry_at(epoch, seq, prev=None):
    meta = Meta(epoch, seq, prev=None if prev is None else str(Cursor(*prev)))
    text = entry.stamp(entry.UPDATE, "s1", meta, {"update": {}})
    return Item(Cursor(epoch, seq), text, entry.read(text))


@pytest.mark.parametrize(
    ("last", "item", "how"),
    [
        ((0, 0), entry_at(5, 1), Link.NEXT),
        ((0, 0), entry_at(5, 2), Link.AHEAD),
        ((5, 1), entry_at(5, 2), Link.NEXT),
        ((5, 2), entry_at(5, 2), Link.REPEAT),
        ((5, 1), entry_at(5, 3), Link.AHEAD),
        ((5, 4), entry_at(6, 1, prev=(5, 4)), Link.NEXT),
        ((5, 3), entry_at(6, 1, prev=(5, 4)), Link.AHEAD),
        ((5, 9), entry_at(6, 1, prev=(5, 4)), Link.REWOUND),
        ((5, 9), entry_at(6, 1), Link.REWOUND),
        ((5, 9), entry_at(6, 2), Link.AHEAD),
        ((6, 1), entry_at(5, 7), Link.REPEAT),
    ],
)
def test_an_entry_follows_a_cursor_or_does_not(last, item, how):
    assert link(Cursor(*last), item) is how


def test_an_entry_knows_what_it_follows():
    assert predecessor(entry_at(5, 3)) == Cursor(5, 2)
    assert predecessor(entry_at(5, 1, prev=(4, 8))) == Cursor(4, 8)
    assert predecessor(entry_at(5, 1)) == START


# Frames.


def item(seq, method=entry.UPDATE, origin=None):
    text = entry.stamp(method, "s1", Meta(5, seq, origin=origin), {"update": {}})
    return Item(Cursor(5, seq), text, entry.read(text))


def test_plain_entries_are_framed_and_joined_once():
    batch = Batch([item(1), item(2), item(3)])
    assert payloads(batch.frames) == [each.text for each in batch.items]
    assert batch.size == len(batch.frames)


def test_a_question_is_no_frame_and_keeps_its_place():
    batch = Batch([item(1), item(2, entry.PERMISSION), item(3)])
    viewer = FrameViewer()
    batch.show(viewer)
    assert viewer.seen == [Cursor(5, 1), Cursor(5, 3)]


def test_a_question_alone_is_no_frame_at_all():
    batch = Batch([item(1, entry.PERMISSION)])
    assert (batch.frames, batch.size) == (None, 0)


def test_what_not_everybody_gets_as_it_is_stands_alone():
    batch = Batch([item(1), item(2, origin=Origin("alice")), item(3, entry.TURN), item(4)])
    assert batch.frames is None
    viewer = FrameViewer()
    batch.show(viewer)
    assert [len(payloads(frames)) for frames in viewer.frames] == [1, 1]
    assert viewer.seen == [Cursor(5, n) for n in (1, 2, 3, 4)]
