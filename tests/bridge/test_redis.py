import asyncio
import json
import os
import signal
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bridge import keys
from bridge import redis as redis_module
from bridge.audit import Audit
from bridge.buckets import Buckets
from bridge.change_feed import ChangeFeed
from bridge.changes import Change
from bridge.devices import Devices
from bridge.families import Families
from bridge.health import Health
from bridge.identity import Identity
from bridge.inbox import Inbox
from bridge.login import Logins
from bridge.protocol.acp import Role
from bridge.protocol.attachment import Reason
from bridge.protocol.entry import Origin
from bridge.protocol.errors import StoreUnavailable
from bridge.protocol.uplink import AgentCard, DeviceCard, MailDone, SessionCard
from bridge.redis import Store, script
from bridge.rules import Rules, made
from bridge.settings import Settings
from bridge.token_register import TokenRegister
from bridge.tokens import Tokens

SCRIPTS = sorted(path.stem for path in Path(redis_module.__file__).parent.glob("scripts/*.lua"))


async def refusal(url: str) -> str:
    store = Store.open(url)
    with pytest.raises(StoreUnavailable) as refused:
        await store.check()
    await store.aclose()
    return str(refused.value)


# Opening.


@pytest.mark.parametrize("url", ["", "hunter2", "redis://:hunter2@x:port", "redis://x?db=hunter2"])
def test_what_is_no_address_is_refused_without_showing_it(url):
    with pytest.raises(StoreUnavailable, match="BRIDGE_REDIS_URL") as refused:
        Store.open(url)
    assert "hunter2" not in str(refused.value)


# Checking.


async def test_a_healthy_redis_passes(store):
    await store.check()


async def test_a_wrong_password_is_told_with_the_way_out(store, redis_url):
    await store.commands.execute_command("ACL", "SETUSER", "anna", "on", ">right", "~*", "+@all")
    said = await refusal(f"unix://anna:hunter2@{urlsplit(redis_url).path}")
    assert "refuses the user or password; set both in BRIDGE_REDIS_URL" in said
    assert "hunter2" not in said


async def test_a_missing_password_is_told_with_the_way_out(own_server):
    url = own_server.start()
    store = Store.open(url)
    await store.commands.config_set("requirepass", "right")
    await store.aclose()
    assert "refuses the user or password" in await refusal(url)


async def test_a_host_that_does_not_exist_is_told(store):
    said = await refusal("redis://:hunter2@no-such-host.invalid:6379/0")
    assert said.startswith("there is no host of redis at redis://no-such-host.invalid:6379/0;")


async def test_a_port_where_nobody_listens_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        said = await refusal(f"redis://127.0.0.1:{taken.getsockname()[1]}")
    assert "redis is not reachable at redis://127.0.0.1:" in said
    assert "is it running? set BRIDGE_REDIS_URL" in said


async def test_something_else_on_the_port_is_told():
    async def answer(_, writer) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert "redis is not reachable" in await refusal(f"redis://127.0.0.1:{port}")


async def test_a_replica_is_refused(own_server):
    url = own_server.start()
    store = Store.open(url)
    await store.commands.execute_command("REPLICAOF", "127.0.0.1", "1")
    await store.aclose()
    assert "is a read-only replica; point BRIDGE_REDIS_URL at the primary" in await refusal(url)


async def test_a_redis_that_drops_what_it_holds_is_refused(own_server):
    url = own_server.start()
    store = Store.open(url)
    await store.commands.config_set("maxmemory-policy", "allkeys-lru")
    await store.aclose()
    assert "maxmemory-policy is allkeys-lru; set it to noeviction" in await refusal(url)


async def test_a_redis_that_hides_its_settings_is_warned_about(store, redis_url, caplog):
    rules = ("on", "nopass", "~*", "+@all", "-config", "-info", "-role")
    await store.commands.execute_command("ACL", "SETUSER", "hosted", *rules)
    hosted = Store.open(f"unix://hosted:any@{urlsplit(redis_url).path}")
    await hosted.check()
    await hosted.aclose()
    assert "it must be noeviction" in caplog.text


async def test_a_user_who_may_not_write_is_told(store, redis_url):
    await store.commands.execute_command(
        "ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@read", "+@connection", "+info", "+role"
    )
    said = await refusal(f"unix://reader:any@{urlsplit(redis_url).path}")
    assert "refuses to be written" in said


# Running scripts.


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "prelude"])
async def test_every_script_is_one_that_redis_understands(store, name):
    assert await store.commands.script_load(script(name).text) == script(name).sha


async def test_a_redis_that_lost_its_scripts_gets_them_again(writer):
    await writer.store.commands.script_flush()
    assert await writer.send()


async def test_the_clock_is_redis_own(store):
    seconds, micros = await store.commands.time()
    assert await store.time_ms() >= seconds * 1000 + micros // 1000


async def test_what_redis_refuses_is_told_as_refused(store):
    await store.commands.set(keys.audit("acme"), "no stream")
    with pytest.raises(StoreUnavailable, match="refuses: WRONGTYPE"):
        async with store.operation():
            await store.commands.xlen(keys.audit("acme"))


