"""The connector as the process people start: at a terminal, in a script, beside an editor."""

import asyncio
import os
import pty
import sys

import pytest
from fakes.agent import FakeAgent
from fakes.editor import FakeEditor, is_method, is_resolved
from fakes.relay import FakeRelay

CONNECT = (sys.executable, "-m", "agent_side.cli", "connect", "--name", "t")
WAIT_SECONDS = 20.0
OPTIONS = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def asks(number):
    command = {"command": f"git push {number}"}
    call = {"toolCallId": f"c{number}", "title": "Push", "rawInput": command}
    return {"ask": {"toolCall": call, "options": OPTIONS}, "id": number}


def waits(*numbers):
    """A turn that asks all at once and ends when all are answered."""
    asked = [{**asks(number), "wait": False} for number in numbers]
    return [*asked, *({"await": number} for number in numbers)]


class Terminal:
    """A process at a terminal of its own, as a person has it."""

    def __init__(self, argv, env):
        self.argv, self.env = argv, {**os.environ, **env}
        self.screen = ""

    async def __aenter__(self):
        self.keyboard, theirs = pty.openpty()
        self.process = await asyncio.create_subprocess_exec(
            *self.argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=self.env,
            start_new_session=True,
        )
        os.close(theirs)
        self.changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.keyboard, self.read)
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.terminate()
        await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        asyncio.get_running_loop().remove_reader(self.keyboard)
        os.close(self.keyboard)

    def read(self):
        try:
            self.screen += os.read(self.keyboard, 65536).decode()
        except OSError:
            asyncio.get_running_loop().remove_reader(self.keyboard)
        self.changed.set()

    async def until(self, words):
        async with asyncio.timeout(WAIT_SECONDS):
            while words not in self.screen:
                self.changed.clear()
                await self.changed.wait()

    def type(self, line):
        os.write(self.keyboard, line.encode() + b"\n")


@pytest.fixture
async def relay():
    async with FakeRelay() as relay:
        yield relay


@pytest.fixture
def started(relay, tmp_path):
    """Give the command line and the environment of a connector at the relay, and its agent."""

    def make(*flags, **script):
        agent = FakeAgent(tmp_path / "agent", **script)
        argv = [*CONNECT, "--relay", relay.url, "--cwd", str(tmp_path), *flags, "--", *agent.argv]
        env = {"FERRET_BRIDGE_TOKEN": "good", "CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state")}
        return argv, env, agent

    return make


async def opened(relay, folder):
    """Open a session from afar and give its id."""
    await relay.attached()
    return await relay.new_session(folder)


def prompt(relay, session, mail_id="p1"):
    block = {"type": "text", "text": "push"}
    relay.send_mail("session/prompt", {"sessionId": session, "prompt": [block]}, mail_id=mail_id)


async def test_a_person_at_the_terminal_answers_what_was_prompted_from_afar(
    relay, started, tmp_path
):
    argv, env, agent = started(turns=[waits(1, 2)])
    async with Terminal(argv, env) as terminal:
        session = await opened(relay, tmp_path)
        prompt(relay, session)
        await terminal.until("[2 2] Reject")
        assert "$ git push 1" in terminal.screen
        terminal.type("1 1")
        terminal.type("2 no")
        await relay.outcome("p1")
        await terminal.until("question 2: Reject, by")
    assert f"attached to {relay.url}" in terminal.screen
    assert [agent.answers()[n]["outcome"]["optionId"] for n in (1, 2)] == ["yes", "no"]
    resolved = relay.messages(session, "_bridge/resolved")
    assert {(m["params"]["reason"], m["params"]["by"]["door"]) for m in resolved} == {
        ("local", "terminal")
    }


async def test_the_terminal_is_told_who_answered_from_afar(relay, started, tmp_path):
    argv, env, _ = started(turns=[waits(1)])
    async with Terminal(argv, env) as terminal:
        session = await opened(relay, tmp_path)
        prompt(relay, session)
        await terminal.until("[1 2] Reject")
        question = (await relay.until(relay.questions))[0]
        relay.decide(question, {"optionId": "no"}, "d1")
        await terminal.until("question 1: Reject, by alice (pixel)")


async def test_a_lost_relay_is_one_line_at_the_terminal_and_so_is_its_return(relay, started):
    argv, env, _ = started()
    async with Terminal(argv, env) as terminal:
        await terminal.until("attached to")
        await relay.stop()
        await terminal.until("disconnected: ")
        await relay.start()
        await relay.attached(times=2)
        terminal.type("")
        await terminal.until(", for ")


