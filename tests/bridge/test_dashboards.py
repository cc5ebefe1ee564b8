"""The dashboards of a process: who watches what here."""

import asyncio

import pytest
from fakes.peers import ClientPeer

from bridge.protocol.uplink import Watcher


@pytest.fixture
def dashboards(process):
    return process.relay.dashboards


async def test_who_watches_a_session_is_known_by_tenant(dashboards, client, other):
    await client.load()
    assert dashboards.watching("acme", "s1") == [Watcher("alice", "operator")]
    assert dashboards.watching("other", "s1") == dashboards.watching("acme", "s2") == []
    await other.load()
    assert dashboards.watched() == {("acme", "s1")}
    assert {one.subject for one in dashboards.watching("acme", "s1")} == {"alice", "bob"}


async def test_who_asked_to_be_told_is_known_by_tenant(process, dashboards, client):
    assert dashboards.tenants() == set()
    await client.call("_bridge/watch")
    async with ClientPeer(process, tenant="other") as foreign:
        await foreign.initialize()
        await foreign.call("_bridge/watch")
        assert dashboards.tenants() == {"acme", "other"}
        assert len(dashboards.watchers_of("acme")) == 1
        assert len(dashboards) == 2


async def test_who_has_left_is_forgotten(process, dashboards):
    async with ClientPeer(process) as client:
        await client.initialize()
        await client.call("_bridge/watch")
    async with asyncio.timeout(10):
        while len(dashboards):  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.005)
    assert dashboards.tenants() == dashboards.watched() == set()


async def test_a_change_of_presence_is_given_once_unless_it_could_not_be_told(dashboards):
    dashboards.presence_changed("acme", "s1")
    dashboards.presence_changed("acme", "s1")
    changed = dashboards.take_changed()
    assert changed == {("acme", "s1")}
    assert dashboards.take_changed() == set()
    dashboards.presence_untold(changed)
    assert dashboards.take_changed() == changed
