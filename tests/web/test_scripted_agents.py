"""What agents do that the demo does not: a connector that says what the test says."""

import json
import secrets

from playwright.async_api import expect

from bridge.protocol.uplink import SESSION

UPDATES = 10_000
# The browser's own record of tasks that held its main thread for over 50 ms.
LONG_TASKS = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""


def tool_call(peer, seq, session):
    """An entry of a tool call that is done, with a line of output."""
    text = {"type": "content", "content": {"type": "text", "text": f"line of call {seq}"}}
    update = {"sessionUpdate": "tool_call", "toolCallId": f"c{seq}", "title": f"call {seq}"}
    update |= {"kind": "execute", "status": "completed", "content": [text]}
    written = json.loads(peer.update(seq, session=session))
    written["params"]["update"] = update
    return json.dumps(written).encode()


async def send(peer, session, wanted, first, last):
    """Send entries as fast as they are taken."""
    for start in range(first, last + 1, 500):
        upto = min(last, start + 499)
        await peer.store(*(wanted(seq) for seq in range(start, upto + 1)), session=session)


async def longest(person):
    return round(await person.page.evaluate("window.longest"))


async def test_ten_thousand_updates_leave_the_page_quick(own_house, sign_in):
    """F08: calls and text in turns, while one looks on and when one opens it later."""
    session = f"many-{secrets.token_hex(4)}"
    async with await own_house.uplink(session) as peer:
        await peer.hello(session)
        alice = await sign_in(own_house)
        await alice.page.evaluate(LONG_TASKS)
        await alice.go(f"#/s/{session}")

        def mixed(seq):
            if seq % 10:
                return peer.update(seq, f"word {seq} ", session=session)
            return tool_call(peer, seq, session)

        await send(peer, session, mixed, 1, UPDATES - 1)
        await send(
            peer, session, lambda n: peer.update(n, "the end", session=session), UPDATES, UPDATES
        )
        await alice.says("the end")
        live = await longest(alice)
        await alice.context.add_init_script(LONG_TASKS)
        await alice.page.reload()
        await alice.says("the end")
        print(f"longest task: {live} ms while 10,000 came, {await longest(alice)} ms on opening")
        assert await alice.transcript.locator(".column > *").count() <= 300


async def test_one_answer_of_ten_thousand_pieces_leaves_the_page_quick(own_house, sign_in):
    """F08: one text that grows all the time."""
    session = f"long-{secrets.token_hex(4)}"
    async with await own_house.uplink(session) as peer:
        await peer.hello(session)
        alice = await sign_in(own_house)
        await alice.page.evaluate(LONG_TASKS)
        await alice.go(f"#/s/{session}")
        piece = "**word**{}"

        def words(seq):
            return peer.update(seq, piece.format("\n\n" if seq % 20 == 0 else " "), session=session)

        await send(peer, session, words, 1, UPDATES - 1)
        await send(
            peer, session, lambda n: peer.update(n, "the end", session=session), UPDATES, UPDATES
        )
        await alice.says("the end")
        print(f"longest task: {await longest(alice)} ms while one text of 10,000 pieces grew")


async def test_an_agent_that_does_not_stop_is_said_and_can_be_ended(own_house, sign_in):
    """A12, G09: the state comes with the session's card, the end with the second cancel."""
    session = f"deaf-{secrets.token_hex(4)}"
    async with await own_house.uplink(session) as peer:
        await peer.hello(session)
        await peer.store(
            peer.words(1, "p1", session=session),
            peer.turn(2, "started", "p1", session=session),
            session=session,
        )
        await peer.notify(SESSION, peer.card(session, state="running"))
        alice = await sign_in(own_house)
        await alice.go(f"#/s/{session}")
        await alice.button("Stop").click()
        first = await peer.mail("session/cancel")
        await peer.done(first)
        await expect(alice.page.locator(".stopping")).to_contain_text("Stopping")
        await peer.notify(
            SESSION, peer.card(session, state="stalled", state_reason="cancel_unacknowledged")
        )
        await expect(alice.page.locator(".session .bar")).to_contain_text("the agent does not stop")
        seen = len(peer.got)
        await alice.button("End the agent").click()
        await peer.done(await peer.mail("session/cancel", after=seen))
        await expect(alice.page.locator(".stopping")).to_contain_text("Ending the agent")
        await peer.store(peer.turn(3, "unknown", "p1", session=session), session=session)
        await peer.notify(SESSION, peer.card(session, state="idle"))
        await expect(alice.page.locator(".stopping")).to_have_count(0)
        await expect(alice.button("Stop")).to_have_count(0)
        await alice.write("and now?")
        assert (await peer.mail("session/prompt"))["mailId"]
