"""A phone is paired from the QR code's address, signs, and is shut out when it is lost."""

from contextlib import asynccontextmanager

import pytest
from playwright.async_api import expect
from web.person import PHONE, Person

FRAGMENT = r"#(?:[^#]*&)?(pair=[\w.-]+)"
CODE = r"type the code ([A-Z0-9-]{7})"


@asynccontextmanager
async def phone_at(browser, house, fragment):
    """Open a pairing's address on a phone that a link signs in at the same time."""
    link = await house.link()
    context = await browser.new_context(viewport=PHONE)
    phone = Person(context, await context.new_page())
    try:
        await phone.page.goto(f"{link}&{fragment}")
        yield phone
    finally:
        await phone.leave()


async def test_from_the_code_to_the_first_signed_approval_in_four_taps(own_house, browser, sign_in):
    desk = await sign_in(own_house)
    await desk.new_session()
    await desk.write("run echo hello > hello.txt")
    await expect(desk.button("Allow once")).to_be_visible(timeout=20_000)
    command = await own_house.pair()
    fragment = await command.said(FRAGMENT)
    async with phone_at(browser, own_house, fragment) as phone:
        await expect(phone.page.get_by_text(str(own_house.work))).to_be_visible()
        assert "pair=" not in phone.page.url
        await phone.button("Pair this device").click()  # 1
        fingerprint = await command.said(r"fingerprint ([a-z-]+)")
        await expect(phone.page.locator(".spoken")).to_have_text(fingerprint)
        await phone.button("Show what waits").click(timeout=20_000)  # 2
        review = phone.page.get_by_role("link", name="Review")
        allow = phone.button("Allow once")
        await expect(review.or_(allow).first).to_be_visible()
        if await review.count():
            await review.click()  # 3
        await allow.click(timeout=20_000)  # 4, or 3
        await expect(phone.page.get_by_text("You allowed this").first).to_be_visible(timeout=20_000)
        await desk.says("It ran.")
        assert (own_house.work / "hello.txt").read_text() == "hello\n"
        assert phone.problems == []


async def test_what_the_phone_signs_is_done_and_an_unpaired_browser_only_looks(
    own_house, browser, sign_in
):
    command = await own_house.pair()
    fragment = await command.said(FRAGMENT)
    async with phone_at(browser, own_house, fragment) as phone:
        await phone.button("Pair this device").click()
        await phone.button("Show what waits").click(timeout=20_000)
        session = await phone.new_session()
        await phone.write("run echo signed > signed.txt")
        await phone.opens_question()
        desk = await sign_in(own_house)
        await desk.go(f"#/s/{session}")
        await expect(desk.page.get_by_text("only from paired devices").first).to_be_visible()
        await expect(desk.button("Allow once")).to_have_count(0)
        await phone.button("Allow once").click()
        await desk.says("It ran.")
        assert (own_house.work / "signed.txt").read_text() == "signed\n"


async def test_without_a_camera_the_same_words_stand_on_both_sides(own_house, sign_in):
    desk = await sign_in(own_house)
    command = await own_house.pair()
    code = await command.said(CODE)
    await desk.go("#/pair")
    await desk.page.get_by_label("Code").fill(code.lower())
    await desk.button("Continue").click()
    await desk.button("Pair this device").click()
    words = await command.said(r"^    ([a-z-]+)$")
    await expect(desk.page.locator(".spoken")).to_have_text(words)
    await command.type("yes")
    await expect(desk.page.get_by_text("Paired with")).to_be_visible(timeout=20_000)
    assert await command.end() == 0


@pytest.mark.attack("E08", "a lost phone, in Chromium")
async def test_a_lost_phone_is_signed_out_at_once(own_house, browser, sign_in):
    command = await own_house.pair()
    fragment = await command.said(FRAGMENT)
    desk = await sign_in(own_house)
    async with phone_at(browser, own_house, fragment) as phone:
        await phone.button("Pair this device").click()
        await phone.button("Show what waits").click(timeout=20_000)
        await desk.go("#/devices")
        card = desk.page.locator(".device")
        await expect(card).to_contain_text("demo on")
        await desk.button("Revoke").click()
        await desk.button("Revoke now").click()
        await expect(card).to_contain_text("revoked")
        await expect(phone.page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_wrong_code_says_so(shared_house, sign_in):
    desk = await sign_in(shared_house)
    await desk.go("#/pair")
    await desk.page.get_by_label("Code").fill("222-222")
    await desk.button("Continue").click()
    await expect(desk.page.get_by_role("alert")).to_contain_text("no pairing waits")
    desk.problems.clear()  # the browser logs the refusal
