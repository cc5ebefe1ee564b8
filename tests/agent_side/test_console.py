import asyncio

import pytest
from fakes.agent import FakeAgent

from agent_side.connector import Connector, ExitReason
from agent_side.console import Console, state_line
from agent_side.settings import ConnectorSettings
from bridge.protocol.entry import Origin

OPTIONS = [
    {"optionId": "yes", "name": "Allow once", "kind": "allow_once"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
]


def asks(**call):
    return {"ask": {"toolCall": {"toolCallId": "c1", "title": "Push", **call}, "options": OPTIONS}}


PUSH = asks(rawInput={"command": "git push"})


class Terminal:
    """A running connector with a scripted agent, and the console's lines."""

    def __init__(self, tmp_path, asks, turns):
        self.agent = FakeAgent(tmp_path / "agent", turns=turns)
        settings = ConnectorSettings(name="t", cwd=tmp_path, state_dir=tmp_path / "state")
        self.connector = Connector(settings, self.agent.command(tmp_path), relay=None)
        self.lines = []
        self.console = Console(self.connector, self.said, asks=asks)
        self.connector.open_door(self.console)
        self.cwd = tmp_path
        self.waiting = []

    def said(self, line):
        self.lines.append(line)
        for wanted, future in self.waiting:
            if wanted in line and not future.done():
                future.set_result(line)

    async def until(self, wanted):
        if found := [line for line in self.lines if wanted in line]:
            return found[0]
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((wanted, future))
        async with asyncio.timeout(20):
            return await future

    async def prompted(self):
        """Open a session and prompt it; give the future of the turn's end."""
        me = Origin(subject="me", door="editor")
        await self.connector.ready()
        opened = await self.connector.new_session(self.cwd, me)
        self.ended = asyncio.get_running_loop().create_future()
        text = [{"type": "text", "text": "push it"}]
        self.connector.prompt(opened.session.id, text, me, None, self.ended.set_result)


@pytest.fixture
async def terminal(tmp_path):
    running = []

    def make(*turns, asks=True):
        made = Terminal(tmp_path, asks, list(turns))
        running.append((made, asyncio.create_task(made.connector.run())))
        return made

    yield make
    for made, task in running:
        made.connector.stop("done")
        assert await task == ExitReason(0, "done")


async def test_a_question_is_printed_with_what_will_run_and_answered_by_numbers(terminal):
    one = terminal([PUSH])
    await one.prompted()
    await one.until("[1 2] Reject")
    assert "    $ git push" in one.lines
    one.console.typed(b"1 1\n")
    await one.ended
    assert one.agent.answers()[0]["outcome"]["optionId"] == "yes"
    assert "question 1: Allow once, by" in one.lines[-1]


@pytest.mark.parametrize("typed", ["1 no", "1 2", " 1  2 "])
async def test_an_option_may_be_named_or_numbered(terminal, typed):
    one = terminal([PUSH])
    await one.prompted()
    await one.until("[1 2] Reject")
    one.console.take(typed.strip())
    await one.ended
    assert one.agent.answers()[0]["outcome"]["optionId"] == "no"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("7 1", "no open question '7'"),
        ("1 9", "no choice '9': 1 Allow once, 2 Reject"),
        ("1", "no choice ''"),
        ("1 ²", "no choice '²'"),
        ("help", "type NUMBER CHOICE"),
        ("1 'x", "quote"),
    ],
)
async def test_what_is_no_answer_is_explained_and_changes_nothing(terminal, typed, says):
    one = terminal([PUSH])
    await one.prompted()
    await one.until("[1 2] Reject")
    one.console.take(typed)
    assert says in one.lines[-1]
    assert len(one.connector.questions) == 1


async def test_it_tells_who_answered_elsewhere(terminal):
    one = terminal([PUSH])
    await one.prompted()
    await one.until("[1 2] Reject")
    (question,) = one.connector.questions.values()
    alice = Origin(subject="alice", device="pixel", door="page")
    one.connector.answer(question.id, {"optionId": "no"}, alice)
    assert await one.until("question 1: ") == "question 1: Reject, by alice (pixel)"
    one.console.take("1 1")
    assert "no open question '1'" in one.lines[-1]


async def test_hidden_characters_are_written_as_numbers(terminal):
    command = "echo safe\u202e\u200b\x1b[2K\rrm -rf ~\u00a0x"
    one = terminal([asks(rawInput={"command": command})])
    await one.prompted()
    shown = await one.until("$ echo")
    assert shown == ("    $ echo safe⟨U+202E⟩⟨U+200B⟩⟨U+001B⟩[2K⟨U+000D⟩rm -rf ~⟨U+00A0⟩x")


