"""The official Python SDK as a client, unmodified, at the editor's door."""

import asyncio
import os
import sys

import pytest
from acp import spawn_agent_process, text_block
from clients.python_sdk import SdkEditor

DOOR = ("-m", "agent_side.cli", "connect", "--stdio", "--trust", "--agent", "demo", "--name", "sdk")


@pytest.fixture
def attached(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIMERA_BRIDGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("CHIMERA_DEMO_PACE_MS", "0")

    def start(client):
        door = (*DOOR, "--cwd", str(tmp_path))
        return spawn_agent_process(client, sys.executable, *door, env=dict(os.environ))

    return start


@pytest.mark.parametrize(("option", "written"), [("once", True), ("no", False)])
async def test_the_sdk_prompts_and_its_answer_counts(attached, tmp_path, option, written):
    client = SdkEditor(option)
    async with attached(client) as (agent, _):
        hello = await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        ended = await agent.prompt(
            session_id=session.session_id, prompt=[text_block("run touch made")]
        )
    assert hello.agent_capabilities.load_session
    assert ended.stop_reason == "end_turn"
    assert [question.kind for question in client.questions] == ["execute"]
    assert (tmp_path / "made").exists() is written
    assert client.text()


async def test_the_sdk_lists_and_loads_what_another_process_made(attached, tmp_path):
    first, second = SdkEditor("once"), SdkEditor("once")
    async with attached(first) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        await agent.prompt(session_id=session.session_id, prompt=[text_block("plan")])
    async with attached(second) as (agent, _):
        await agent.initialize(protocol_version=1)
        listed = await agent.list_sessions()
        await agent.load_session(session_id=session.session_id, cwd=str(tmp_path), mcp_servers=[])
    assert [one.session_id for one in listed.sessions] == [session.session_id]
    assert second.text() == first.text()
    kinds = [update.session_update for update in second.updates]
    assert "user_message_chunk" in kinds
    assert "plan" in kinds


async def test_the_sdk_cancels_a_turn_with_an_open_question(attached, tmp_path):
    client = SdkEditor(None)
    async with attached(client) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
        prompt = asyncio.create_task(
            agent.prompt(session_id=session.session_id, prompt=[text_block("run touch made")])
        )
        await client.asked.wait()
        await agent.cancel(session_id=session.session_id)
        ended = await prompt
    assert ended.stop_reason == "cancelled"
    assert not (tmp_path / "made").exists()
