"""Server-sent events: what is held after a cursor, then what comes, each once; or a gap."""

import asyncio
import contextlib
import json

import pytest
from fakes.served import serving

from bridge import keys
from bridge.endpoints.events import EventStream
from bridge.hub import Item
from bridge.protocol import entry
from bridge.protocol.acp import Role
from bridge.protocol.cursor import Cursor

PATH = "/api/sessions/s1/events"


@pytest.fixture
async def served(redis_url):
    async with serving(redis_url) as running:
        yield running


class Reader:
    """An EventSource: it parses events as the HTML standard says."""

    def __init__(self, response) -> None:
        self.response = response
        self._lines = lines_of(response)
        self.last_id = ""

    async def next(self):
        name, data = "message", []
        async with asyncio.timeout(10):
            async for line in self._lines:
                if line == "" and data:
                    return name, json.loads("\n".join(data))
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    data.append(value)
                elif field == "id":
                    self.last_id = value
        return None

    async def entries(self, count):
        found = [await self.next() for _ in range(count)]
        assert [name for name, _ in found] == ["entry"] * count
        return [seq(data) for _, data in found]


async def lines_of(response):
    """Lines end with LF alone here, not wherever Python sees one."""
    rest = b""
    async for chunk in response.aiter_bytes():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


def seq(data):
    return data["params"]["_meta"]["chimera.bridge"]["seq"]


@contextlib.asynccontextmanager
async def reading(client, path=PATH, **headers):
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(response)


async def test_history_comes_first_and_then_what_is_written(served, writer):
    await writer.append(writer.update(1), writer.question(2))
    async with served.client(Role.VIEWER) as client, reading(client) as reader:
        assert await reader.entries(2) == [1, 2]
        await writer.append(writer.update(3), writer.resolved(4))
        assert await reader.entries(2) == [3, 4]
        assert reader.last_id == f"{writer.epoch}:4"


async def test_an_entry_arrives_as_it_was_written(served, writer):
    await writer.append(writer.update(1, text="a\u2028b\r\nc 😀"))
    async with served.client() as client, reading(client) as reader:
        _, data = await reader.next()
    assert data["params"]["update"]["text"] == "a\u2028b\r\nc 😀"


async def test_a_reader_that_comes_back_gets_what_it_missed_and_nothing_twice(served, writer):
    """B15."""
    await writer.append(*[writer.update(n) for n in range(1, 6)])
    async with served.client() as client:
        async with reading(client) as reader:
            await reader.entries(3)
            last = reader.last_id
        assert last == f"{writer.epoch}:3"
        async with reading(client, **{"Last-Event-ID": last}) as reader:
            assert await reader.entries(2) == [4, 5]
        async with reading(client, f"{PATH}?after={writer.epoch}:4") as reader:
            assert await reader.entries(1) == [5]


async def test_every_kind_of_event_comes_again_from_the_same_log(served, writer):
    """B14."""
    kinds = [writer.update(1), writer.question(2), writer.resolved(3)]
    kinds += [writer.question(4, "rt-2", kind="elicitation"), writer.resolved(5, "rt-2")]
    await writer.append(kinds[0])
    async with served.client() as client:
        async with reading(client) as live:
            await writer.append(*kinds[1:])
            first = [await live.next() for _ in kinds]
        last = {"Last-Event-ID": f"{writer.epoch}:1"}
        async with reading(client, **last) as again:
            assert [await again.next() for _ in kinds[1:]] == first[1:]
    assert [data["method"] for _, data in first] == [
        *(entry.UPDATE, entry.PERMISSION, entry.RESOLVED),
        *(entry.ELICITATION, entry.RESOLVED),
    ]


