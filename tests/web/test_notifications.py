"""A phone whose page is closed: a push, a notification, an answer from it, signed in the worker."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from fakes.push_service import PushService
from playwright.async_api import BrowserContext, Error, expect
from web.house import House
from web.person import PHONE, Person

# What a browser's own push service would give; the keys are the test's, so that it can read.
SUBSCRIPTION = """
subscription => {
  let own = null;
  PushManager.prototype.subscribe = async (options) => {
    own = {
      ...subscription,
      options,
      toJSON: () => subscription,
      unsubscribe: async () => { own = null; return true; },
    };
    return own;
  };
  PushManager.prototype.getSubscription = async () => own;
}
"""
SHOWN = """
async () => (await self.registration.getNotifications()).map((one) => ({
  title: one.title, body: one.body, tag: one.tag, silent: one.silent,
  actions: one.actions.map((action) => [action.action, action.title]),
}))
"""
# Nothing else presses a notification's button; a made event cannot be waited for.
PRESS = """
async ([tag, action]) => {
  const [notification] = await self.registration.getNotifications({ tag });
  const event = new NotificationEvent("notificationclick", { notification, action });
  event.waitUntil = () => undefined;
  self.dispatchEvent(event);
}
"""


class Phone:
    """A signed-in phone with the page closed, and what lies on its locked screen."""

    def __init__(self, person: Person, service: PushService) -> None:
        self.person, self.context = person, person.context
        self.service = service
        self.browser = service.browser("phone")

    async def notified(self, *, shows_all: bool = True) -> None:
        """Switch notifications on in Settings, as a person does."""
        page = self.person.page
        await self.context.grant_permissions(["notifications"], origin=page.url.split("/#")[0])
        await page.evaluate(SUBSCRIPTION, self.browser.as_json())
        await self.person.go("#/settings")
        await self.person.button("Notify this device").click()
        await expect(self.person.button("Stop notifying this device")).to_be_visible()
        if shows_all:
            await page.get_by_label("What would run, with the buttons for low risk").check()

    async def close_page(self) -> None:
        self.devtools = await self.context.new_cdp_session(self.person.page)
        registered = asyncio.get_running_loop().create_future()

        def found(event):
            for one in event["registrations"]:
                if not one["isDeleted"] and not registered.done():
                    registered.set_result((one["registrationId"], one["scopeURL"]))

        self.devtools.on("ServiceWorker.workerRegistrationUpdated", found)
        await self.devtools.send("ServiceWorker.enable")
        self.registration, self.scope = await asyncio.wait_for(registered, 20)
        await self.person.page.goto("about:blank")

    async def receives(self, message: dict) -> None:
        """Give the worker a message as the browser does that got and decrypted it."""
        await self.devtools.send(
            "ServiceWorker.deliverPushMessage",
            {
                "origin": self.scope.rstrip("/"),
                "registrationId": self.registration,
                "data": json.dumps(message),
            },
        )

    async def lies_there(self, so) -> dict:
        """Wait for such a notification."""
        async with asyncio.timeout(30):
            while True:
                found = next((one for one in await self._shown() if so(one)), None)
                if found is not None:
                    return found
                await asyncio.sleep(0.1)

    async def _shown(self) -> list[dict]:
        # A worker that just starts or ends may leave a question without an answer.
        with contextlib.suppress(TimeoutError, Error):
            return await asyncio.wait_for(worker(self.context).evaluate(SHOWN), 2)
        return []

    async def press(self, tag: str, action: str) -> None:
        await worker(self.context).evaluate(PRESS, [tag, action])


def worker(context: BrowserContext):
    return context.service_workers[-1]


@pytest.fixture
async def service():
    async with PushService() as made:
        yield made


@pytest.fixture
async def house(service, monkeypatch):
    monkeypatch.setenv("BRIDGE_PUSH_HOSTS", service.place)
    async with House() as made:
        yield made


async def test_a_phone_buzzes_allow_is_pressed_and_the_agent_goes_on(house, service, sign_in):
    alice = await sign_in(house, at=PHONE)
    phone = Phone(alice, service)
    await phone.notified()
    session = await alice.new_session()
    await alice.write("run ls")
    asked = await service.got(phone.browser, "question")
    await phone.close_page()
    await phone.receives(asked)
    tag = f"q-{asked['id']}"
    shown = await phone.lies_there(lambda one: one["tag"] == tag)
    assert shown["title"].endswith("asks")
    assert shown["body"].startswith("ls\n")
    allow = next(action for action, title in shown["actions"] if title == "Allow once")
    await phone.press(tag, allow)
    await phone.lies_there(lambda one: "recorded" in one["title"])
    answered = await service.got(phone.browser, "answered")
    assert answered["by"] == "alice"
    await alice.page.goto(f"{house.url}/#/s/{session}")
    await alice.says("It ran.")


async def test_who_answered_elsewhere_takes_the_notifications_place(house, service, sign_in):
    alice = await sign_in(house, at=PHONE)
    phone = Phone(alice, service)
    await phone.notified(shows_all=False)
    session = await alice.new_session()
    await alice.write("run ls")
    asked = await service.got(phone.browser, "question")
    await phone.close_page()
    await phone.receives(asked)
    tag = f"q-{asked['id']}"
    shown = await phone.lies_there(lambda one: one["tag"] == tag)
    assert (shown["body"], shown["actions"]) == ("Open to see what it wants to do.", [])
    ben = await sign_in(house, "ben", "approver")
    await ben.go(f"#/s/{session}")
    await ben.button("Reject").click()
    answered = await service.got(phone.browser, "answered")
    await phone.receives(answered)
    over = await phone.lies_there(lambda one: one["tag"] == tag and "ben" in one["title"])
    assert over["silent"] is True


async def test_without_a_network_the_page_opens_with_what_was_known_and_says_that_it_is_old(
    own_house, sign_in
):
    alice = await sign_in(own_house, at=PHONE)
    await alice.go("#/fleet")
    await expect(alice.page.locator(".agent")).to_contain_text("attached")
    kept = "() => localStorage.getItem('last known')?.includes('attached')"
    async with asyncio.timeout(20):
        while not await alice.page.evaluate(kept):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.1)
    await alice.page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    await own_house.kill_relay()
    await alice.page.reload()
    await expect(alice.page.locator(".agent")).to_be_visible(timeout=20_000)
    await expect(alice.page.get_by_text("last update").first).to_be_visible(timeout=20_000)
    alice.problems.clear()  # the browser logs that nobody answered
