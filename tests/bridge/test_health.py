"""The store's troubles as people are told of them, on a relay that runs."""

import asyncio
import contextlib
import logging
import os
import signal
import time

import pytest
from fakes.peers import ClientPeer, Refused, UplinkPeer
from fakes.redises import until
from fakes.served import Served, serving

from bridge import keys
from bridge.bulletin import CHANGED
from bridge.protocol.cursor import START
from bridge.protocol.round_trip import hash_of

ANSWER_SECONDS = 3.5  # for a clear error over HTTP
LOADED = 3  # the suite runs side by side; the figure says how it was
_HEARD = {"bridge.health", "bridge.access"}


class House:
    """A relay on a server that a test may hurt, an agent with session s1, somebody who watches."""

    def __init__(self, server, relay: Served, connector: UplinkPeer, person: ClientPeer) -> None:
        self.server, self.relay = server, relay
        self.connector, self.person = connector, person

    async def told(self, state: str, *, after: int = 0):
        message = await self.person.until(
            lambda m: (
                m.get("method") == CHANGED and m["params"].get("store", {}).get("state") == state
            ),
            after=after,
        )
        return message["params"]["store"]

    async def metric(self, name: str) -> float:
        async with self.relay.client(None) as http:
            lines = (await http.get("/metrics")).text.splitlines()
        return float(next(line for line in lines if line.startswith(f"bridge_{name} ")).split()[1])

    async def decide(self, decision_id: str = "d-1", id_: str = "rt-1"):
        subject = next(
            m for m in self.person.got if m.get("params", {}).get("roundTrip", {}).get("id") == id_
        )["params"]["roundTrip"]["subject"]
        return await self.person.call(
            "_bridge/decide",
            id=id_,
            hash=hash_of(subject),
            answer={"optionId": "allow"},
            decisionId=decision_id,
        )

    async def asked(self) -> None:
        await self.connector.store(self.connector.question(1))
        await self.person.until(lambda m: m.get("params", {}).get("roundTrip", {}).get("id"))


@contextlib.asynccontextmanager
async def housed(server, url: str, **settings):
    async with (
        serving(url, **settings) as relay,
        UplinkPeer(relay) as connector,
        ClientPeer(relay) as person,
    ):
        await connector.hello("s1")
        await person.initialize(decide=True)
        await person.call("_bridge/watch")
        yield House(server, relay, connector, person)


@pytest.fixture
async def house(own_redises):
    server = own_redises.server()
    async with housed(server, f"redis://127.0.0.1:{server.port}") as made:
        yield made


async def refused(house: House) -> None:
    """See that nobody is told that something was taken, over websocket or HTTP."""
    with pytest.raises(Refused) as error:
        await house.decide()
    assert error.value.data["reason"] == "store_unavailable"
    async with house.relay.client() as http:
        began = time.monotonic()
        answer = await http.post(
            "/api/sessions/s1/mail", json={"mailId": "m-1", "method": "session/cancel"}
        )
        assert answer.status_code == 503
        assert answer.json()["error"]["reason"] == "store_unavailable"
        assert time.monotonic() - began < LOADED * ANSWER_SECONDS
        assert (await http.get("/readyz")).status_code == 503


async def goes_on(house: House, last: int) -> None:
    """See that what waited is stored, once, and that people can answer again."""
    await house.connector.told("uplink/ack", seq=last)
    assert (await house.decide())["state"] == "recorded"
    stored = await house.relay.relay.log.read("acme", "s1", START, 1000)
    assert [cursor.seq for cursor, _ in stored] == list(range(1, last + 1))
    assert await house.metric("store_up") == 1
    async with house.relay.client() as http:
        assert (await http.get("/readyz")).status_code == 200


# What happens to the store.


async def test_a_redis_out_of_memory_refuses_and_goes_on_when_there_is_room(house, caplog):
    """R27: maxmemory is reached."""
    await house.asked()
    house.server.call("CONFIG", "SET", "maxmemory", "1")
    said = await house.told("degraded")
    assert said["reason"] == "store_down"
    assert "refuses" in said["message"]
    for seq in range(2, 12):
        await house.connector.say(house.connector.update(seq))
    await refused(house)
    assert await house.metric("store_up") == 0
    house.server.call("CONFIG", "SET", "maxmemory", "0")
    await house.told("ok")
    await goes_on(house, 11)
    lines = [r.getMessage() for r in caplog.records if r.name == "bridge.health"]
    warned = [r for r in caplog.records if r.levelno >= logging.WARNING]
    others = [r.getMessage() for r in warned if r.name not in _HEARD]
    assert others == []
    assert len(lines) == 2, lines
    assert "refuses: " in lines[0]
    assert "takes writes again after" in lines[1]
    assert "operations failed meanwhile" in lines[1]


async def test_an_answer_of_a_plain_client_waits_until_there_is_room(house):
    """R27: nothing pending is lost, though no connection broke."""
    async with ClientPeer(house.relay, subject="bob") as client:
        await client.initialize()
        await client.load()
        await house.asked()
        question = await client.question()
        house.server.call("CONFIG", "SET", "maxmemory", "1")
        await house.told("degraded")
        await client.choose(question)
        async with asyncio.timeout(10):
            while await house.metric("store_failures") == 0:
                pass
        house.server.call("CONFIG", "SET", "maxmemory", "0")
        mail = await house.connector.told("uplink/mail")
        assert mail["message"]["params"]["answer"] == {"optionId": "allow"}


