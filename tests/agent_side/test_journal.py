"""Logs on disk: what is written is read again, whatever the end of the file looks like."""

import json
import tempfile
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_side.journal import OPEN_FILES, Journal, SessionFacts, SessionJournal
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor

SESSION = "s1"


def text(cursor, size=0):
    update = {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "x" * size},
    }
    meta = entry.Meta(cursor.epoch, cursor.seq)
    return entry.stamp(entry.UPDATE, SESSION, meta, {"update": update})


def ignore(_text, _envelope):
    pass


def fill(path, *epochs, shortened=()):
    """Write so many entries in each epoch; give all as (cursor, text)."""
    journal = SessionJournal(path, ignore)
    written = []
    for number, count in enumerate(epochs, 1):
        for seq in range(1, count + 1):
            cursor = Cursor(number * 10, seq)
            full = text(cursor, 500) if cursor in shortened else None
            journal.append(cursor, text(cursor), full)
            written.append((cursor, text(cursor)))
    journal.close()
    return written


def test_entries_are_read_again_in_order_over_epochs(tmp_path):
    written = fill(tmp_path / "s.jsonl", 3, 2)
    seen = []
    journal = SessionJournal(tmp_path / "s.jsonl", lambda t, e: seen.append((e.cursor, t)))
    assert list(journal.read_after(START)) == written == seen
    assert journal.last == Cursor(20, 2)


def test_reading_begins_after_any_cursor_also_one_that_is_not_there(tmp_path):
    fill(tmp_path / "s.jsonl", 3, 2)
    journal = SessionJournal(tmp_path / "s.jsonl", ignore)
    for after, first in [
        (Cursor(10, 2), Cursor(10, 3)),
        (Cursor(10, 9), Cursor(20, 1)),  # lost with a torn tail
        (Cursor(15, 1), Cursor(20, 1)),
        (Cursor(5, 7), Cursor(10, 1)),
        (Cursor(20, 2), None),
        (Cursor(99, 1), None),
    ]:
        found = next(journal.read_after(after), (None, b""))[0]
        assert found == first == journal.following(after)


def test_a_page_ends_right_before_its_cursor(tmp_path):
    fill(tmp_path / "s.jsonl", 3, 2)
    journal = SessionJournal(tmp_path / "s.jsonl", ignore)
    newest = [cursor for cursor, _ in journal.read_before(None, 3)]
    assert newest == [Cursor(10, 3), Cursor(20, 1), Cursor(20, 2)]
    older = [cursor for cursor, _ in journal.read_before(newest[0], 10)]
    assert older == [Cursor(10, 1), Cursor(10, 2)]
    assert list(journal.read_before(older[0], 10)) == []


def test_a_shortened_entry_is_kept_in_full_too(tmp_path):
    fill(tmp_path / "s.jsonl", 2, shortened={Cursor(10, 1)})
    journal = SessionJournal(tmp_path / "s.jsonl", ignore)
    sent = [t for _, t in journal.read_after(START)]
    full = [t for _, t in journal.read_after(START, full=True)]
    assert sent == [text(Cursor(10, 1)), text(Cursor(10, 2))]
    assert full == [text(Cursor(10, 1), 500), text(Cursor(10, 2))]


def test_what_is_not_flushed_is_read_as_well(tmp_path):
    journal = SessionJournal(tmp_path / "s.jsonl", ignore)
    journal.append(Cursor(1, 1), text(Cursor(1, 1)))
    assert [cursor for cursor, _ in journal.read_after(START)] == [Cursor(1, 1)]


