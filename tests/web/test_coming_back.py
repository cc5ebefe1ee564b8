"""Reloads, broken links, a relay that dies: nothing is missing, nothing comes twice."""

import re

from playwright.async_api import expect

PIECES = 300


async def pieces(person) -> list[int]:
    """The numbers of the streamed pieces that the transcript shows, in order."""
    text = await person.transcript.inner_text()
    return [int(number) for number in re.findall(rf"piece (\d+) of {PIECES}\b", text)]


async def test_a_question_outlives_a_reload_and_is_answered_after_it(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo reload > reload.txt")
    await expect(alice.button("Allow once")).to_be_visible()
    await alice.page.reload()
    await alice.button("Allow once").click()
    await alice.says("It ran.")
    assert (shared_house.work / "reload.txt").read_text() == "reload\n"


async def test_a_reload_while_it_streams_misses_nothing(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write(f"stream {PIECES} 10")
    await alice.says("piece 40 of")
    await alice.page.reload()
    await alice.says("piece 120 of")
    await alice.page.reload()
    await alice.turn_ends()
    assert await pieces(alice) == list(range(1, PIECES + 1))


async def test_a_link_that_breaks_while_it_streams_misses_nothing(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write(f"stream {PIECES} 10")
    for number in (40, 120, 200):
        await alice.says(f"piece {number} of")
        await alice.break_link()
    await alice.turn_ends()
    assert await pieces(alice) == list(range(1, PIECES + 1))


async def test_a_relay_that_dies_and_returns_loses_nothing(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.new_session()
    await alice.write("run echo back > back.txt")
    await expect(alice.button("Allow once")).to_be_visible()
    await own_house.kill_relay()
    await expect(alice.page.locator(".trouble")).to_contain_text("the connection was lost")
    await own_house.start_relay()
    await alice.is_live()
    await alice.reads("(1) Chimera Bridge")
    await alice.button("Allow once").click()
    await alice.says("It ran.")
    assert (own_house.work / "back.txt").read_text() == "back\n"
    await expect(alice.transcript.locator(".said")).to_have_count(1)


async def test_an_answer_given_while_the_relay_is_away_counts_once_it_is_back(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.new_session()
    await alice.write("run echo once >> once.txt")
    await expect(alice.button("Allow once")).to_be_visible()
    await own_house.kill_relay()
    await expect(alice.page.locator(".trouble")).to_be_visible()
    await alice.button("Allow once").click()
    await expect(alice.sheet.locator(".verdict")).to_contain_text("Not sent yet")
    await own_house.start_relay()
    await alice.says("It ran.")
    assert (own_house.work / "once.txt").read_text() == "once\n"


async def test_a_message_written_while_the_relay_is_away_is_sent_once(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.new_session()
    await own_house.kill_relay()
    await expect(alice.page.locator(".trouble")).to_be_visible()
    await alice.write("read")
    await expect(alice.transcript.locator("[data-prompt=unsent]")).to_be_visible()
    await own_house.start_relay()
    await alice.says("That is what it says.")
    await expect(alice.transcript.locator(".said")).to_have_count(1)
