import asyncio
import os
import signal

import pytest
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as TooLate

from bridge.line import LineClient


def client_for(url: str, *, retries: int = 2, read_seconds: float = 2.0) -> LineClient:
    pool = BlockingConnectionPool.from_url(
        url, protocol=2, socket_timeout=read_seconds, retry=Retry(NoBackoff(), retries)
    )
    return LineClient(connection_pool=pool)


@pytest.fixture
async def client(redis_url):
    one = client_for(redis_url)
    yield one
    await one.aclose()


async def ids_of_connections(client: LineClient) -> set[int]:
    return {int(one["id"]) for one in await client.client_list()}


async def test_calls_of_one_moment_share_a_connection_and_get_their_own_replies(client):
    ids = await asyncio.gather(*(client.client_id() for _ in range(50)))
    replies = await asyncio.gather(*(client.echo(str(n)) for n in range(500)))
    assert len(set(ids)) == 1
    assert replies == [str(n).encode() for n in range(500)]


async def test_a_pipeline_stays_together_among_other_calls(client):
    async def count() -> list[int]:
        pipe = client.pipeline(transaction=False)
        for _ in range(10):
            pipe.incr("n")
        return await pipe.execute()

    counts = await asyncio.gather(*(count() for _ in range(20)))
    assert all(one == list(range(one[0], one[0] + 10)) for one in counts)


async def test_an_error_of_redis_reaches_only_its_caller(client):
    pipe = client.pipeline(transaction=False)
    pipe.set("a", "x").incr("a").get("a")
    found, other = await asyncio.gather(pipe.execute(raise_on_error=False), client.ping())
    assert isinstance(found[1], ResponseError)
    assert (found[0], found[2], other) == (True, b"x", True)
    with pytest.raises(ResponseError):
        await client.incr("a")


async def test_a_pipeline_raises_its_first_error(client):
    await client.set("a", "x")
    with pytest.raises(ResponseError, match="Command # 2"):
        await client.pipeline(transaction=False).get("a").incr("a").execute()


async def test_a_command_of_two_words_is_sent_as_two(client):
    assert await client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


async def test_a_caller_that_goes_away_leaves_its_reply_to_nobody(client):
    await client.ping()
    leaving = asyncio.create_task(client.echo("nobody's"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await client.echo("mine") == b"mine"


async def test_a_call_whose_connection_is_lost_is_sent_again(client, redis_url):
    killer = client_for(redis_url)
    first = await client.client_id()
    waiting = asyncio.create_task(client.blpop(["nothing"], timeout=1))
    await asyncio.sleep(0)  # it is sent
    await killer.client_kill_filter(_id=first)
    assert await waiting is None
    assert await client.client_id() != first
    await killer.aclose()


async def test_without_retries_a_lost_connection_is_told_to_all_who_wait(redis_url):
    client, killer = client_for(redis_url, retries=0), client_for(redis_url)
    id_ = await client.client_id()
    waiting = asyncio.gather(
        client.blpop(["nothing"], timeout=5), client.ping(), return_exceptions=True
    )
    await asyncio.sleep(0)
    await killer.client_kill_filter(_id=id_)
    assert [type(one) for one in await waiting] == [Lost, Lost]
    assert await client.ping()
    await asyncio.gather(client.aclose(), killer.aclose())


async def test_a_redis_that_stops_answering_is_told_in_time(own_server):
    client = client_for(own_server.start(), retries=0, read_seconds=0.2)
    await client.ping()
    assert own_server.pid is not None
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TooLate):
            await client.ping()
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    assert await client.ping()
    await client.aclose()


async def test_a_master_that_became_a_replica_is_left(own_server):
    client = client_for(own_server.start())
    first = await client.client_id()
    await client.execute_command("REPLICAOF", "127.0.0.1", "1")
    with pytest.raises(ResponseError, match="read only"):
        await client.set("a", 1)
    assert await client.client_id() != first
    await client.aclose()


async def test_a_closed_client_leaves_no_connection(client, redis_url):
    gone = client_for(redis_url)
    id_ = await gone.client_id()
    await gone.aclose()
    while id_ in await ids_of_connections(client):
        pass
