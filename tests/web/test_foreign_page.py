"""A page of another origin, and a text that would like to be one, in a signed-in browser."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import expect

ATTACKS = Path(__file__).with_name("foreign.js").read_text()
FORM = """
(relay) => {
  const form = document.createElement("form");
  form.action = relay + "/api/sign-out";
  form.method = "POST";
  form.enctype = "text/plain";
  document.body.append(form);
  form.submit();
}
"""


async def serve(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    body = b"<!doctype html><title>evil</title><body>hello"
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
    writer.close()


@pytest.mark.attack("S21", "a page of another port and of another site, in Chromium")
async def test_a_foreign_page_does_nothing_with_the_sign_in(shared_house, sign_in, figure):
    alice = await sign_in(shared_house)
    done: list[str] = []
    evil = await alice.context.new_page()
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        # To a browser the first is the same site, which gets the cookie; the second is another.
        for origin in (f"http://127.0.0.1:{port}", f"http://localhost:{port}"):
            await evil.goto(origin)
            found = await evil.evaluate(ATTACKS, shared_house.url)
            done += [f"{origin}: {name}" for name, got in found.items() if got]
            await evil.evaluate(FORM, shared_house.url)
            await evil.wait_for_url(f"{shared_house.url}/api/sign-out")
    await evil.close()
    figure(f"{2 * (len(found) + 1)} ways, {len(done)} got anywhere")
    assert done == []
    await alice.page.reload()
    await alice.is_live()


@pytest.mark.attack("S21", "what a script finds in the page, in Chromium")
async def test_a_script_in_the_page_finds_no_cookie_and_cannot_write_markup(shared_house, sign_in):
    alice = await sign_in(shared_house)
    page = await alice.context.new_page()  # one whose complaints are expected
    await page.goto(shared_house.url)
    assert await page.evaluate("document.cookie") == ""
    for way in (
        "document.body.innerHTML = '<img src=x>'",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x>')",
        "document.write('<p>x')",
        "document.createElement('script').text = '1'",
        "document.createElement('script').src = '/x.js'",
        "document.createElement('iframe').srcdoc = '<p>'",
        "new DOMParser().parseFromString('<p>', 'text/html')",
        "trustedTypes.createPolicy('mine', {})",
    ):
        tried = f"() => {{ try {{ {way}; return ''; }} catch (e) {{ return e.name; }} }}"
        assert await page.evaluate(tried) == "TypeError", way
    await page.close()


@pytest.mark.attack("A35", "markup and links in a command, in Chromium")
async def test_what_an_agent_writes_is_text_and_never_markup(shared_house, sign_in):
    """A35."""
    alice = await sign_in(shared_house, at={"width": 390, "height": 844})
    asked: list[str] = []
    alice.page.on("dialog", lambda dialog: asked.append(dialog.message))
    await alice.new_session()
    text = "echo <img src=x onerror=alert(1)> [tap](javascript:alert(2)) <b>bold</b> &lt;"
    await alice.write(f"run {text}")
    await alice.page.get_by_role("link", name="asks you").click()
    await expect(alice.sheet).to_contain_text(text)
    assert await alice.sheet.locator("img, b, script, iframe").count() == 0
    assert await alice.sheet.locator("a[href*=javascript]").count() == 0
    assert asked == []
    await alice.button("Reject").click()
