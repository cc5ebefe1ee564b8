"""Signing in and out, the lists, writing, stopping, the keys."""

from playwright.async_api import expect
from web.person import PHONE, Person


async def test_a_link_signs_in_once_and_leaves_the_address_bar(shared_house, browser, sign_in):
    alice = await sign_in(shared_house)
    assert "signin" not in alice.page.url
    link = await shared_house.link()
    first = await Person.sign_in(browser, link)
    context = await browser.new_context()
    second = await context.new_page()
    await second.goto(link)
    await expect(second.get_by_role("alert")).to_contain_text("The link did not sign you in")
    await expect(second.locator("pre").first).to_have_text("chimera-relay link")
    await first.leave()
    await context.close()


async def test_who_signs_out_is_out(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.go("#/settings")
    await expect(alice.page.get_by_text("alice", exact=True)).to_be_visible()
    await alice.button("Sign out").click()
    await expect(alice.page.get_by_role("heading", name="Sign in")).to_be_visible()
    alice.problems.clear()  # the browser logs the refusal that tells the page so


async def test_text_shows_while_it_streams(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("stream 200 20")
    await alice.says("piece 10 of 200")
    await expect(alice.transcript).not_to_contain_text("piece 200 of 200")
    await alice.button("Stop").click()
    await alice.says("stopped")


async def test_a_stop_is_said_by_the_turns_end(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run sleep 60")
    await alice.button("Allow once").click()
    await alice.button("Stop").click()
    await alice.turn_ends()
    await expect(alice.button("Stop")).to_have_count(0)


async def test_a_second_message_waits_for_the_turn_that_runs(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo first > first.txt")
    await expect(alice.button("Reject")).to_be_visible()
    await alice.write("read")
    await expect(alice.transcript.locator("[data-prompt=queued]")).to_be_visible()
    await alice.button("Reject").click()
    await alice.says("That is what it says.")
    await expect(alice.transcript.locator(".said")).to_have_count(2)


async def test_a_failed_turn_says_why(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("fail")
    await alice.says("the demo was asked to fail")


async def test_a_mode_that_only_the_machine_may_set_is_shown_and_not_offered(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await expect(alice.page.locator(".picker output")).to_have_text("Ask")
    await expect(alice.page.locator(".picker select")).to_have_count(0)


async def test_the_fleet_names_machine_and_state(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.go("#/fleet")
    card = alice.page.locator(".agent")
    await expect(card).to_contain_text("attached")
    await expect(card).to_contain_text(str(shared_house.work))


async def test_an_agent_that_goes_is_told_with_its_reason(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.go("#/fleet")
    await expect(alice.page.locator(".agent")).to_contain_text("attached")
    await own_house.stop_connector()
    await expect(alice.page.locator(".agent")).to_contain_text("ended")


async def test_a_low_risk_question_is_answered_by_a_key(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.new_session()
    await alice.write("run echo hello")
    await alice.reads("(1) Chimera Bridge")
    await alice.go("#/")
    await expect(alice.page.locator("main article").first).to_be_visible()
    await alice.page.keyboard.press("j")
    await alice.page.keyboard.press("a")
    await alice.reads("Chimera Bridge")
    await expect(alice.page.locator(".answered").first).to_contain_text("You allowed this")


async def test_a_phone_leads_from_the_inbox_to_the_answer_and_back(shared_house, sign_in):
    alice = await sign_in(shared_house, at=PHONE)
    await alice.new_session()
    await alice.write("run echo inbox > inbox.txt")
    await alice.page.get_by_role("button", name="Back").click()
    await alice.page.get_by_role("link", name="Review").click()
    await alice.button("Reject").click()
    await alice.page.get_by_role("button", name="Back").click()
    await expect(alice.page.locator(".answered").first).to_contain_text("You rejected this")


async def test_nothing_on_a_phone_is_wider_than_the_phone(own_house, sign_in):
    alice = await sign_in(own_house, at={"width": 320, "height": 640})
    await alice.new_session()
    await alice.write("edit narrow.txt")
    await alice.opens_question()
    for place in ("#/", "#/sessions", "#/fleet", "#/settings", "#/new"):
        await alice.go(place)
        width = await alice.page.evaluate("document.documentElement.scrollWidth")
        assert width <= 320, place
