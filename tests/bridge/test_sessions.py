import pytest

from bridge import keys
from bridge.protocol.attachment import Reason, State
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import InvalidParams, NotFound, Replaced
from bridge.protocol.uplink import SessionCard


def card(counter: int, session: str = "s1", agent: str = "a1", **shown) -> SessionCard:
    return SessionCard(session, agent, counter, **shown)


async def test_a_session_shows_its_card_its_cursor_and_its_agents_state(writer):
    shown = {"title": "fix the parser", "cwd": "/home/anna/app", "state": "running"}
    modes = {"currentModeId": "default"}
    await writer.sessions.put_card(writer.claim, card(1, **shown, modes=modes))
    await writer.append(writer.update(1), writer.question(2))

    record = await writer.sessions.get("acme", "s1")

    assert (record.title, record.cwd, record.state) == tuple(shown.values())
    assert record.cursor == Cursor(writer.epoch, 2)
    assert record.open == ["rt-1"]
    assert record.attachment.state is State.ATTACHED
    assert record.as_json()["modes"] == modes
    assert "models" not in record.as_json()


async def test_a_session_without_a_card_is_known_by_its_log(writer):
    await writer.append(writer.update(1))
    record = await writer.sessions.get("acme", "s1")
    assert (record.agent, record.title, record.state) == ("a1", "", "idle")


async def test_a_session_without_a_log_is_known_by_its_card(writer):
    await writer.sessions.put_card(writer.claim, card(1, title="new"))
    record = await writer.sessions.get("acme", "s1")
    assert (record.title, record.cursor) == ("new", START)
    assert (await writer.append(writer.update(1))).state == "ok"


async def test_the_higher_counter_wins_in_any_order(writer):
    for counter in (2, 5, 3, 5, 1):
        await writer.sessions.put_card(writer.claim, card(counter, title=f"title {counter}"))
    assert (await writer.sessions.get("acme", "s1")).title == "title 5"


async def test_a_question_that_was_answered_is_no_longer_open(writer):
    await writer.append(writer.question(1), writer.question(2, "rt-2"))
    await writer.decide(id_="rt-2")
    assert (await writer.sessions.get("acme", "s1")).open == ["rt-1"]
    await writer.append(writer.resolved(3))
    assert (await writer.sessions.get("acme", "s1")).open == []


async def test_a_session_shows_why_its_agent_is_away(writer):
    await writer.append(writer.update(1))
    await writer.agents.close(writer.claim, Reason.SAID_GOODBYE)
    found = (await writer.sessions.get("acme", "s1")).attachment
    assert (found.state, found.reason) == (State.ENDED, Reason.SAID_GOODBYE)


async def test_sessions_are_listed_the_last_written_first(writer, store):
    for n, name in enumerate(("s2", "s3", "s1"), 1):
        await writer.append(writer.update(1), session=name)
        await store.commands.hset(keys.meta("acme", name), "updated_at", writer.epoch + n)
    listed = [record.session_id for record in await writer.sessions.list("acme")]
    assert listed == ["s1", "s3", "s2"]


async def test_an_expired_session_leaves_the_list_and_its_index(writer, store):
    await writer.append(writer.update(1))
    await store.commands.delete(keys.meta("acme", "s1"))
    assert await writer.sessions.list("acme") == []
    assert await store.commands.zcard(keys.sessions("acme")) == 0


async def test_a_session_of_another_tenant_is_unknown(writer):
    await writer.append(writer.update(1))
    with pytest.raises(NotFound, match="unknown session 's1'"):
        await writer.sessions.get("globex", "s1")
    assert await writer.sessions.list("globex") == []


async def test_a_card_for_another_agents_session_looks_unknown(writer):
    await writer.append(writer.update(1))
    await writer.take_claim("a2")
    with pytest.raises(NotFound, match="unknown session 's1'"):
        await writer.sessions.put_card(writer.claim, card(9, agent="a2", title="forged"))
    assert (await writer.sessions.get("acme", "s1")).title == ""


async def test_a_card_that_names_another_agent_is_refused(writer):
    with pytest.raises(InvalidParams, match="'a2', claimed is 'a1'"):
        await writer.sessions.put_card(writer.claim, card(1, agent="a2"))


async def test_a_replaced_process_puts_no_card(writer):
    old = writer.claim
    await writer.take_claim(epoch=old.epoch + 1, writer="w2")
    with pytest.raises(Replaced) as refused:
        await writer.sessions.put_card(old, card(1))
    assert refused.value.data["epoch"] == old.epoch + 1


# How long a session is kept.


async def test_an_open_question_pins_its_session_until_it_is_closed(writer, store):
    held = [keys.log("acme", "s1"), keys.meta("acme", "s1")]
    await writer.append(writer.update(1), writer.question(2))
    assert [await store.commands.pttl(key) for key in held] == [-1, -1]

    await writer.decide()
    await writer.append(writer.update(3))
    await writer.sessions.put_card(writer.claim, card(1))
    assert [await store.commands.pttl(key) for key in held] == [-1, -1]

    await writer.append(writer.resolved(4))
    assert all([await store.commands.pttl(key) > 0 for key in held])


async def test_a_card_lets_the_log_live_as_long_as_the_session(writer, store):
    await writer.append(writer.update(1))
    await store.commands.pexpire(keys.log("acme", "s1"), 1000)
    await writer.sessions.put_card(writer.claim, card(1))
    assert await store.commands.pttl(keys.log("acme", "s1")) > 3600_000


async def test_a_lost_reply_to_a_card_changes_nothing_twice(on_lossy_way, proxy):
    writer = on_lossy_way
    before = await writer.store.commands.xlen(keys.changes("acme"))
    proxy.lose_reply_to("lost title")
    await writer.sessions.put_card(writer.claim, card(1, title="lost title"))
    assert proxy.lost.is_set()
    assert (await writer.sessions.get("acme", "s1")).title == "lost title"
    assert await writer.store.commands.xlen(keys.changes("acme")) == before + 1
