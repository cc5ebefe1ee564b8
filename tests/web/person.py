"""Somebody at a browser: what they see on the page and what they press."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

PHONE = {"width": 390, "height": 844}
# Lets a test reach the page's sockets, which the page itself shows to nobody.
SOCKETS = """
const Real = window.WebSocket;
const sockets = [];
let deaf = false;
window.WebSocket = class extends Real {
  constructor(...given) {
    super(...given);
    sockets.push(this);
    most = Math.max(most, sockets.filter((one) => one.readyState < 3).length);
    this.addEventListener("message", (event) => {
      if (deaf && JSON.parse(event.data).method) event.stopImmediatePropagation();
    });
  }
};
window.holdBackNews = () => { deaf = true; };
window.breakLink = () => sockets.at(-1).close();
let most = 0;
window.mostSockets = () => most;
"""
AWAY = re.compile("net::ERR_(CONNECTION|EMPTY_RESPONSE|TIMED_OUT|NETWORK)")
DESK = {"width": 1440, "height": 900}
CLOSES_WITHIN_SECONDS = 20


class Person:
    """One signed-in browser, and what went wrong in it."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)

    @classmethod
    async def sign_in(cls, browser: Browser, link: str, *, at: dict[str, int] = DESK) -> Person:
        context = await browser.new_context(viewport=at)
        await context.add_init_script(SOCKETS)
        person = cls(context, await context.new_page())
        await person.page.goto(link)
        await person.is_live()
        return person

    async def leave(self) -> None:
        """Close the window; one that a busy Chromium keeps open goes with the browser."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.context.close(), CLOSES_WITHIN_SECONDS)

    async def is_live(self) -> None:
        await expect(self.page.locator("[data-link=live]").first).to_be_visible(timeout=20_000)

    async def new_session(self) -> str:
        """Start a session in the agent's folder and give its id."""
        await self.go("#/new")
        await self.button("Start the session").click()
        await expect(self.page.get_by_label("Message to the agent")).to_be_visible(timeout=20_000)
        return self.page.url.split("#/s/")[1]

    async def go(self, place: str) -> None:
        await self.page.evaluate("place => { location.hash = place }", place)

    async def write(self, text: str) -> None:
        await self.page.get_by_label("Message to the agent").fill(text)
        await self.page.keyboard.press("Enter")

    async def says(self, text: str) -> None:
        """Wait until the transcript has this text."""
        await expect(self.transcript).to_contain_text(text, timeout=20_000)

    async def turn_ends(self, count: int = 1) -> None:
        ends = self.transcript.get_by_text(re.compile("turn ended|stopped"))
        await expect(ends).to_have_count(count, timeout=30_000)

    async def opens_question(self) -> None:
        """Open the question that waits in this session; on a desk it is open already."""
        if await self.page.locator("aside").count() == 0:
            await self.button("A question waits").click()
        await expect(self.sheet).to_be_visible()

    async def reads(self, *titles: str) -> None:
        """Wait until the page's title is one of these."""
        await expect(self.page).to_have_title(re.compile("|".join(map(re.escape, titles))))

    async def hold_back_news(self) -> None:
        """From here on this browser hears answers to its own requests and nothing else."""
        await self.page.evaluate("window.holdBackNews()")

    async def break_link(self) -> None:
        """Close the socket under the page."""
        await self.page.evaluate("window.breakLink()")

    async def is_woken(self) -> None:
        """Tell the page what browsers tell one that is looked at again."""
        await self.page.evaluate(
            "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));"
            "document.dispatchEvent(new Event('visibilitychange'));"
            "dispatchEvent(new Event('online'))"
        )

    async def leaves(self) -> None:
        """Go away from the page in the same tab, as for a reload that takes its time."""
        await self.page.goto("about:blank")

    async def comes_back(self, url: str) -> None:
        await self.page.goto(url)
        await self.is_live()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    @property
    def transcript(self) -> Locator:
        return self.page.locator(".transcript")

    @property
    def sheet(self) -> Locator:
        return self.page.locator(".sheet")

    def _heard(self, message) -> None:
        # That the relay is away is told by the browser itself, and is no fault of the page.
        if message.type == "error" and not AWAY.search(message.text):
            self.problems.append(message.text)