async def test_a_diff_is_shown_as_its_changes(terminal):
    diff = {"type": "diff", "path": "/w/a.txt", "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    one = terminal([asks(kind="edit", content=[diff])])
    await one.prompted()
    await one.until("[1 2] Reject")
    assert "    change /w/a.txt" in one.lines
    assert "    -two" in one.lines
    assert "    +2" in one.lines


async def test_what_was_not_shown_whole_cannot_be_allowed_but_rejected(terminal):
    one = terminal([asks(rawInput={"command": "\n".join(f"echo {n}" for n in range(500))})])
    await one.prompted()
    await one.until("more characters: type 1 show")
    assert not [line for line in one.lines if "echo 499" in line]
    one.console.take("1 yes")
    assert "type 1 show first" in one.lines[-1]
    one.console.take("1 show")
    assert [line for line in one.lines if "echo 499" in line]
    one.console.take("1 yes")
    await one.ended


async def test_a_form_is_filled_in_by_names(terminal):
    schema = {
        "type": "object",
        "required": ["kind"],
        "properties": {
            "kind": {"type": "string", "oneOf": [{"const": "a", "title": "Alpha"}, {"const": "b"}]},
            "count": {"type": "integer"},
            "sure": {"type": "boolean"},
        },
    }
    form = {"mode": "form", "message": "Which kind?", "requestedSchema": schema}
    one = terminal([{"ask": form, "method": "elicitation/create"}])
    await one.prompted()
    await one.until("[1 3] Cancel")
    for wrong, says in (
        ("1 accept", "still needed: kind="),
        ("1 accept kind=c", "one of a, b"),
        ("1 accept kind=a count=many", "must be a number"),
        ("1 accept colour=red", "is no field"),
    ):
        one.console.take(wrong)
        assert says in one.lines[-1]
    one.console.take("1 1 kind=b count=3 sure=true")
    await one.ended
    content = {"kind": "b", "count": 3, "sure": True}
    assert one.agent.answers()[0] == {"action": "accept", "content": content}


async def test_without_a_person_it_asks_nothing(terminal):
    one = terminal([PUSH], asks=False)
    await one.prompted()
    one.connector.open_door(Console(one.connector, lambda _: one.console.take(""), asks=True))
    await one.until("1 open question")
    assert not [line for line in one.lines if "git push" in line]


def test_the_state_says_who_watches_and_what_is_open():
    status = {
        "state": "attached",
        "reason": "ok",
        "since": "2026-01-01T00:00:00.000Z",
        "relay": "wss://relay.example",
        "watching": [{"subject": "alice", "device": "pixel"}, {"subject": "bob"}],
        "open": ["rt-1", "rt-2"],
    }
    assert state_line(status, watching=True) == (
        "attached to wss://relay.example · watching: alice (pixel), bob"
    )
    in_full = state_line(status, watching=True, in_full=True)
    assert in_full.startswith("attached to wss://relay.example, for ")
    assert in_full.endswith(" · 2 open questions")
    away = {**status, "state": "disconnected", "detail": "connection refused"}
    assert state_line(away, watching=True) == "disconnected: connection refused"


async def test_a_state_is_told_once(terminal):
    one = terminal([])
    await one.connector.ready()
    for _ in range(3):
        one.console.status_changed()
    assert len(one.lines) == 1


async def test_always_is_explained_before_it_is_typed_and_kept_when_it_was(terminal):
    one = terminal([PUSH])
    await one.prompted()
    shown = await one.until("always or never would mean")
    assert shown.endswith(f"run exactly “git push” in {one.cwd}")
    one.console.take("1 1 forever")
    assert "none of always, never" in one.lines[-1]
    one.console.take("1 1 always")
    await one.ended
    assert [rule.verb for rule in one.connector.rules.all()] == ["allow"]


async def test_a_preset_is_set_here_and_a_banner_says_so(terminal):
    one = terminal([PUSH])
    await one.prompted()
    await one.until("[1 2] Reject")
    one.console.take("approval bold")
    assert "there is no preset 'bold'" in one.lines[-1]
    one.console.take("approval full")
    await one.ended
    banner = await one.until("***")
    assert banner.startswith("*** the preset is now full, was suggest; set by ")
    assert "question 1: Allow once, by a rule" in one.lines