async def test_without_a_terminal_it_says_one_line_per_change(relay, started):
    argv, env, _ = started()
    process = await asyncio.create_subprocess_exec(
        *argv,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    first = [await process.stderr.readline() for _ in range(2)]
    process.terminate()
    out, rest = await process.communicate()
    assert [line.decode().split(" to ")[0] for line in first] == ["connecting", "attached"]
    assert (process.returncode, out, rest) == (0, b"", b"")


@pytest.mark.parametrize(
    ("token", "status", "code"), [("bad", None, 3), ("good", 403, 3)], ids=["401", "403"]
)
async def test_refused_credentials_are_three_with_one_sentence(relay, started, token, status, code):
    relay.status = status
    argv, env, _ = started()
    async with FakeEditor(argv, env={**env, "FERRET_BRIDGE_TOKEN": token}) as process:
        assert await process.process.wait() == code
    assert process.stderr[-1].startswith("chimera-bridge: ")


async def test_a_replaced_connector_ends_with_four(relay, started):
    relay.closes_with = (4409, "replaced by another process")
    argv, env, _ = started()
    async with FakeEditor(argv, env=env) as process:
        assert await process.process.wait() == 4


# An editor and somebody afar.


async def test_a_prompt_from_afar_is_shown_at_the_editor_and_asked_there_too(
    relay, started, tmp_path
):
    argv, env, agent = started("--stdio", turns=[waits(1)])
    async with FakeEditor(argv, env=env) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await relay.attached()
        prompt(relay, session)
        question = await editor.question()
        shown = editor.updates("user_message_chunk")
        editor.choose(question, "yes")
        assert (await relay.outcome("p1")).result["stopReason"] == "end_turn"
    assert shown[0]["content"]["text"] == "push"
    assert agent.answers()[1]["outcome"]["optionId"] == "yes"


async def test_an_answer_from_afar_withdraws_the_editors_question_and_says_by_whom(
    relay, started, tmp_path
):
    argv, env, agent = started("--stdio", turns=[waits(1)])
    async with FakeEditor(argv, env=env) as editor:
        await editor.hello(session={"notices": {}})
        session = await editor.new(tmp_path)
        await relay.attached()
        turn = editor.prompt(session, "push")
        asked = await editor.question()
        question = (await relay.until(relay.questions))[0]
        relay.decide(question, {"optionId": "no"}, "d1")
        withdrawn = await editor.until(is_method("$/cancel_request"))
        editor.choose(asked, "yes")  # too late: it counts for nothing
        await editor.answer(turn)
        told = [m["params"]["update"]["_meta"] for m in editor.got if is_resolved(m)]
        by = {meta["chimera.bridge"]["resolved"]["by"]["subject"] for meta in told}
    assert withdrawn["params"]["requestId"] == asked["id"]
    assert by == {"alice"}
    assert editor.updates("notice")[0]["title"] == "Push: Reject, by alice (pixel)"
    assert agent.answers()[1]["outcome"]["optionId"] == "no"


async def test_three_questions_are_answered_in_the_order_two_three_one_by_two_surfaces(
    relay, started, tmp_path
):
    argv, env, agent = started("--stdio", turns=[waits(1, 2, 3)])
    async with FakeEditor(argv, env=env) as editor:
        await editor.hello()
        session = await editor.new(tmp_path)
        await relay.attached()
        turn = editor.prompt(session, "push")
        await relay.until(lambda: len(relay.questions()) == 3)
        afar = {q["params"]["toolCall"]["toolCallId"]: q for q in relay.questions()}
        here = {
            n: await editor.until(
                lambda m, n=n: (
                    m["method"] == "session/request_permission"
                    and m["params"]["toolCall"]["toolCallId"] == f"c{n}"
                )
            )
            for n in (1, 2, 3)
        }
        editor.choose(here[2], "yes")
        await relay.until(lambda: len(relay.questions()) == 2)
        relay.decide(afar["c3"], {"optionId": "no"}, "d1")
        await relay.until(lambda: len(relay.questions()) == 1)
        editor.choose(here[1], "no")
        assert (await editor.answer(turn))["stopReason"] == "end_turn"
    given = {n: agent.answers()[n]["outcome"]["optionId"] for n in (1, 2, 3)}
    assert given == {1: "no", 2: "yes", 3: "no"}
    order = [m["params"]["id"] for m in relay.messages(session, "_bridge/resolved")]
    assert order == [afar[call]["id"] for call in ("c2", "c3", "c1")]
