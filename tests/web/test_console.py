"""The places that few visits open: who did what, rules, history; and that they come when needed."""

import gzip
import re
from pathlib import Path

import pytest
from playwright.async_api import expect
from web.person import PHONE

from bridge.endpoints.page import STATIC

FORGET = """
async () => {
  for (const one of await navigator.serviceWorker.getRegistrations()) await one.unregister();
  for (const name of await caches.keys()) await caches.delete(name);
}
"""


def read(path) -> str:
    return Path(path).read_text()


async def asks_and_allows(person):
    """Have the agent ask, and allow it."""
    session = await person.new_session()
    await person.write("run ls")
    await person.opens_question()
    await person.button("Allow once").click()
    await person.go(f"#/s/{session}")
    await person.says("It ran.")


async def test_who_approved_what_is_found_in_three_taps(shared_house, sign_in, figure):
    alice = await sign_in(shared_house, at=PHONE)
    await asks_and_allows(alice)
    await alice.go("#/")
    taps = ("Settings", re.compile("^Who did what"), "7 days")
    for name in taps[:2]:
        await alice.page.get_by_role("link", name=name).click()
    await alice.button(taps[2]).click()
    record = alice.page.locator("[data-record=closed]", has_text="ls").first
    await expect(record).to_contain_text("allowed")
    await expect(record).to_contain_text("alice")
    figure(f"console: who approved what: taps {len(taps)}, bar 3")
    await record.locator("summary").click()
    await expect(record.get_by_text("Hash of what was asked")).to_be_visible()


PLACES = [
    "",
    "sessions",
    "fleet",
    "settings",
    "devices",
    "pair",
    "new",
    "history",
    "audit",
    "rules",
]
WIDER = """
[...document.querySelectorAll("main .scroll, main .screen")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.className}: ${one.scrollWidth} > ${one.clientWidth}`)
"""


@pytest.mark.parametrize("width", [320, 390])
async def test_no_place_is_wider_than_a_phone(shared_house, sign_in, width):
    alice = await sign_in(shared_house, at={**PHONE, "width": width})
    for place in PLACES:
        await alice.go(f"#/{place}")
        await expect(alice.page.locator("main h1").first).to_be_visible()
        assert await alice.page.evaluate(WIDER) == [], place


async def test_an_export_of_the_audit_can_be_taken_away(shared_house, sign_in):
    alice = await sign_in(shared_house)
    await alice.go("#/audit")
    async with alice.page.expect_download() as coming:
        await alice.page.get_by_role("link", name="CSV").click()
    text = read(await (await coming.value).path())
    assert text.startswith("at,event,subject")
    assert "sign_in" in text


async def test_a_rule_is_tried_made_removed_and_put_back(shared_house, sign_in):
    alice = await sign_in(shared_house, at=PHONE)
    await asks_and_allows(alice)
    await alice.go("#/rules")
    form = alice.page.get_by_role("form", name="New rule")
    await form.get_by_label("What is done").select_option("deny")
    await form.get_by_label("Commands that begin with (one a line)").fill("ls")
    await form.get_by_role("button", name="Try it on the last day").click()
    await expect(
        form.get_by_text(re.compile("Of [0-9]+ questions of the last 24 h"))
    ).to_be_visible()
    await expect(form.get_by_text("would be refused").first).to_be_visible()
    await form.get_by_label("Commands that begin with (one a line)").fill("rm -rf /nowhere")
    await form.get_by_role("button", name="Make this rule").click()
    rule = alice.page.locator("[data-rule]")
    await expect(rule).to_contain_text("refuse commands that begin with “rm -rf /nowhere”")
    await rule.get_by_role("button").click()
    await expect(rule).to_have_count(0)
    await alice.button("Put it back").click()
    await expect(rule).to_have_count(1)
    await rule.get_by_role("button").click()
    await expect(rule).to_have_count(0)


@pytest.mark.parametrize("place", ["audit", "rules"])
async def test_who_is_no_admin_is_told_in_words(shared_house, sign_in, place):
    ben = await sign_in(shared_house, "ben", "viewer", at=PHONE)
    await ben.go("#/settings")
    await expect(ben.page.get_by_text("are for admins of")).to_be_visible()
    await expect(ben.page.locator(f"a[href='#/{place}']")).to_have_count(0)
    await ben.go(f"#/{place}")
    await expect(ben.page.get_by_text("you are viewer")).to_be_visible()


async def test_a_past_session_is_found_and_its_transcript_taken(shared_house, sign_in):
    alice = await sign_in(shared_house, at=PHONE)
    await asks_and_allows(alice)
    await alice.go("#/history")
    await alice.page.get_by_role("searchbox").fill("nothing like it")
    await expect(alice.page.get_by_text("No session matches")).to_be_visible()
    await alice.page.get_by_role("searchbox").fill("")
    await alice.page.locator("summary").first.click()
    async with alice.page.expect_download() as coming:
        await alice.page.get_by_role("link", name="Markdown").first.click()
    text = read(await (await coming.value).path())
    assert "History starts here." in text
    assert "run ls" in text


async def test_a_place_never_opened_opens_without_a_network(own_house, sign_in):
    """G04: all of a build's files are kept together, also those that were not needed yet."""
    alice = await sign_in(own_house, at=PHONE)
    await alice.page.evaluate("navigator.serviceWorker.ready.then(() => 1)")
    await own_house.kill_relay()
    await alice.go("#/history")
    await expect(alice.page.get_by_role("heading", name="History")).to_be_visible()
    alice.problems.clear()  # the browser logs that nobody answered


async def test_a_part_that_is_gone_says_so_and_offers_the_new_page(shared_house, sign_in):
    """G04: a page that is older than the relay asks for a part of its own build."""
    alice = await sign_in(shared_house, at=PHONE)
    await alice.context.route(
        re.compile("/assets/Fleet-"), lambda route: route.fulfill(status=404, body="{}")
    )
    await alice.page.evaluate(FORGET)
    await alice.page.reload()
    await alice.is_live()
    await alice.go("#/fleet")
    await expect(alice.page.get_by_text("could not be fetched")).to_be_visible()
    await expect(alice.button("Reload the page")).to_be_visible()
    alice.problems.clear()  # the browser logs the 404


def test_first_use_is_small(figure):
    """What index.html names, gzipped; the rest comes when it is opened."""
    index = (STATIC / "index.html").read_text()
    named = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', index)
    size = sum(len(gzip.compress((STATIC / one).read_bytes())) for one in named)
    assert size <= 100_000, f"{size} bytes"
    figure(f"console: first use, gzipped: bytes {size}, bar 100000")
    everything = sum(1 for _ in (STATIC / "assets").iterdir())
    assert everything > len(named)
