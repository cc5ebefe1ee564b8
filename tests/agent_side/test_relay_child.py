import asyncio
import os
import signal

import psutil
import pytest

from agent_side.relay_child import RelayChild, RelayDown, relay_environment


@pytest.fixture
async def child(tmp_path):
    said = asyncio.Queue()
    child = RelayChild(relay_environment(tmp_path / "relay", "127.0.0.1", 0), said.put_nowait)
    child.said = said
    yield child
    await child.stop()


async def test_it_listens_after_start_and_nothing_is_left_after_stop(child):
    await child.start()
    family = psutil.Process(child.pid).children(recursive=True)
    assert family  # the relay and its store
    await child.stop()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, 20)
    assert alive == []
    assert child.pid is None


async def test_a_link_and_a_token_can_be_asked_for_while_it_runs(child):
    await child.start()
    assert "#signin=" in await child.ask("link")
    token = await child.ask("token", "--kind", "agent", "--subject", "up")
    assert token.count(".") == 2


async def test_without_it_there_is_no_link_and_the_reason_is_told(child):
    with pytest.raises(RelayDown, match="no relay runs"):
        await child.ask("link")


async def test_it_says_why_it_does_not_start(tmp_path):
    environment = relay_environment(tmp_path, "127.0.0.1", 0, log_entries=1)
    with pytest.raises(RelayDown, match="BRIDGE_LOG_ENTRIES"):
        await RelayChild(environment, print).start()


async def test_one_that_died_is_started_again(child):
    await child.start()
    first = child.pid
    watching = asyncio.create_task(child.watch())
    os.killpg(first, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert (await child.said.get()).startswith("the relay ended (")
        assert await child.said.get() == "the relay runs again"
    watching.cancel()
    assert "#signin=" in await child.ask("link")
    assert child.pid != first
