"""Who watches a session, through whichever relay process."""

import pytest

from bridge import keys, presence
from bridge.presence import Presence
from bridge.protocol.uplink import Watcher

BOB = Watcher("bob", "viewer", "pixel")
DORA = Watcher("dora", "admin", visible=False)


@pytest.fixture
def here(store, inbox):
    return Presence(store, inbox)


@pytest.fixture
def there(store, other_node):
    return Presence(store, other_node)


async def of(some, session="s1"):
    (found,) = await some.of("acme", [session])
    return sorted(found, key=lambda one: one.subject)


async def test_the_watchers_of_all_processes_are_seen_from_each(here, there):
    await here.put("acme", "s1", [BOB], changed=True)
    await there.put("acme", "s1", [DORA], changed=True)
    assert await of(here) == await of(there) == [BOB, DORA]


async def test_each_process_replaces_only_its_own(here, there):
    await here.put("acme", "s1", [BOB], changed=True)
    await there.put("acme", "s1", [DORA], changed=True)
    await here.put("acme", "s1", [], changed=True)
    assert await of(here) == [DORA]


async def test_sessions_are_asked_for_together_and_tenants_are_apart(here):
    await here.put("acme", "s1", [BOB], changed=True)
    await here.put("acme", "s2", [DORA], changed=True)
    assert await here.of("acme", ["s2", "s1", "s3"]) == [[DORA], [BOB], []]
    assert await here.of("other", ["s1"]) == [[]]
    assert await here.of("acme", []) == []


async def test_a_process_that_died_watches_no_more(monkeypatch, here, there):
    monkeypatch.setattr(presence, "LIFE_MS", 0)
    await there.put("acme", "s1", [DORA], changed=True)
    monkeypatch.undo()
    await here.put("acme", "s1", [BOB], changed=True)
    assert await of(here) == [BOB]


@pytest.mark.parametrize("changed", [True, False])
async def test_only_a_change_is_told(here, store, changed):
    await here.put("acme", "s1", [BOB], changed=changed)
    assert await store.commands.xlen(keys.changes("acme")) == (1 if changed else 0)


async def test_what_is_noted_has_an_end(here, store):
    await here.put("acme", "s1", [BOB], changed=True)
    assert await store.commands.pttl(keys.presence("acme", "s1")) > 0
