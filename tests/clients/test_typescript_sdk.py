"""The official TypeScript SDK as a client, unmodified, at the editor's door."""

import sys

import pytest
from clients.typescript_sdk import SdkClient

DOOR = (sys.executable, "-m", "agent_side.cli", "connect", "--stdio", "--trust", "--agent", "demo")


@pytest.fixture
def door(node_modules, tmp_path):
    """A client at the editor's door of a connector with the demo agent."""
    state = {"CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state"), "CHIMERA_DEMO_PACE_MS": "0"}
    return lambda: SdkClient("stdio", *DOOR, "--cwd", str(tmp_path), env=state)


async def opened(client, folder):
    await client.call("initialize", protocolVersion=1, clientCapabilities={})
    return (await client.call("session/new", cwd=str(folder), mcpServers=[]))["sessionId"]


def prompt(client, session, text):
    blocks = [{"type": "text", "text": text}]
    return client.ask("session/prompt", sessionId=session, prompt=blocks)


@pytest.mark.parametrize(("option", "written"), [("once", True), ("no", False)])
async def test_it_prompts_and_its_answer_counts(door, tmp_path, option, written):
    async with door() as client:
        session = await opened(client, tmp_path)
        turn = prompt(client, session, "run touch made")
        client.choose(await client.question(), option)
        assert (await client.answer(turn))["stopReason"] == "end_turn"
        assert (tmp_path / "made").exists() is written


async def test_it_lists_and_loads(door, tmp_path):
    async with door() as client:
        session = await opened(client, tmp_path)
        await client.answer(prompt(client, session, "plan"))
        said, seen = client.text(), len(client.updates)
        listed = await client.call("session/list")
        await client.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        client.updates = client.updates[seen:]
        assert [one["sessionId"] for one in listed["sessions"]] == [session]
        assert client.text() == said


async def test_its_question_is_withdrawn_when_the_turn_is_cancelled(door, tmp_path):
    async with door() as client:
        session = await opened(client, tmp_path)
        turn = prompt(client, session, "run touch made")
        question = await client.question()
        client._say(notify="session/cancel", params={"sessionId": session})
        assert (await client.answer(turn))["stopReason"] == "cancelled"
        await client.until(lambda: client.withdrawn == [question["question"]])
        assert not (tmp_path / "made").exists()
