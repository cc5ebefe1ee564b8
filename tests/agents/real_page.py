"""Each installed real agent behind a relay, answered from a browser and by an ACP client.

.venv/bin/python -m pytest tests/agents/real_page.py
Screenshots go into the folder that RIG_SHOTS names.
"""

import json
import os
import re
import shutil
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agents.housed import AgentHouse
from agents.real_process import ALLOW, REJECT
from agents.rig import installed
from fakes.dashboard import FakeDashboard
from playwright.async_api import async_playwright, expect
from web.conftest import FLAGS
from web.person import PHONE, Person

SHOTS = os.environ.get("RIG_SHOTS")
ANSWERS = [pytest.param(ALLOW, id="allow"), pytest.param(REJECT, id="reject")]
TOOLS = ["shell", "write"]
SILENT = ["gemini"]  # it tells nobody what a command printed
APPLIED = re.compile(r"^\s*applied")  # and not "has not applied it yet"
SURVIVORS = [name for name in installed() if name in ("claude", "codex")]


@pytest.fixture(scope="session")
async def chromium():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture(scope="module", params=installed())
async def house(request):
    async with AgentHouse(request.param) as house:
        yield house


class Task:
    """What the LLM is told to make the agent do, and whether that was done."""

    def __init__(self, house, tool, name):
        self.path = house.work / f"{name}-{tool}.txt"
        told = self.path.name if house.name in ("codex", "ferret") else str(self.path)
        self.words = f"{tool} for {name}\n"
        line = f"echo {self.words.strip()} | tee {self.path.name}"
        said = {"tool": tool, "path": told, "content": self.words, "command": line}
        self.prompt = f"FAKE{json.dumps(said)} Please do the task."

    @property
    def is_done(self):
        return self.path.exists() and self.path.read_text() == self.words

    @property
    def is_undone(self):
        return not self.path.exists()


@asynccontextmanager
async def somebody(browser, house):
    """Sign somebody in on a phone; afterwards their page must have seen no error."""
    person = await Person.sign_in(browser, await house.link(), at=PHONE)
    yield person
    await person.leave()
    assert person.problems == []


# From the page.


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("answers", ANSWERS)
async def test_the_page_decides(house, chromium, answers, tool):
    is_allowed = answers is ALLOW
    task = Task(house, tool, "allowed" if is_allowed else "rejected")
    async with somebody(chromium, house) as alice:
        session = await alice.new_session()
        await alice.write(task.prompt)
        await asked(alice)
        await shoot(alice, f"{house.name}-{task.path.stem}-1-question")
        assert task.is_undone
        await decide(alice, house, session, answers)
        await turns_end(alice)
        await expect(alice.page.locator(".session .badge").first).to_have_text("idle")
        await shoot(alice, f"{house.name}-{task.path.stem}-2-session")
        await check_transcript(alice, house, session)
        if is_allowed and tool == "shell" and house.name not in SILENT:
            await expect(alice.page.locator(".tool .printed")).to_contain_text(task.words.strip())
    assert task.is_done if is_allowed else task.is_undone


async def test_after_a_stop_and_a_reload_the_session_goes_on(house, chromium):
    stopped, task = Task(house, "shell", "never"), Task(house, "shell", "later")
    async with somebody(chromium, house) as alice:
        session = await alice.new_session()
        await alice.write(stopped.prompt)
        await expect(alice.button("A question waits")).to_be_visible(timeout=60_000)
        await alice.button("Stop").click()
        await turns_end(alice)
        await expect(alice.button("A question waits")).to_have_count(0)
        await alice.write(task.prompt)
        await expect(alice.button("A question waits")).to_be_visible(timeout=60_000)
        await alice.page.reload()
        await asked(alice)
        await decide(alice, house, session, ALLOW)
        await turns_end(alice, 2)
        await shoot(alice, f"{house.name}-later")
        await check_transcript(alice, house, session)
    assert stopped.is_undone
    assert task.is_done


async def asked(person):
    await expect(person.button("A question waits")).to_be_visible(timeout=60_000)
    await person.opens_question()


async def turns_end(person, count=1):
    ends = person.transcript.locator(".divider", has_text=re.compile("^(turn ended|stopped)"))
    await expect(ends).to_have_count(count, timeout=30_000)


async def decide(person, house, session, answers):
    name = await house.option_name(session, answers[house.name])
    await person.sheet.get_by_role("button", name=name, exact=True).click()
    await expect(person.sheet.locator(".verdict")).to_contain_text(APPLIED, timeout=30_000)
    await person.button("Show the session").click()


async def check_transcript(person, house, session):
    """All that the log says is on the page, in order, and no tool call is left open."""
    updates = await house.updates(session)
    shown = " ".join((await person.transcript.inner_text()).split())
    at = 0
    for update in updates:
        if update["sessionUpdate"] == "agent_message_chunk":
            text = " ".join(update["content"]["text"].split())
            at = shown.find(text, at)
            assert at >= 0, f"{text!r} is not in {shown!r}"
            at += len(text)
    calls = {u["toolCallId"] for u in updates if u["sessionUpdate"].startswith("tool_call")}
    cards = person.page.locator(".transcript [data-tool]")
    assert {await card.get_attribute("data-tool") for card in await cards.all()} == calls
    for state in await cards.locator("header .age").all_inner_texts():
        assert not re.search("not started|running|asks", state), state


# From a client that knows ACP alone.


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("answers", ANSWERS)
async def test_an_acp_client_decides(house, answers, tool):
    is_allowed = answers is ALLOW
    task = Task(house, tool, "client-allowed" if is_allowed else "client-rejected")
    token = await house.token("person", "--role", "operator")
    async with FakeDashboard(f"ws://127.0.0.1:{house.port}/acp", token) as client:
        session = await client.new(house.work)
        turn = client.prompt(session, task.prompt)
        question = await client.question()
        assert task.is_undone
        client.choose(question, answers[house.name])
        ended = await client.answer(turn)
    assert ended["stopReason"] in ("end_turn", "cancelled")
    assert task.is_done if is_allowed else task.is_undone


# Over a relay that dies.


@pytest.mark.parametrize("name", SURVIVORS)
async def test_a_question_outlives_the_relay(chromium, name):
    async with AgentHouse(name) as house:
        task = Task(house, "write", "outlived")
        async with somebody(chromium, house) as alice:
            session = await alice.new_session()
            await alice.write(task.prompt)
            await asked(alice)
            await house.kill_relay()
            await expect(alice.page.locator(".trouble")).to_be_visible()
            await house.start_relay()
            await expect(alice.page.locator(".trouble")).to_have_count(0, timeout=20_000)
            await alice.reads("(1) Chimera Bridge")
            assert task.is_undone
            await decide(alice, house, session, ALLOW)
            await turns_end(alice)
            await shoot(alice, f"{name}-outlived")
            await check_transcript(alice, house, session)
        assert task.is_done


async def shoot(person, name):
    if SHOTS:
        await person.page.screenshot(path=Path(SHOTS) / f"{name}.png")
