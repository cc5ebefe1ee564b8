"""Lines that are cut, or dead and silent: the page says how it is, and finds its way back."""

import datetime as dt
import time

import pytest
from fakes.cable import Cable, Tap
from playwright.async_api import expect

SOON = 15_000  # the page's own bounds are 5 s for an answer and 8 s for a socket


class Scissors(Tap):
    """Cuts a cable at the next word that comes from the relay, once it is told to."""

    def __init__(self) -> None:
        self.cable: Cable | None = None

    def down(self, data: bytes) -> bool:
        if self.cable is None:
            return True
        self.cable.cut()
        self.cable = None
        return False


def own(person, state):
    """One's own message that the log does not show yet."""
    return person.transcript.locator(f"[data-prompt={state}]")


@pytest.fixture
async def cable(shared_house):
    async with Cable(shared_house.url) as cable:
        yield cable


async def test_a_message_whose_answer_was_cut_off_is_there_after_a_reload_and_ran_once(
    shared_house, sign_in
):
    """B04, B05."""
    scissors = Scissors()
    async with Cable(shared_house.url, tap=lambda: scissors) as cable:
        alice = await sign_in(shared_house, over=cable.url)
        session = await alice.new_session()
        scissors.cable = cable
        await alice.write("run echo ran >> cut.txt")
        await expect(own(alice, "unsent")).to_be_visible()
        await alice.leaves()
        cable.mend()
        await alice.comes_back(f"{cable.url}/#/s/{session}")
        await alice.button("Allow once").click()
        await alice.turn_ends()
        await expect(alice.transcript.locator(".said")).to_have_count(1)
        assert (shared_house.work / "cut.txt").read_text() == "ran\n"
        await alice.leave()


async def test_an_old_message_that_never_arrived_is_shown_as_unknown_and_runs_when_it_is_said(
    shared_house, sign_in, cable
):
    """B04: nothing old runs by surprise, and nothing vanishes."""
    alice = await sign_in(shared_house, over=cable.url)
    session = await alice.new_session()
    cable.hold()
    await alice.write("read")
    await expect(own(alice, "sent")).to_be_visible()
    await alice.leaves()
    cable.cut()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=6)
    await alice.page.clock.set_fixed_time(later)
    cable.mend()
    await alice.comes_back(f"{cable.url}/#/s/{session}")
    await expect(own(alice, "unknown")).to_contain_text("read")
    await alice.page.reload()
    await own(alice, "unknown").get_by_role("button", name="Send again").click()
    await alice.says("That is what it says.")
    await expect(alice.transcript.locator(".said")).to_have_count(1)


async def test_what_another_wrote_while_this_page_was_away_appears_when_it_is_back(
    shared_house, sign_in, cable
):
    """B13."""
    alice = await sign_in(shared_house, over=cable.url)
    bob = await sign_in(shared_house, "bob")
    session = await alice.new_session()
    await bob.go(f"#/s/{session}")
    cable.cut()
    await expect(alice.page.locator(".trouble")).to_be_visible()
    await bob.write("read")
    await bob.says("That is what it says.")
    await expect(alice.transcript).not_to_contain_text("That is what it says.")
    cable.mend()
    await alice.says("That is what it says.")
    await expect(alice.transcript.locator(".said")).to_have_count(1)
    await expect(alice.page.locator(".trouble")).to_have_count(0)


async def test_a_page_that_is_looked_at_again_finds_its_dead_socket_out_and_the_open_question(
    shared_house, sign_in, cable
):
    """B23, C10, C11: the banner tells of the real line, and there are never three sockets."""
    alice = await sign_in(shared_house, over=cable.url)
    bob = await sign_in(shared_house, "bob")
    session = await alice.new_session()
    await bob.go(f"#/s/{session}")
    cable.strand()
    await bob.write("run echo woken")
    await expect(bob.button("Reject")).to_be_visible()
    await expect(alice.button("Reject")).to_have_count(0)
    since = time.monotonic()
    for _ in range(3):
        await alice.is_woken()
    await expect(alice.button("Reject")).to_be_visible(timeout=SOON)
    print(f"a dead socket was replaced {time.monotonic() - since:.1f} s after waking")
    await alice.is_live()
    await expect(alice.page.locator(".trouble")).to_have_count(0)
    assert await alice.page.evaluate("window.mostSockets()") <= 2
    await alice.button("Reject").click()
    await alice.turn_ends()


async def test_a_page_that_slept_takes_a_new_socket_at_once(shared_house, sign_in, cable):
    """B23, C11: after two minutes nothing is asked of the old one."""
    alice = await sign_in(shared_house, over=cable.url)
    bob = await sign_in(shared_house, "bob")
    session = await alice.new_session()
    await bob.go(f"#/s/{session}")
    cable.strand()
    await bob.write("run echo slept")
    await expect(bob.button("Reject")).to_be_visible()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=2)
    await alice.page.clock.set_fixed_time(later)
    since = time.monotonic()
    await alice.is_woken()
    await expect(alice.button("Reject")).to_be_visible(timeout=SOON)
    print(f"the open question was there {time.monotonic() - since:.1f} s after waking")
    await alice.is_live()
    assert await alice.page.evaluate("window.mostSockets()") <= 2
    await alice.button("Reject").click()
    await bob.turn_ends()


async def test_a_line_that_swallows_everything_is_said_and_left_once_it_carries_again(
    shared_house, sign_in, cable
):
    """C10: neither a socket that never opens nor a request without an answer is waited for."""
    alice = await sign_in(shared_house, over=cable.url)
    await alice.new_session()
    cable.hold()
    await alice.is_woken()
    await expect(alice.page.locator(".trouble")).to_contain_text("lost", timeout=SOON)
    await expect(alice.page.locator(".trouble")).to_contain_text("cannot be reached", timeout=SOON)
    cable.cut()
    cable.mend()
    await alice.is_woken()
    await alice.is_live()
    assert await alice.page.evaluate("window.mostSockets()") <= 2


async def test_a_turn_whose_end_was_lost_on_the_way_ends_and_locks_nothing(
    shared_house, sign_in, cable
):
    """C16."""
    alice = await sign_in(shared_house, over=cable.url)
    bob = await sign_in(shared_house, "bob")
    session = await alice.new_session()
    await bob.go(f"#/s/{session}")
    await alice.write("stream 60 20")
    await alice.says("piece 5 of")
    cable.hold()
    await bob.turn_ends()
    await expect(alice.button("Stop")).to_be_visible()
    await expect(alice.page.get_by_label("Message to the agent")).to_be_enabled()
    cable.cut()
    cable.mend()
    await alice.turn_ends()
    await expect(alice.button("Stop")).to_have_count(0)
    await alice.write("read")
    await alice.turn_ends(2)
