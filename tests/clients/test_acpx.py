"""acpx, a command line client of other makers, at the editor's door."""

import asyncio
import json
import os
import shlex
import sys

import pytest
from clients.packages import node
from schema.check import check_agent_message, check_client_message

DOOR = (sys.executable, "-m", "agent_side.cli", "connect", "--stdio", "--agent", "demo")


@pytest.fixture
def acpx(node_modules, tmp_path):
    """Run acpx with an agent command; give its exit code and the messages it printed."""

    async def run(agent, *arguments):
        process = await asyncio.create_subprocess_exec(
            node(),
            str(node_modules / "acpx" / "dist" / "cli.js"),
            *("--agent", shlex.join(agent), "--format", "json"),
            *arguments,
            cwd=tmp_path,
            env={
                **os.environ,
                "HOME": str(tmp_path / "home"),
                "CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state"),
                "CHIMERA_DEMO_PACE_MS": "0",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert out, err.decode()
        return process.returncode, [json.loads(line) for line in out.splitlines()]

    return run


def check_conversation(messages):
    """Check every message of both sides against the official schema."""
    asked = {}
    for message in messages:
        from_client = message.get("method", "") in CLIENT_SAYS or "outcome" in str(
            message.get("result", {})
        )
        check = check_client_message if from_client else check_agent_message
        if "method" in message:
            asked[message.get("id")] = message["method"]
            check(message)
        else:
            check(message, answers=asked[message["id"]])


CLIENT_SAYS = {
    "initialize",
    "session/new",
    "session/load",
    "session/resume",
    "session/prompt",
    "session/cancel",
}


@pytest.mark.parametrize(("policy", "written"), [("--approve-all", True), ("--deny-all", False)])
async def test_acpx_runs_a_turn_and_its_answer_counts(acpx, tmp_path, policy, written):
    code, messages = await acpx([*DOOR, "--cwd", str(tmp_path)], policy, "exec", "run touch made")
    check_conversation(messages)
    # Code 5: acpx says that everything asked for was denied.
    assert code == (0 if written else 5)
    assert (tmp_path / "made").exists() is written
    assert messages[-1]["result"]["stopReason"] == "end_turn"


async def test_acpx_keeps_a_session_over_several_processes(acpx, tmp_path):
    agent = [*DOOR, "--cwd", str(tmp_path)]
    await acpx(agent, "sessions", "new")
    sessions = set()
    for name in ("first", "second"):
        command = ("--approve-all", "--ttl", "1", "prompt", f"run touch {name}")
        code, messages = await acpx(agent, *command)
        assert code == 0
        assert (tmp_path / name).exists()
        prompts = [m for m in messages if m.get("method") == "session/prompt"]
        sessions |= {prompt["params"]["sessionId"] for prompt in prompts}
    assert len(sessions) == 1
