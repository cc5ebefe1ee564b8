"""One connection's work: in order, one at a time, and no failure stops the rest."""

import asyncio

import pytest

from bridge.errands import Errands
from bridge.protocol.errors import StoreUnavailable
from bridge.tasks import Tasks


@pytest.fixture
async def tasks():
    started = Tasks()
    yield started
    await started.end()


@pytest.fixture
def errands(tasks):
    return Errands(tasks, "a connection")


async def test_work_is_done_in_the_order_it_was_given(errands):
    done, over = [], asyncio.Event()
    gate = asyncio.Event()

    async def slow():
        await gate.wait()
        done.append("slow")

    async def quick():
        done.append("quick")
        over.set()

    errands.add(slow)
    errands.add(quick)
    await asyncio.sleep(0)
    assert done == []
    gate.set()
    await over.wait()
    assert done == ["slow", "quick"]


@pytest.mark.parametrize("error", [StoreUnavailable("away"), ValueError("broken")], ids=repr)
async def test_a_failure_is_logged_and_the_next_work_begins(errands, tasks, caplog, error):
    over = asyncio.Event()
    caplog.set_level("DEBUG", "bridge")

    async def fails():
        raise error

    async def after():
        over.set()

    errands.add(fails)
    errands.add(after)
    await over.wait()
    assert "a connection" in caplog.text
    assert tasks.failed is None


async def test_what_has_not_begun_can_be_forgotten(errands):
    over = asyncio.Event()

    async def begun():
        over.set()

    async def never():
        raise AssertionError

    errands.add(begun)
    errands.add(never)
    assert len(errands) == 2
    await asyncio.sleep(0)
    errands.clear()
    await over.wait()
    assert len(errands) == 0


async def test_without_work_there_is_no_task_and_new_work_starts_one(errands, tasks):
    for _ in range(2):
        over = asyncio.Event()

        async def work(over=over):
            over.set()

        errands.add(work)
        await over.wait()
        async with asyncio.timeout(5):
            while tasks._running:  # noqa: ASYNC110 (nothing tells of it)
                await asyncio.sleep(0)


async def test_work_may_add_work(errands):
    over = asyncio.Event()

    async def last():
        over.set()

    async def first():
        errands.add(last)

    errands.add(first)
    await over.wait()