# Repeating: redis-py sends a command again when its reply was lost. Each script is run twice with
# the same arguments, and Redis holds the same as after running it once.


@pytest.fixture
def runs(monkeypatch):
    """The calls of scripts, as they were made."""
    made: list[tuple] = []
    run = Store.run

    async def noting(self, name, names, arguments, **how):
        made.append((name, names, arguments))
        return await run(self, name, names, arguments, **how)

    monkeypatch.setattr(Store, "run", noting)
    return made


async def use_everything(writer) -> None:
    await writer.append(writer.question(1), writer.update(2))
    await writer.sessions.put_card(writer.claim, SessionCard("s1", "a1", 1))
    await writer.agents.put_card(writer.claim, AgentCard("a1", "other"))
    await writer.round_trips.escalate("acme", "rt-1", "r-1")
    await writer.decide()
    n = await writer.send()
    await writer.mailbox.acknowledge(writer.claim, n)
    await writer.mailbox.done(writer.claim, MailDone("m-1"))
    await writer.append(writer.resolved(3))
    await writer.agents.renew(writer.claim, 0)
    await writer.agents.close(writer.claim, Reason.SOCKET_CLOSED)


async def unbound(_who) -> str:
    return ""


async def test_every_script_run_again_at_once_changes_nothing(runs, writer, tmp_path):
    store = writer.store

    async def noting_effect(self, name, names, arguments, **how):
        reply = await plain(self, name, names, arguments, **how)
        before = await content(store)
        await plain(self, name, names, arguments, **how)
        assert await content(store) == before, name
        return reply

    plain = Store.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "run", noting_effect)
        await writer.take_claim(epoch=writer.epoch + 1)
        await use_everything(writer)
        audit = Audit(store, Tokens(tmp_path))
        await audit.write("acme", "sign_in", Origin("alice"))
        await audit.seal("acme")
        devices = Devices(store, writer.inbox, writer.agents, Logins(store), audit)
        await devices.paired("acme", DeviceCard("dev-1", "", "pixel", "alice"), "login-1")
        await writer.inbox.follow("acme", keys.log("acme", "s1"), "0-0", print).ready()
        await ChangeFeed(store, writer.inbox).tell("acme", Change("login", "alice"))
        rules = Rules(store, writer.inbox)
        await rules.add("acme", made({"action": "deny"}, Origin("alice"), now=1))
        tokens = Tokens(tmp_path)
        families = Families(store, tokens, TokenRegister(store, print), audit)
        grant = await families.make("person", "ci", "acme", Role.VIEWER)
        await families.refresh(grant.refresh_token, "r-1", unbound)
        who = Identity("person", "acme", "ci", Role.VIEWER, "t-1")
        await Buckets(store, Health(store), Settings()).take("mail", who)
        await writer.agents.lose("acme", "a1", writer.inbox.node)

    elsewhere = {"append", "prelude", "presence"}  # test_log.py, no script, test_presence.py
    assert {name for name, *_ in runs} == set(SCRIPTS) - elsewhere


async def content(store) -> dict[bytes, object]:
    """What Redis holds, without the times at which leases and lives end."""
    held: dict[bytes, object] = {}
    for key in await store.commands.keys("b:{*"):
        kind = (await store.commands.type(key)).decode()
        if kind == "hash":
            fields = await store.commands.hgetall(key)
            held[key] = {
                f: v for f, v in fields.items() if not f.endswith((b"_at", b"_until", b"_seen"))
            }
        elif kind == "stream":
            held[key] = await store.commands.xrange(key)
        elif kind == "zset":
            held[key] = await store.commands.zrange(key, 0, -1)
        else:
            held[key] = kind
        if b":watch:" in key:
            held[key] = None
    return held


@pytest.mark.parametrize("nth", range(1, 13))
async def test_whichever_reply_is_lost_the_outcome_is_the_same(on_lossy_way, proxy, store, nth):
    writer = on_lossy_way
    before = await writer.store.commands.xlen(keys.changes("acme"))
    proxy.lose_reply_to("*", nth=nth)
    await use_everything(writer)
    assert proxy.lost.is_set()

    record = await writer.round_trips.get("acme", "rt-1")
    assert record.result == "applied"
    assert record.decision.decision_id == "d-1"
    assert len(await writer.texts()) == 3
    assert await store.commands.zcard(keys.mailed("acme", "a1")) == 2
    assert await store.commands.xlen(keys.audit("acme")) == 3
    assert await store.commands.xlen(keys.changes("acme")) - before == 9


# Bounds.


async def test_a_frozen_redis_is_given_up_in_time(own_server):
    store = Store.open(own_server.start())
    await store.check()
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(redis_module.OPERATION_SECONDS + 5):
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await store.time_ms()
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert await store.time_ms()
    await store.aclose()


async def test_a_task_ends_at_whatever_moment_it_is_cancelled(store):
    for turns in range(120):
        task = asyncio.create_task(Inbox(store, "short").run())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        async with asyncio.timeout(10):
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_more_callers_than_connections_all_get_through(store):
    times = await asyncio.gather(*(store.time_ms() for _ in range(300)))
    assert len(times) == 300
    assert json.dumps(times)
