"""A real browser (Debian's Chromium), a real relay and a real connector."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import pytest
from playwright.async_api import Browser, async_playwright
from web.house import House
from web.person import DESK, Person

# As root in a container there is no sandbox; the rest keeps it from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SignIn: TypeAlias = Callable[..., Awaitable[Person]]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.fail("no chromium on PATH: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        await browser.close()


@pytest.fixture(scope="session")
async def shared_house() -> AsyncIterator[House]:
    """A house that tests share which leave it as they found it."""
    async with House() as house:
        yield house


@pytest.fixture
async def own_house() -> AsyncIterator[House]:
    """A house that a test may break."""
    async with House() as house:
        yield house


@pytest.fixture
async def sign_in(browser: Browser) -> AsyncIterator[SignIn]:
    """Sign somebody in at a house; afterwards their page must have seen no error."""
    people: list[Person] = []

    async def enter(house: House, subject: str = "alice", role: str = "admin", *, at=DESK, over=""):
        link = await house.link(subject=subject, role=role)
        link = link.replace(house.url, over or house.url)
        person = await Person.sign_in(browser, link, at=at)
        people.append(person)
        return person

    yield enter
    for person in people:
        await person.leave()
    assert [problem for person in people for problem in person.problems] == []
