"""Each installed real agent through AgentProcess; run by ``./dev test agents``.

.venv/bin/python -m pytest tests/agents/real_process.py
"""

import asyncio

import pytest
from agents.rig import FakeLLM, Home, command, installed, script_for

from agent_side.agents.process import AgentProcess
from bridge.protocol import jsonrpc
from bridge.protocol.errors import MethodNotFound

ALLOW = {"claude": "allow-once", "gemini": "proceed_once", "codex": "approved", "opencode": "once"}
REJECT = {"claude": "reject", "gemini": "cancel", "codex": "abort", "opencode": "reject"}
ALLOW["ferret"], REJECT["ferret"] = "allow", "reject"


class Turn:
    """One prompt to one agent, its questions answered by one option."""

    def __init__(self, name, home, url):
        self.command = command(name, url, home)
        self.home = home
        self.questions = []
        self.asked = asyncio.Event()
        self.option = None
        self.process = AgentProcess(
            self.command,
            on_request=self.take,
            on_notification=lambda message: None,
            on_exit=lambda code, tail: None,
        )

    def take(self, request):
        if request.method != "session/request_permission":
            self.process.fail(request.id, MethodNotFound(f"no method {request.method}"))
            return
        self.questions.append(request)
        self.asked.set()
        if self.option:
            outcome = {"outcome": "selected", "optionId": self.option}
            self.process.respond(request.id, {"outcome": outcome})

    async def open(self):
        """Start the agent with a session, in the mode in which it asks."""
        await self.process.start()
        new = {"cwd": str(self.home.work), "mcpServers": []}
        made = jsonrpc.payload(await self.process.call("session/new", new, 90))
        self.session = made["sessionId"]
        offered = [mode["id"] for mode in (made.get("modes") or {}).get("availableModes", [])]
        if (mode := self.command.ask_mode) in offered:
            params = {"sessionId": self.session, "modeId": mode}
            await self.process.call("session/set_mode", params, 30)

    async def prompt(self, words="Please do the task."):
        text = [{"type": "text", "text": words}]
        params = {"sessionId": self.session, "prompt": text}
        result = await self.process.call("session/prompt", params, 120)
        return jsonrpc.payload(result)["stopReason"]


@pytest.fixture(params=installed())
def name(request):
    return request.param


@pytest.fixture
async def turn(name, tmp_path):
    home = Home.make(tmp_path / "home")
    async with FakeLLM(**script_for(name, home)) as url:
        turn = Turn(name, home, url)
        await turn.open()
        yield turn
        await turn.process.stop()


async def test_a_command_runs_when_it_is_allowed(turn, name):
    turn.option = ALLOW[name]
    assert await turn.prompt() == "end_turn"
    assert len(turn.questions) == 1
    assert (turn.home.work / "rig.out").read_text() == "rig-was-here\n"


async def test_a_command_does_not_run_when_it_is_rejected(turn, name):
    turn.option = REJECT[name]
    assert await turn.prompt() in ("end_turn", "cancelled")
    assert len(turn.questions) == 1
    assert not (turn.home.work / "rig.out").exists()


async def test_a_file_is_written_when_that_is_allowed(turn, name):
    turn.option = ALLOW[name]
    assert await turn.prompt('FAKE{"tool": "write"} Please write the file.') == "end_turn"
    assert len(turn.questions) == 1
    assert (turn.home.work / "rig.txt").read_text() == "written by the rig\n"


async def test_cancel_with_an_open_question_ends_the_turn(turn):
    prompting = asyncio.create_task(turn.prompt())
    await asyncio.wait_for(turn.asked.wait(), 60)
    turn.process.notify("session/cancel", {"sessionId": turn.session})
    cancelled = {"outcome": {"outcome": "cancelled"}}
    turn.process.respond(turn.questions[0].id, cancelled)
    assert await prompting == "cancelled"
    assert not (turn.home.work / "rig.out").exists()


async def test_nothing_is_left_after_the_stop(turn):
    await turn.process.stop()
    assert not turn.process.alive
