"""The main job: a question of an agent, answered from the page."""

import pytest
from playwright.async_api import expect
from web.person import PHONE


async def test_allow_writes_the_file(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo yes > allowed.txt")
    await expect(alice.sheet).to_contain_text("echo yes > allowed.txt")
    assert not (shared_house.work / "allowed.txt").exists()
    await alice.button("Allow once").click()
    await alice.says("It ran.")
    assert (shared_house.work / "allowed.txt").read_text() == "yes\n"
    await expect(alice.transcript).to_contain_text("You allowed this")


async def test_reject_leaves_the_disk_alone(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo no > rejected.txt")
    await alice.button("Reject").click()
    await alice.says("It did not run.")
    assert not (shared_house.work / "rejected.txt").exists()
    await expect(alice.transcript).to_contain_text("You rejected this")


async def test_an_edit_is_asked_with_its_change_and_done_as_shown(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("edit edited.txt")
    await expect(alice.sheet.locator(".diff .add code")).to_have_text(
        "Line 1, written by the demo agent."
    )
    await alice.button("Allow once").click()
    await alice.says("The file is written.")
    assert (shared_house.work / "edited.txt").read_text() == "Line 1, written by the demo agent.\n"


async def test_on_a_phone_the_answer_stays_in_reach(shared_house, sign_in):
    alice = await sign_in(shared_house, at=PHONE)
    await alice.new_session()
    await alice.write("run echo phone > phone.txt")
    await alice.opens_question()
    await expect(alice.button("Allow once")).to_be_in_viewport(ratio=1)
    await alice.button("Allow once").click()
    await expect(alice.sheet.locator(".verdict")).to_contain_text("applied", timeout=20_000)
    await alice.button("Show the session").click()
    await alice.says("It ran.")
    assert (shared_house.work / "phone.txt").read_text() == "phone\n"


async def test_a_form_is_filled_in_and_sent(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("choose")
    await alice.button("Send answer").click()
    await expect(alice.sheet).to_contain_text("This is needed.")
    await alice.sheet.get_by_label("Green").check()
    await alice.sheet.get_by_label("How many").fill("3")
    await alice.button("Send answer").click()
    await alice.says('You chose {"colour": "green", "count": 3}.')


async def test_the_second_answer_is_told_who_won(shared_house, sign_in):
    alice = await sign_in(shared_house, "alice")
    ben = await sign_in(shared_house, "ben")
    session = await alice.new_session()
    await alice.write("run echo race > race.txt")
    await ben.go(f"#/s/{session}")
    await expect(ben.button("Allow once")).to_be_enabled()
    await ben.hold_back_news()
    await alice.button("Reject").click()
    await alice.says("It did not run.")
    await ben.button("Allow once").click()
    await expect(ben.sheet.locator(".verdict")).to_contain_text("alice")
    assert not (shared_house.work / "race.txt").exists()


async def test_the_others_see_who_answered(shared_house, sign_in):
    alice = await sign_in(shared_house, "alice")
    ben = await sign_in(shared_house, "ben", at=PHONE)
    session = await alice.new_session()
    await alice.write("run echo seen > seen.txt")
    await ben.go(f"#/s/{session}")
    await ben.opens_question()
    await alice.button("Allow once").click()
    await expect(ben.sheet.locator(".verdict")).to_contain_text("Alice allowed this")


async def test_three_parallel_questions_are_answered_in_any_order(own_house, sign_in):
    alice = await sign_in(own_house)
    await alice.new_session()
    await alice.write("parallel 3")
    await alice.reads("(3) Chimera Bridge")
    for number, answer in ((2, "Allow once"), (3, "Reject"), (1, "Allow once")):
        await alice.page.get_by_role("link", name=f"echo {number} > parallel-{number}.txt").click()
        await expect(alice.sheet.locator(".hero")).to_contain_text(f"parallel-{number}")
        await alice.button(answer).click()
        await expect(alice.sheet.locator(".verdict")).to_contain_text("applied", timeout=20_000)
    await alice.says("All are answered.")
    await alice.reads("Chimera Bridge")
    written = {path.name for path in own_house.work.glob("parallel-*.txt")}
    assert written == {"parallel-1.txt", "parallel-2.txt"}


@pytest.mark.parametrize("role", ["viewer"])
async def test_who_may_only_look_is_told_so(shared_house, sign_in, role):
    alice = await sign_in(shared_house)
    vera = await sign_in(shared_house, "vera", role)
    session = await alice.new_session()
    await alice.write("run echo look > look.txt")
    await vera.go(f"#/s/{session}")
    await expect(vera.sheet).to_contain_text("You may look, not answer (viewer)")
    await expect(vera.button("Allow once")).to_have_count(0)
    await alice.button("Reject").click()


@pytest.mark.attack("A34", "direction, zero-width and control characters and padding, in Chromium")
async def test_a_hidden_character_is_shown_by_its_code(shared_house, sign_in):
    """A34: in what will run, and in what a person typed."""
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo safe\u202e\u200b\U000e0100\x1b[2K" + " " * 500 + "txt.exe")
    marks = ["U+202E", "U+200B", "U+E0100", "U+001B", "500 spaces"]
    await expect(alice.sheet.locator(".hero mark")).to_have_text(marks)
    await expect(alice.sheet).to_contain_text("hidden characters")
    await expect(alice.transcript.locator(".bubble mark")).to_have_text(marks)
    await alice.button("Reject").click()


@pytest.mark.attack("A33", "a long command in Chromium")
async def test_a_long_text_must_be_opened_before_it_is_allowed(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.new_session()
    await alice.write("run echo " + "word " * 800 + "> long.txt")
    await expect(alice.button("Allow once")).to_be_disabled()
    await expect(alice.button("Reject")).to_be_enabled()
    for button in await alice.sheet.get_by_text("Show the rest").all():
        await button.click()
    await expect(alice.button("Allow once")).to_be_enabled()
    await alice.button("Reject").click()
