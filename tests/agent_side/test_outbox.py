"""The outbox: whatever is cut, lost or refused, the relay gets each entry once and in order."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent_side.journal import SessionJournal
from agent_side.outbox import BEHIND_BYTES, RESEND_PAUSE_SECONDS, Outbox, too_big
from bridge.protocol import entry, uplink
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.uplink import Arrivals, Stored

SESSIONS = ("one", "two")


def text(session, cursor, prev=None):
    meta = entry.Meta(cursor.epoch, cursor.seq, prev=str(prev) if prev is not None else None)
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
    return entry.stamp(entry.UPDATE, session, meta, {"update": update})


def journal(folder, session):
    return SessionJournal(folder / f"{session}.jsonl", lambda _text, _envelope: None)


def append(log, session, epoch=1):
    last = log.last
    same = last.epoch == epoch
    cursor = Cursor(epoch, last.seq + 1 if same else 1)
    log.append(cursor, text(session, cursor, None if same else last))
    return cursor


@pytest.fixture
def log(tmp_path):
    return journal(tmp_path, "one")


@pytest.fixture
def outbox(log):
    box = Outbox()
    box.add("one", log)
    return box


def sent(box):
    return [entry.read(t).cursor for t in iter(box.next, None)]


def test_nothing_is_sent_before_the_relay_said_what_it_has(outbox, log):
    append(log, "one")
    outbox.put("one")
    assert outbox.next() is None


def test_sending_begins_after_what_the_relay_has(outbox, log):
    cursors = [append(log, "one") for _ in range(3)]
    outbox.connect([Stored("one", *cursors[0])])
    assert sent(outbox) == cursors[1:]


def test_a_relay_that_has_nothing_is_refilled_from_the_first_epoch(outbox, log):
    cursors = [append(log, "one", epoch) for epoch in (1, 1, 5)]
    outbox.connect([Stored("one", 0, 0)])
    assert sent(outbox) == cursors


def test_the_window_closes_and_an_acknowledgement_opens_it(outbox, log):
    cursors = [append(log, "one") for _ in range(5)]
    outbox.connect([], {"windowEntries": 2})
    assert sent(outbox) == cursors[:2]
    assert not outbox.window_is_open
    outbox.acknowledge(Stored("one", *cursors[1]))
    assert sent(outbox) == cursors[2:4]


def test_the_window_counts_bytes_too(outbox, log):
    cursors = [append(log, "one") for _ in range(3)]
    outbox.connect([], {"windowBytes": 1})
    assert sent(outbox) == cursors[:1]


def test_a_refusal_makes_the_rest_go_again(outbox, log):
    cursors = [append(log, "one") for _ in range(4)]
    outbox.connect([])
    sent(outbox)
    assert outbox.acknowledge(Stored("one", *cursors[0], resend=True)) == 0
    assert sent(outbox) == cursors[1:]
    assert outbox.flying_entries == 3


def test_the_same_refusal_many_times_makes_one_resend_a_second(log):
    now = [100.0]
    box = Outbox(lambda: now[0])
    box.add("one", log)
    cursors = [append(log, "one") for _ in range(4)]
    box.connect([])
    sent(box)
    refusal = Stored("one", *cursors[0], resend=True)
    box.acknowledge(refusal)
    sent(box)
    pause = box.acknowledge(refusal)
    assert 0 < pause <= RESEND_PAUSE_SECONDS
    assert sent(box) == []
    now[0] += pause
    assert box.acknowledge(refusal) == 0
    assert sent(box) == cursors[1:]


def test_sessions_take_turns(outbox, log, tmp_path):
    other = journal(tmp_path, "two")
    outbox.add("two", other)
    for _ in range(2):
        append(log, "one")
        append(other, "two")
    outbox.connect([])
    order = [entry.read(t).session_id for t in iter(outbox.next, None)]
    assert order == ["one", "two", "one", "two"]


def test_what_no_frame_can_carry_is_replaced_by_a_gap_of_the_same_number(outbox, log):
    cursor = append(log, "one")
    outbox.connect([], {"frameBytes": 50})
    gap = outbox.next()
    envelope = entry.read(gap)
    assert (envelope.method, envelope.cursor) == (entry.GAP, cursor)
    assert envelope.meta.prev == str(START)
    assert b'"reason":"too_big"' in too_big("one", text("one", cursor))


def test_an_unknown_session_is_ignored(outbox):
    outbox.connect([Stored("other", 1, 1)])
    assert outbox.acknowledge(Stored("other", 1, 1, resend=True)) == 0
    assert outbox.next() is None
    assert outbox.idle


class Traffic(RuleBasedStateMachine):
    """Any mix of entries, deliveries, losses, cuts and acknowledgements."""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name)
        self.now = 0.0
        self.box = Outbox(lambda: self.now)
        self.logs = {s: journal(path, s) for s in SESSIONS}
        for session, log in self.logs.items():
            self.box.add(session, log)
        self.relay = {s: Arrivals() for s in SESSIONS}
        self.got = {s: [] for s in SESSIONS}
        self.made = {s: [] for s in SESSIONS}
        self.wire = []
        self.epoch = 1

    @rule(session=st.sampled_from(SESSIONS), count=st.integers(1, 5))
    def speak(self, session, count):
        for _ in range(count):
            self.made[session].append(append(self.logs[session], session, self.epoch))
        self.box.put(session)

    @rule()
    def restart(self):
        """A new process: another epoch, another connection."""
        self.epoch += 1
        self.cut()

    @rule()
    def cut(self):
        self.wire.clear()
        self.box.disconnect()

    @precondition(lambda self: not self.box.connected)
    @rule(window=st.integers(1, 4))
    def attach(self, window):
        stored = [Stored(s, *a.last) for s, a in self.relay.items()]
        self.box.connect(stored, {"windowEntries": window})

    @rule(count=st.integers(1, 6))
    def send(self, count):
        for _ in range(count):
            if (found := self.box.next()) is not None:
                self.wire.append(found)

    @precondition(lambda self: self.wire)
    @rule(acknowledged=st.booleans())
    def deliver(self, acknowledged):
        envelope = entry.read(self.wire.pop(0))
        session = envelope.session_id
        prev = Cursor.parse(envelope.meta.prev) if envelope.meta.prev else None
        accepted = self.relay[session].accept(envelope.cursor, prev)
        if accepted:
            self.got[session].append(envelope.cursor)
        if acknowledged or accepted is None:
            last = self.relay[session].last
            again = self.box.acknowledge(Stored(session, *last, resend=accepted is None))
            if again:
                self.now += again
                self.box.acknowledge(Stored(session, *last, resend=True))

    @precondition(lambda self: self.wire)
    @rule()
    def lose(self):
        """The relay's store refused one: it is as if it had never come."""
        self.wire.pop(0)

    @invariant()
    def in_order_and_once(self):
        for session in SESSIONS if hasattr(self, "got") else ():
            assert self.got[session] == self.made[session][: len(self.got[session])]

    def teardown(self):
        if not hasattr(self, "box"):
            return
        for _ in range(3):  # a cut ends whatever was lost on the way
            self.cut()
            self.attach(window=uplink.WINDOW_ENTRIES)
            self.send(count=10_000)
            while self.wire:
                self.deliver(acknowledged=True)
        assert self.got == self.made
        assert self.box.idle
        self.folder.cleanup()


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_the_line_is_behind_when_it_is_full_or_answers_later_than_it_can(log):
    now = [0.0]
    box = Outbox(lambda: now[0])
    box.add("one", log)
    cursors = [append(log, "one") for _ in range(2)]
    box.connect([])
    assert not box.is_behind(10)
    sent(box)
    assert not box.is_behind(10)
    now[0] = 0.2
    assert box.is_behind(10)
    assert not box.is_behind(100)  # a far relay's usual answer takes so long
    box.acknowledge(Stored("one", *cursors[-1]))
    assert not box.is_behind(10)
    box.unsent = lambda: 1
    assert box.is_behind(10)
    box.connect([], {"windowEntries": 1})
    sent(box)
    assert box.is_behind(10)


def test_the_line_is_behind_with_more_on_its_way_than_a_slow_one_carries_in_seconds(log):
    box = Outbox(lambda: 0.0)
    box.add("one", log)
    box.connect([])
    while box.flying_bytes <= BEHIND_BYTES:
        assert not box.is_behind(10)
        append(log, "one")
        box.put("one")
        sent(box)
    assert box.is_behind(10)