async def test_what_is_no_longer_held_is_said(served, writer):
    """B15."""
    await writer.append(*[writer.update(n) for n in range(1, 6)])
    trimmed = {"minid": f"{writer.epoch}-4", "approximate": False}
    await served.relay.store.commands.xtrim(keys.log("acme", "s1"), **trimmed)
    last = f"{writer.epoch}:1"
    async with served.client() as client, reading(client, **{"Last-Event-ID": last}) as reader:
        name, data = await reader.next()
        assert (name, data["from"]) == ("gap", f"{writer.epoch}:3")
        assert await reader.entries(2) == [4, 5]


async def test_a_live_entry_of_an_uplink_on_this_process_is_sent_once(served, writer):
    await writer.append(writer.update(1))
    async with served.client() as client, reading(client) as reader:
        await reader.entries(1)
        cursor, text, envelope = writer.update(2)
        served.relay.hub.publish("acme", "s1", [Item(cursor, text, envelope)])
        assert await reader.entries(1) == [2]
        await writer.append((cursor, text, envelope), writer.update(3))
        assert await reader.entries(1) == [3]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/api/sessions/s2/events", 404, "not_found"),
        ("/api/sessions/{x}/events", 400, "invalid_params"),
        (f"{PATH}?after=x", 400, "invalid_params"),
    ],
)
async def test_what_cannot_be_streamed_is_refused_before_it_begins(
    served, writer, path, status, reason
):
    await writer.append(writer.update(1))
    async with served.client() as client:
        refused = await client.get(path)
    assert (refused.status_code, refused.json()["error"]["reason"]) == (status, reason)


async def test_another_tenants_session_is_unknown(served, writer):
    await writer.append(writer.update(1))
    async with served.client(tenant="other") as stranger:
        foreign = await stranger.get(PATH)
        unknown = await stranger.get("/api/sessions/s2/events")
    assert foreign.status_code == 404
    assert foreign.text == unknown.text.replace("s2", "s1")


async def test_signing_out_ends_the_stream(served, writer):
    await writer.append(writer.update(1))
    async with served.signed_in() as browser:
        async with reading(browser) as reader:
            await reader.entries(1)
            assert (await browser.post("/api/sign-out")).status_code == 204
            assert await reader.next() is None
        assert (await browser.get(PATH)).status_code == 401


async def test_the_end_of_the_relay_ends_the_stream(served, writer):
    await writer.append(writer.update(1))
    async with served.client() as client, reading(client) as reader:
        await reader.entries(1)
        served.server.should_exit = True
        assert await reader.next() is None


async def test_a_reader_that_left_is_forgotten(served, writer):
    await writer.append(writer.update(1))
    async with served.client() as client, asyncio.timeout(10):
        async with reading(client) as reader:
            await reader.entries(1)
            assert len(served.relay.streams) == 1
        while served.relay.streams:
            await client.get("/healthz")


async def test_more_streams_than_allowed_are_refused(redis_url, writer):
    await writer.append(writer.update(1))
    one = serving(redis_url, max_event_streams=1)
    async with one as served, served.client() as client, reading(client) as reader:
        await reader.entries(1)
        refused = await client.get(PATH)
    assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "overloaded")


async def test_a_long_history_comes_whole(served, writer):
    for start in range(1, 3001, 250):
        await writer.append(*[writer.update(n, text="x" * 600) for n in range(start, start + 250)])
    async with served.client() as client, reading(client) as reader:
        assert await reader.entries(3000) == list(range(1, 3001))


# The buffer itself.


async def test_what_waits_is_counted_until_it_is_taken(writer):
    stream = EventStream()
    cursor, text, envelope = writer.update(1)
    stream.texts("s1", [Item(cursor, text, envelope)])
    assert stream.buffered > len(text)
    stream.gap("s1", Cursor(1, 2), "trimmed")
    stream.end()
    taken = b"".join([chunk async for chunk in stream.chunks()])
    assert stream.buffered == 0
    assert taken.count(b"\n\n") == 2
    assert f"id: {cursor}".encode() in taken
    assert entry.UPDATE.encode() in taken
