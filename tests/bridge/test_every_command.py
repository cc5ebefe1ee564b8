"""Everything a relay does to its store, recorded on the way: what repeats, and what it leaves."""

import re
from urllib.parse import urlsplit

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.served import Served, serving

from bridge import keys
from bridge import redis as redis_module
from bridge.protocol import uplink
from bridge.redis import Store, script

SCRIPTS = {
    script(path.stem).sha.encode(): path.stem
    for path in redis_module._SCRIPTS.glob("*.lua")
    if path.stem != "prelude"
}
_WORDS = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Z]+)\r\n(?:\$\d+\r\n([^\r]*)\r\n)?")


def kinds_in(sent: bytes) -> set[str]:
    """The commands that some bytes carry; a script by its name."""
    found = set()
    for name, word in _WORDS.findall(sent):
        if name in {b"EVALSHA", b"EVAL"}:
            found.add(f"script {SCRIPTS.get(word, 'as text')}")
        else:
            found.add(name.decode())
    return found


@pytest.fixture
async def recorded_way(redis_url, lossy_way):
    """A way to Redis that notes each command and loses the first reply of one kind."""
    async with lossy_way(urlsplit(redis_url).path) as way:
        way.seen, way.target = set(), None

        def is_lost(sent: bytes) -> bool:
            kinds = kinds_in(sent)
            way.seen |= kinds
            if way.target not in kinds:
                return False
            way.target = None
            return True

        way._is_lost = is_lost
        yield way


async def day(served: Served) -> None:
    """All that an agent and people do, once."""
    async with (
        UplinkPeer(served) as connector,
        ClientPeer(served) as person,
        ClientPeer(served, subject="bob") as bob,
    ):
        await connector.hello("s1")
        await person.initialize(decide=True)
        await bob.initialize()
        await person.call("_bridge/watch")
        await bob.load()
        await connector.store(connector.update(1), connector.question(2), connector.update(3))
        await bob.choose(await bob.question())
        mail = await connector.mail("_bridge/decide")
        await connector.notify(uplink.MAIL_JOURNALED, {"upTo": mail["n"]})
        await connector.done(mail, result={})
        await connector.store(connector.resolved(4))
        await bob.prompt("m-1")
        prompt = await connector.mail("session/prompt")
        await connector.notify(uplink.MAIL_JOURNALED, {"upTo": prompt["n"]})
        await connector.store(connector.words(5, "m-1"), connector.turn(6, "ended", "m-1"))
        await connector.done(prompt, result={"stopReason": "end_turn"})
        await connector.notify(uplink.SESSION, connector.card("s1", title="done"))
        for method in ("_bridge/agents", "_bridge/sessions", "_bridge/round_trips"):
            await person.call(method)
        await person.call("_bridge/status", sessionId="s1")
        await browse(served)


async def browse(served: Served) -> None:
    async with served.client() as http:
        for path in ("/api/sessions", "/api/sessions/s1/log", "/api/round-trips", "/readyz"):
            assert (await http.get(path)).status_code == 200
        mail = {"mailId": "m-2", "method": "session/cancel"}
        for _ in range(2):
            sent = await http.post("/api/sessions/s1/mail", json=mail)
            assert sent.status_code in {200, 202}, sent.text
    async with served.signed_in() as browser:
        assert (await browser.post("/api/ticket")).status_code == 200
        assert (await browser.post("/api/sign-out")).status_code == 204


async def effects(store: Store) -> dict[str, object]:
    """What must be there once, however often a command was sent."""
    redis = store.commands
    mailed = await redis.zrange(keys.mailed("acme", "a1"), 0, -1)
    log = await redis.xrange(keys.log("acme", "s1"))
    return {
        "entries": [id_.split(b"-")[1] for id_, _ in log],
        "mail": sorted(b"decision" if id_.startswith(b"d-") else id_ for id_ in mailed),
        "rt": await redis.hmget(keys.round_trip("acme", "rt-1"), "state", "result"),
        "audit": sorted(
            fields[b"event"]
            for _, fields in await redis.xrange(keys.audit("acme"))
            if b"event" in fields
        ),
    }


@pytest.mark.timeout(600)  # some 40 kinds, each with a relay of its own
async def test_whichever_kind_of_command_loses_its_reply_nothing_is_done_twice(
    recorded_way, store, figure
):
    """R08: each kind that a relay was seen to use, in turn."""
    way, tried, doubled = recorded_way, set(), []
    await store.commands.script_flush()  # so that loading them is among what is tried
    async with serving(way.url) as served:
        await day(served)
    expected = await effects(store)
    assert expected["entries"] == [b"%d" % n for n in range(1, 7)]
    for kind in sorted(way.seen):
        await store.commands.flushdb()
        await store.commands.script_flush()
        way.target = kind
        async with serving(way.url) as served:
            await day(served)
        assert way.target is None, kind
        tried.add(kind)
        if await effects(store) != expected:
            doubled.append(kind)
    figure(f"R08: double effects {len(doubled)} of {len(tried)} kinds of commands and scripts")
    assert doubled == []
    assert {name for name in tried if name.startswith("script ")} >= {
        f"script {name}" for name in ("append", "claim", "decide", "mail", "done", "acknowledge")
    }


async def test_every_key_has_an_end_or_says_what_pins_it(redis_url, store):
    async with serving(redis_url) as served:
        await day(served)
        found = {key.decode() for key in await store.commands.keys("*")}
        unknown = {key for key in found if keys.kind_of(key) is None}
        endless = {keys.kind_of(key) for key in found if await store.commands.pttl(key) == -1}
    assert unknown == set()
    assert endless <= keys.PINNABLE
    kinds = {keys.kind_of(key) for key in found}
    assert kinds >= {"log", "meta", "rt", "claim", "mailed", "done", "audit", "changes", "inbox"}
