import asyncio
import json
import os

import pytest

from agent_side.agents.process import AgentCommand, AgentProcess
from bridge.protocol import jsonrpc


class Heard:
    """Collects what a process tells, in order, and waits for what is wanted."""

    def __init__(self, command: AgentCommand) -> None:
        self.events = []
        self._changed = asyncio.Event()
        self.process = AgentProcess(
            command,
            on_request=lambda message: self.tell("request", message),
            on_notification=lambda message: self.tell("notification", message),
            on_exit=lambda code, tail: self.tell("exit", (code, tail)),
        )

    def tell(self, kind, what):
        self.events.append((kind, what))
        self._changed.set()

    async def until(self, kind, count=1):
        """Give the so-manieth event of a kind."""
        async with asyncio.timeout(30):
            while len(found := [w for k, w in self.events if k == kind]) < count:
                self._changed.clear()
                await self._changed.wait()
        return found[count - 1]

    async def next(self):
        """Wait for whatever comes next."""
        self._changed.clear()  # nothing is awaited between a look at the events and this
        async with asyncio.timeout(30):
            await self._changed.wait()

    def prompt(self, text="go", session="session-1"):
        """Prompt; the outcome comes as the event "done"."""
        params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        self.process.start_call("session/prompt", params, lambda out: self.tell("done", out))

    def answer(self, question, option):
        """Answer a permission question by an option's id."""
        outcome = {"outcome": "selected", "optionId": option}
        self.process.respond(question.id, {"outcome": outcome})

    def updates(self, kind=None):
        """Give the session updates so far, of one kind or all."""
        notes = [jsonrpc.payload(w.params) for k, w in self.events if k == "notification"]
        found = [note["update"] for note in notes if "update" in note]
        return [u for u in found if kind in (None, u["sessionUpdate"])]

    def messages(self):
        """Give the agent's requests and notifications so far as they were on the wire."""
        told = [w for k, w in self.events if k in ("request", "notification")]
        return [{**as_object(message), "jsonrpc": "2.0"} for message in told]

    def texts(self):
        """Give the pieces of text the agent said."""
        return [u["content"]["text"] for u in self.updates("agent_message_chunk")]


def as_object(message):
    named = {"method": message.method, "params": json.loads(bytes(message.params))}
    return {"id": message.id, **named} if isinstance(message, jsonrpc.Request) else named


@pytest.fixture
async def listen():
    """Make a process for a command; it is stopped when the test ends."""
    heard = []

    def made(command):
        heard.append(Heard(command))
        return heard[-1]

    yield made
    for each in heard:
        await each.process.stop()


@pytest.fixture
def environ(tmp_path):
    """Give an environment with a home of its own."""
    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "state")}
    return {"PATH": os.environ["PATH"], **home, "CHIMERA_DEMO_PACE_MS": "0"}
