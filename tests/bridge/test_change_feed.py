"""A tenant's notices on one process: followed once, whatever the number of listeners."""

import asyncio

import pytest

from bridge import change_feed
from bridge.change_feed import ChangeFeed
from bridge.presence import Presence
from bridge.protocol.errors import StoreUnavailable
from bridge.protocol.uplink import Watcher


@pytest.fixture
def feed(store, inbox):
    return ChangeFeed(store, inbox)


@pytest.fixture
def say(store, other_node):
    """Change something through another process."""
    presence = Presence(store, other_node)

    async def change(session, tenant="acme"):
        await presence.put(tenant, session, [Watcher("bob", "viewer")], changed=True)

    return change


class Ear:
    def __init__(self):
        self.heard = asyncio.Queue()

    def __call__(self, change):
        self.heard.put_nowait(change)

    async def next(self):
        return (await asyncio.wait_for(self.heard.get(), 10)).id


async def test_what_changes_from_now_on_is_heard_in_order(feed, say):
    await say("before")
    ear = Ear()
    await feed.listen("acme", ear)
    for session in ("s1", "s2", "s3"):
        await say(session)
    assert [await ear.next() for _ in range(3)] == ["s1", "s2", "s3"]


async def test_only_ones_own_tenant_is_heard(feed, say):
    ear = Ear()
    await feed.listen("acme", ear)
    await say("s9", "other")
    await say("s1")
    assert await ear.next() == "s1"


async def test_the_stream_is_followed_once_and_until_the_last_has_left(feed, inbox, say):
    one, other = Ear(), Ear()
    stop_one, stop_other = await feed.listen("acme", one), await feed.listen("acme", other)
    assert sum(len(followers) for followers in inbox._followers.values()) == 1
    stop_one()
    await say("s1")
    assert await other.next() == "s1"
    assert one.heard.empty()
    stop_other()
    assert inbox._followers == {}


async def test_the_same_listener_may_listen_twice(feed, say):
    ear = Ear()
    stop = await feed.listen("acme", ear)
    await feed.listen("acme", ear)
    stop()
    await say("s1")
    assert await ear.next() == "s1"


async def test_stopping_twice_is_stopping_once(feed):
    stop = await feed.listen("acme", Ear())
    stop()
    stop()


async def test_one_listeners_fault_does_not_starve_the_others(feed, say, caplog):
    def broken(_change):
        raise ValueError("a listener that fails")

    ear = Ear()
    await feed.listen("acme", broken)
    await feed.listen("acme", ear)
    await say("s1")
    assert await ear.next() == "s1"
    assert "a listener of acme failed" in caplog.text


async def test_without_the_store_listening_fails_and_leaves_nothing(on_own_server, monkeypatch):
    writer, server = on_own_server
    monkeypatch.setattr(change_feed, "OPEN_SECONDS", 0.2)
    feed = ChangeFeed(writer.store, writer.inbox)
    server.stop()
    with pytest.raises(StoreUnavailable):
        await feed.listen("acme", Ear())
    assert writer.inbox._followers == {}
    server.start()
    async with asyncio.timeout(15):
        while True:
            try:
                await feed.listen("acme", Ear())
                break
            except StoreUnavailable:
                pass
