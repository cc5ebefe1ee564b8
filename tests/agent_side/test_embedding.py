"""``agent_side.serve``: a connector inside another program."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.agent import FakeAgent
from fakes.relay import FakeRelay

import agent_side
from agent_side.connector import local_origin
from agent_side.embedding import NotServed

COMMANDS = Path(__file__).parents[2] / "docs" / "commands.md"


def test_the_example_of_the_docs_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", COMMANDS.read_text(), re.DOTALL)
    env = {"CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert done.stdout.split()[0] == "embedded"


async def test_a_program_opens_a_session_that_a_relay_sees(tmp_path):
    agent = FakeAgent(tmp_path / "agent")
    folders = {"cwd": tmp_path, "state_dir": tmp_path / "state", "snapshot_mb": 0}
    async with FakeRelay() as relay:
        async with agent_side.serve(agent.argv, relay=relay.url, token="good", **folders) as served:
            opened = await served.new_session(tmp_path, local_origin("program"))
            assert opened.session.id in served.sessions
            hello = await relay.attached()
            assert [agent.name for agent in hello.agents] == ["embedded"]
        assert served.has_ended


async def test_an_agent_that_does_not_start_is_told(tmp_path):
    command = [sys.executable, "-c", "raise SystemExit(9)"]
    with pytest.raises(NotServed) as refused:
        async with agent_side.serve(command, cwd=tmp_path, state_dir=tmp_path / "state"):
            raise AssertionError("it was served")
    assert refused.value.reason.code == 5
