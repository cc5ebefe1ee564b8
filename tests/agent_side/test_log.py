"""The log's order: on disk, then shown, and steps in their place among entries."""

import asyncio

import pytest

from agent_side.journal import Journal
from agent_side.log import Draft, Log
from bridge.protocol import entry

SAY = Draft(method=entry.UPDATE, fields={"update": {"sessionUpdate": "x"}})


@pytest.fixture
def told():
    return []


@pytest.fixture
def log(tmp_path, told):
    journal = Journal(tmp_path)
    journal.begin("s")
    journal.begin("t")
    yield Log(journal, 7, lambda w: told.append((w.session_id, w.cursor.seq)), told.append)
    journal.close()


async def test_entries_of_one_turn_are_delivered_together_in_order(log, told):
    log.append("s", SAY)
    log.append("t", SAY)
    log.append("s", SAY)
    assert told == []
    await asyncio.sleep(0)
    assert told == [("s", 1), ("t", 1), ("s", 2)]


async def test_a_step_keeps_its_place_and_may_append(log, told):
    log.append("s", SAY)
    log.then(lambda: told.append("step"))
    log.then(lambda: log.append("s", SAY))
    log.append("t", SAY)
    log.flush()
    assert told == [("s", 1), "step", ("t", 1)]
    log.flush()
    assert told[-1] == ("s", 2)


async def test_a_failing_step_stops_nothing(log, told):
    log.then(lambda: 1 / 0)
    log.append("s", SAY)
    log.flush()
    assert told == [("s", 1)]


async def test_a_held_session_is_journaled_and_delivered_after_its_release(log, told):
    log.hold("s")
    log.append("s", SAY)
    log.append("t", SAY)
    log.flush()
    assert told == [("t", 1)]
    assert log.delivered.get("s") is None
    log.release("s")
    assert told == [("t", 1)]
    await asyncio.sleep(0)
    assert told == [("t", 1), ("s", 1)]


async def test_what_the_disk_does_not_take_is_shown_to_nobody(log, told, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log._journal, "flush", full)
    log.append("s", SAY)
    log.flush()
    log.flush()
    assert [type(x) for x in told] == [OSError, OSError]