async def test_a_redis_that_is_killed_is_told_of_and_missed_by_nobody(house, figure):
    """R03: kill -9, away for a while, back with its file."""
    await house.asked()
    house.server.kill()
    killed_at = time.monotonic()
    said = await house.told("degraded")
    figure(f"R03 redis killed: degraded shown after {time.monotonic() - killed_at:.2f} s")
    assert "does not answer" in said["message"]
    for seq in range(2, 12):
        await house.connector.say(house.connector.update(seq))
    await refused(house)
    status = await house.person.call("_bridge/status", sessionId="s1")
    assert (status["state"], status["reason"]) == ("unknown", "store_down")
    assert status["relay"]["store"]["state"] == "degraded"
    house.server.start()
    await asyncio.to_thread(up, house.server)
    started_at = time.monotonic()
    await house.connector.told("uplink/ack", seq=11)
    figure(f"R03 redis back: acknowledged again after {time.monotonic() - started_at:.2f} s")
    await house.told("ok")
    await goes_on(house, 11)


async def test_a_frozen_redis_gives_clear_errors_in_time_and_no_approval(house, figure):
    """R04: SIGSTOP."""
    await house.asked()
    house.server.kill(signal.SIGSTOP)
    frozen_at = time.monotonic()
    try:
        longest = 0.0
        async with house.relay.client() as http:
            while time.monotonic() - frozen_at < 10:
                began = time.monotonic()
                answers = await asyncio.gather(*(http.get("/api/sessions") for _ in range(8)))
                longest = max(longest, time.monotonic() - began)
                assert {answer.status_code for answer in answers} == {503}
        await house.told("degraded")
        with pytest.raises(Refused) as error:
            await house.decide()
        assert error.value.data["reason"] == "store_unavailable"
    finally:
        house.server.kill(signal.SIGCONT)
    figure(f"R04 redis frozen 10 s: longest of 8 at once {longest:.2f} s; false recorded 0")
    assert longest < LOADED * ANSWER_SECONDS
    assert (await house.decide("d-1"))["state"] == "recorded"
    assert (await house.decide("d-1"))["state"] == "recorded"
    assert house.server.call("XLEN", keys.mail("acme", "a1")) == 1


async def test_a_redis_that_came_back_with_less_is_filled_by_the_connector(house):
    """Its file lost a tail: what had been acknowledged is asked for again."""
    for seq in range(1, 11):
        await house.connector.store(house.connector.update(seq))
    house.server.kill()
    file = next((house.server.folder / "appendonlydir").glob("*.incr.aof"))
    os.truncate(file, file.read_bytes().index(b"part 7"))
    house.server.start()
    asked = await house.connector.told("uplink/ack", resend=True)
    assert asked["seq"] == 6
    seen = len(house.connector.got)
    for seq in range(asked["seq"] + 1, 11):
        await house.connector.say(house.connector.update(seq))
    await house.connector.told("uplink/ack", seq=10, after=seen)
    stored = await house.relay.relay.log.read("acme", "s1", START, 1000)
    assert [cursor.seq for cursor, _ in stored] == list(range(1, 11))


async def test_too_few_replicas_are_a_trouble_as_well(own_redises):
    master, replica = own_redises.replicated(1)
    url = f"redis://127.0.0.1:{master.port}"
    async with housed(master, url, redis_wait_replicas=1) as house:
        await house.asked()
        replica.kill(signal.SIGSTOP)
        said = await house.told("degraded")
        assert "has too few replicas: 0 of 1" in said["message"]
        await house.connector.say(house.connector.update(2))
        await refused(house)
        replica.kill(signal.SIGCONT)
        await house.told("ok")
        await goes_on(house, 2)


async def test_a_broken_connection_is_no_outage(house):
    house.server.call("CLIENT", "KILL", "TYPE", "normal")
    assert (await house.person.call("_bridge/agents"))["agents"]
    await house.relay.relay.health._look()
    assert house.relay.relay.health.outages == 0


async def test_a_new_watcher_is_told_of_a_trouble_that_is_there(house):
    house.server.call("CONFIG", "SET", "maxmemory", "1")
    await house.told("degraded")
    async with ClientPeer(house.relay, subject="late") as late:
        await late.initialize()
        assert (await late.call("_bridge/watch"))["store"]["state"] == "degraded"
    house.server.call("CONFIG", "SET", "maxmemory", "0")
    await house.told("ok")


async def test_a_disk_that_is_full_refuses_and_goes_on_when_there_is_room(house, figure):
    """R27: the append-only file cannot be written to."""
    house.server.call("CONFIG", "SET", "appendfsync", "everysec")  # else it would end itself
    await house.asked()
    acknowledged = await house.connector.told("uplink/ack")
    assert acknowledged["seq"] == 1
    house.server.fill_disk()
    said = await house.told("degraded")
    assert "refuses: " in said["message"]
    assert "AOF" in said["message"]
    for seq in range(2, 12):
        await house.connector.say(house.connector.update(seq))
    await refused(house)
    house.server.free_disk()
    freed_at = time.monotonic()
    await house.connector.told("uplink/ack", seq=11)
    figure(f"R27 disk free again: acknowledged after {time.monotonic() - freed_at:.2f} s; lost 0")
    await house.told("ok")
    await goes_on(house, 11)
    house.server.kill()
    house.server.start()
    await asyncio.to_thread(up, house.server)
    assert house.server.call("XLEN", keys.log("acme", "s1")) == 11


def up(server) -> None:
    until(lambda: server.call("PING"))
