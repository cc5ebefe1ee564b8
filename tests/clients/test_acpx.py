"""acpx, a command line client of other makers, at the editor's door."""

import asyncio
import fcntl
import sys

import pytest
from clients.acpx import DENIED, check_conversation, run_acpx

DOOR = (sys.executable, "-m", "agent_side.cli", "connect", "--stdio", "--trust", "--agent", "demo")


@pytest.fixture
def acpx(node_modules, tmp_path):
    """Run acpx with an agent's command."""
    env = {
        "HOME": str(tmp_path / "home"),
        "CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state"),
        "CHIMERA_DEMO_PACE_MS": "0",
    }
    return lambda *command: run_acpx(node_modules, *command, cwd=tmp_path, env=env)


@pytest.mark.parametrize(("policy", "written"), [("--approve-all", True), ("--deny-all", False)])
async def test_acpx_runs_a_turn_and_its_answer_counts(acpx, tmp_path, policy, written):
    code, messages = await acpx([*DOOR, "--cwd", str(tmp_path)], policy, "exec", "run touch made")
    check_conversation(messages)
    assert code == (0 if written else DENIED)
    assert (tmp_path / "made").exists() is written
    assert messages[-1]["result"]["stopReason"] == "end_turn"


async def test_acpx_keeps_a_session_over_several_processes(acpx, tmp_path):
    agent = [*DOOR, "--cwd", str(tmp_path)]
    await acpx(agent, "sessions", "new")
    await is_free(tmp_path / "state")
    sessions = set()
    for name in ("first", "second"):
        command = ("--approve-all", "--ttl", "1", "prompt", f"run touch {name}")
        code, messages = await acpx(agent, *command)
        assert code == 0, messages
        await is_free(tmp_path / "state")
        assert (tmp_path / name).exists()
        prompts = [m for m in messages if m.get("method") == "session/prompt"]
        sessions |= {prompt["params"]["sessionId"] for prompt in prompts}
    assert len(sessions) == 1


async def is_free(state):
    """Wait until the connector, which acpx keeps for a second, has let its folder go."""
    async with asyncio.timeout(30):
        for lock in state.rglob("lock"):
            with lock.open() as file:
                await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
