"""The connector as a process that is killed while its agent waits for an answer."""

import asyncio
import os
import signal
import sys

from fakes.agent import FakeAgent
from fakes.relay import FakeRelay
from fakes.running import asks, stamp


async def connect(folder, relay, agent):
    """Start the connector's own command line."""
    arguments = ["connect", "--relay", relay.url, "--name", "k", "--cwd", str(folder)]
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "agent_side.cli",
        *arguments,
        "--",
        *agent.argv,
        env={
            **os.environ,
            "CHIMERA_BRIDGE_STATE_DIR": str(folder / "state"),
            "FERRET_BRIDGE_TOKEN": "good",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_killed_connector_comes_back_and_tells_the_truth(tmp_path):
    agent = FakeAgent(tmp_path / "agent", load=[], turns=[[{"chunks": 3}, asks()]])
    async with FakeRelay() as relay:
        first = await connect(tmp_path, relay, agent)
        session = await relay.new_session(tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        relay.send_mail("session/prompt", prompt, "m-1")
        [question] = await relay.until(relay.questions)
        first.send_signal(signal.SIGKILL)
        await first.communicate()

        second = await connect(tmp_path, relay, agent)
        done = await relay.outcome("m-1")
        assert done.error["data"]["reason"] == "unknown_outcome"
        await relay.until(lambda: relay.turns(session)[-1] == "unknown")
        old, new = relay.hellos
        assert new.epoch > old.epoch
        assert new.agents[0].id == old.agents[0].id
        mine = [m for m in relay.messages(session) if stamp(m)["epoch"] == new.epoch]
        resolved, turn = mine
        assert resolved["params"]["id"] == question["id"]
        assert resolved["params"]["reason"] == "restarted"
        assert turn["params"]["state"] == "unknown"

        relay.send_mail("session/prompt", prompt, "m-2")
        [again] = await relay.until(relay.questions)
        relay.decide(again, {"optionId": "yes"}, "d-1")
        assert (await relay.outcome("m-2")).result == {"stopReason": "end_turn"}
        second.terminate()
        _, said = await second.communicate()
        assert second.returncode == 0, said
        assert len(agent.received("session/prompt")) == 2
