"""Background tasks: a death is told and remembered, and the end waits for all."""

import asyncio

from bridge.tasks import Tasks


async def test_a_task_that_raises_is_remembered_and_logged(caplog):
    tasks = Tasks()

    async def die():
        raise OSError("no disk")

    await tasks.start("first", die())
    await tasks.start("second", die())
    assert tasks.failed == "first"
    assert "the task first died; the relay stops" in caplog.text
    assert "no disk" in caplog.text


async def test_a_task_that_is_done_or_cancelled_is_no_failure():
    tasks = Tasks()
    await tasks.start("done", asyncio.sleep(0))
    running = tasks.start("running", asyncio.Event().wait())
    await tasks.end()
    assert running.cancelled()
    assert tasks.failed is None


async def test_a_task_that_misses_its_first_cancellation_is_cancelled_again():
    tasks, missed = Tasks(), []

    async def stubborn():
        while len(missed) < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                missed.append(1)

    tasks.start("stubborn", stubborn())
    await asyncio.sleep(0)
    await tasks.end()
    assert len(missed) == 3
