import asyncio

import pytest

from bridge import keys
from bridge.changes import Change, notice, parse
from bridge.protocol.attachment import Reason
from bridge.protocol.entry import Origin
from bridge.protocol.uplink import AgentCard, MailDone, SessionCard


@pytest.mark.parametrize(
    "change",
    [
        Change("session", "s1", agent="a1"),
        Change("roundTrip", "rt-1", session_id="s1", state="open"),
        Change(
            "mail", "m-1", by=Origin("alice", door="page"), answer={"optionId": "ä", "list": []}
        ),
    ],
    ids=lambda change: change.kind,
)
def test_a_notice_is_read_as_it_was_written(change):
    read = parse({b"notice": notice(change), b"at": b"1790000000000"})
    assert read.at == 1_790_000_000_000
    assert read == parse({b"notice": notice(read), b"at": b"1790000000000"})
    assert (read.kind, read.id, read.by, read.answer) == (
        change.kind,
        change.id,
        change.by,
        change.answer,
    )


async def noticed(store, tenant="acme") -> list[tuple[str, str, str | None]]:
    changes = [parse(f) for _, f in await store.commands.xrange(keys.changes(tenant))]
    return [(change.kind, change.id, change.state or change.reason) for change in changes]


async def test_everything_that_changes_is_noticed_once(store, writer):
    await writer.append(writer.question(1), writer.update(2))
    await writer.append(writer.update(3))
    await writer.sessions.put_card(writer.claim, SessionCard("s1", "a1", 1, state="running"))
    await writer.decide()
    await writer.send()
    await writer.mailbox.done(writer.claim, MailDone("m-1"))
    await writer.append(writer.resolved(4))
    await writer.agents.put_card(writer.claim, AgentCard("a1", "claude", alive=False))
    await writer.agents.close(writer.claim, Reason.SAID_GOODBYE)

    assert await noticed(store) == [
        ("agent", "a1", "claimed"),
        ("roundTrip", "rt-1", "open"),
        ("session", "s1", None),
        ("session", "s1", "running"),
        ("roundTrip", "rt-1", "decided"),
        ("mail", "m-1", "done"),
        ("roundTrip", "rt-1", "closed"),
        ("agent", "a1", None),
        ("agent", "a1", "said_goodbye"),
    ]


async def test_what_is_repeated_is_not_noticed_again(store, writer):
    card = SessionCard("s1", "a1", 1)
    for _ in range(2):
        await writer.append(writer.question(1), writer.resolved(2))
        await writer.sessions.put_card(writer.claim, card)
        await writer.agents.close(writer.claim, Reason.SOCKET_CLOSED)
    assert len(await noticed(store)) == 6


async def test_another_node_sees_who_answered(writer, other_node):
    seen: asyncio.Queue[Change] = asyncio.Queue()
    after = await writer.store.commands.xrevrange(keys.changes("acme"), count=1)
    place = other_node.follow(
        "acme",
        keys.changes("acme"),
        after[0][0].decode(),
        lambda entries: [seen.put_nowait(parse(fields)) for _, fields in entries],
    )
    await place.ready()
    await writer.append(writer.question(1))
    await writer.decide(who="bob")

    while (change := await seen.get()).state != "decided":
        pass
    assert change.by == Origin("bob")
    assert change.answer == {"optionId": "allow"}
    assert change.session_id == "s1"


async def test_a_tenants_notices_are_its_own(store, writer):
    await writer.append(writer.update(1))
    assert await noticed(store, "globex") == []