def test_the_last_facts_count(tmp_path):
    journal = SessionJournal(tmp_path / "s.jsonl", ignore)
    journal.keep_facts(SessionFacts(SESSION, "1", title="old"))
    journal.append(Cursor(1, 1), text(Cursor(1, 1)))
    journal.keep_facts(SessionFacts(SESSION, "1", title="new"))
    journal.close()
    again = SessionJournal(tmp_path / "s.jsonl", ignore)
    assert again.facts.title == "new"
    assert len(again) == 1


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_file_cut_at_any_byte_gives_a_prefix_and_takes_more(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("journal") / "s.jsonl"
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    written = fill(path, *counts, shortened={Cursor(10, 2)})
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    journal = SessionJournal(path, ignore)
    found = list(journal.read_after(START))
    assert found == written[: len(found)]
    assert len(found) == whole[:cut].count(b"\n")
    after = Cursor(1000, 1)
    journal.append(after, text(after))
    journal.close()
    again = SessionJournal(path, ignore)
    assert list(again.read_after(START)) == [*found, (after, text(after))]
    assert not path.with_suffix(".damaged").exists()


def test_damage_in_the_middle_keeps_the_rest_aside(tmp_path):
    path = tmp_path / "s.jsonl"
    written = fill(path, 3)
    first, _, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\0\0\0\n" + third)
    journal = SessionJournal(path, ignore)
    assert list(journal.read_after(START)) == written[:1]
    assert path.with_suffix(".damaged").read_bytes() == b"\0\0\0\n" + third


def test_thousands_of_sessions_do_not_keep_their_files_open(tmp_path):
    journal = Journal(tmp_path)
    for number in range(OPEN_FILES * 2):
        journal.begin(f"s{number}")
        journal.append(f"s{number}", Cursor(1, 1), text(Cursor(1, 1)), None)
    journal.flush()
    opened = [one for one in journal.sessions.values() if one._fd is not None]
    assert len(opened) == OPEN_FILES
    journal.close()
    seen = []
    again = Journal(tmp_path)
    again.load(lambda t, _e: seen.append(json.loads(t)))
    assert len(seen) == len(again.sessions) == OPEN_FILES * 2


@given(st.integers(0, 12), st.integers(1, 12), st.integers(0, 3000))
@settings(deadline=None, max_examples=60)
def test_a_page_is_the_newest_that_fits_and_never_nothing(before, count, size):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.jsonl"
        written = fill(path, 10, shortened={Cursor(10, 4)})
        journal = SessionJournal(path, ignore)
        page = list(journal.page_before(Cursor(10, before), count, size))
        held = [each for each in written if each[0].seq < before]
        assert page == held[len(held) - len(page) :]
        assert bool(page) == bool(held)
        assert len(page) <= count
        assert len(page) <= 1 or sum(len(text) for _, text in page) <= size


def test_an_entry_is_given_in_full_also_after_opening_again(tmp_path):
    path = tmp_path / "s.jsonl"
    journal = SessionJournal(path, ignore)
    full, sent = text(Cursor(10, 1), 500), text(Cursor(10, 1))
    journal.append(Cursor(10, 1), sent, full)
    journal.append(Cursor(10, 2), text(Cursor(10, 2)))
    journal.flush()
    for opened in (journal, SessionJournal(path, ignore)):
        assert opened.whole(Cursor(10, 1)) == full
        assert opened.whole(Cursor(10, 2)) == text(Cursor(10, 2))
        assert opened.whole(Cursor(10, 3)) is opened.whole(Cursor(9, 1)) is None


def test_the_newest_page_costs_the_same_however_long_the_session_is(tmp_path):
    """F07."""
    seconds = {}
    for count in (1_000, 200_000):
        fill(tmp_path / f"{count}.jsonl", count)
        journal = SessionJournal(tmp_path / f"{count}.jsonl", ignore)
        seconds[count] = min(timed(journal) for _ in range(20))
    print({count: f"{1000 * each:.2f} ms" for count, each in seconds.items()})
    assert seconds[200_000] <= 2 * seconds[1_000]


def timed(journal):
    begun = time.perf_counter()
    assert len(list(journal.page_before(None, 200, 1 << 20))) == 200
    return time.perf_counter() - begun
