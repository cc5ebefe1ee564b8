"""Mail on disk: taken once, remembered over restarts, whatever the end of the file looks like."""

from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_side.mailbox import IDS_KEPT, Mailbox
from bridge.protocol.entry import Origin
from bridge.protocol.uplink import Mail, MailDone


def mail(n, mail_id=None):
    return Mail(n, mail_id or f"m{n}", Origin("alice"), {"method": "session/cancel"})


def opened(path):
    def failed(error):
        raise error

    box = Mailbox(path, failed)
    box.open()
    return box


@pytest.fixture
def another(tmp_path):
    """Open the same file again and again, as one process after the other."""
    boxes = []

    def another():
        boxes.append(opened(tmp_path / "mail.jsonl"))
        return boxes[-1]

    yield another
    for box in boxes:
        box.close()


def test_the_same_id_is_taken_once_also_under_another_number(another):
    box = another()
    assert [box.take(mail(1)), box.take(mail(1)), box.take(mail(7, "m1"))] == [True, False, False]
    assert box.journaled == 7


def test_the_next_process_knows_what_was_taken_and_what_was_handed(another):
    box = another()
    for n in (1, 2, 3):
        box.take(mail(n))
    box.hand("m2")
    box.finish(MailDone("m3", {}))
    again = another()
    assert (list(again.pending), again.handed, again.journaled) == (["m1", "m2"], {"m2"}, 3)
    assert not again.take(mail(3))


def test_outcomes_are_remembered_over_restarts(another):
    """B08: who sends again what was done before a restart still gets its answer."""
    box = another()
    box.take(mail(1))
    done = MailDone("m1", {"stopReason": "end_turn"})
    box.finish(done)
    assert box.outcome("m1") == done
    assert box.outcomes() == [done]
    for _ in range(2):
        box.close()
        box = another()
        assert box.outcomes() == [done]
        assert not box.pending


def test_the_oldest_of_very_many_ids_is_forgotten(another):
    """B07: bounded memory; a mail that comes again after 10,000 others is taken for new."""
    box = another()
    box._write = lambda _line, sync=True: True
    for n in range(1, IDS_KEPT + 2):
        box.take(mail(n))
        box.finish(MailDone(f"m{n}"))
    assert not box.take(mail(2))
    assert box.take(mail(1))


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_a_file_cut_at_any_byte_gives_what_was_whole(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "mail.jsonl"
    with closing(opened(path)) as box:
        for n in range(1, 6):
            box.take(mail(n))
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    path.write_bytes(whole[:cut])
    lines = whole[:cut].count(b"\n")
    with closing(opened(path)) as again:
        assert list(again.pending) == [f"m{n}" for n in range(1, lines)]
        again.take(mail(9))
    with closing(opened(path)) as last:
        assert list(last.pending)[-1] == "m9"
