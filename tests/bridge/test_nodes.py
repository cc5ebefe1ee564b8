"""Relay processes that are killed, as the others see them."""

import asyncio

import pytest
from fakes.peers import ClientPeer, UplinkPeer
from fakes.processes import RelayProcess

from bridge import keys
from bridge.agents import Agents
from bridge.inbox import Inbox
from bridge.nodes import Nodes
from bridge.protocol.attachment import Reason, State


@pytest.fixture
def nodes(store):
    """What another process, to which nobody is connected, knows of the others."""
    inbox = Inbox(store, "here")
    return Nodes(store, inbox, Agents(store, inbox))


async def attachment(writer):
    return (await writer.agents.get("acme", "a1")).attachment


async def falls_silent(store, node: str) -> None:
    """Let a process's inbox look as if it was last extended ten seconds ago."""
    await store.commands.xadd(keys.inbox(node), {"s": ""})
    await store.commands.pexpire(keys.inbox(node), 50_000)


async def test_a_busy_process_keeps_what_it_holds(store, nodes, redis_url, writer_at):
    async with writer_at(redis_url, node="busy") as writer:
        nodes.note("acme", await writer.agents.get("acme", "a1"))
        await falls_silent(store, "busy")
        await nodes.look()
        assert (await attachment(writer)).state is State.ATTACHED


async def test_what_a_dead_process_held_is_said_to_be_away(store, nodes, redis_url, writer_at):
    """C19."""
    async with writer_at(redis_url, node="dead") as writer:
        held = await writer.agents.get("acme", "a1")
        nodes.note("acme", held)
    await falls_silent(store, "dead")
    await nodes.look()
    away = (await nodes._agents.get("acme", "a1")).attachment
    assert (away.state, away.reason) == (State.DISCONNECTED, Reason.SOCKET_CLOSED)


async def test_a_claim_that_was_made_anew_elsewhere_stays(store, nodes, redis_url, writer_at):
    async with writer_at(redis_url, node="dead") as writer:
        nodes.note("acme", await writer.agents.get("acme", "a1"))
    async with writer_at(redis_url, node="next") as writer:
        await falls_silent(store, "dead")
        await nodes.look()
        assert (await attachment(writer)).state is State.ATTACHED


async def test_after_a_failure_of_the_store_nobody_is_given_up_at_once(
    store, nodes, redis_url, writer_at
):
    async with writer_at(redis_url, node="dead") as writer:
        nodes.note("acme", await writer.agents.get("acme", "a1"))
    await falls_silent(store, "dead")
    store.failures += 1
    await nodes.look()
    assert (await nodes._agents.get("acme", "a1")).attachment.state is State.ATTACHED


async def test_the_others_say_within_seconds_that_a_killed_process_took_a_connector_along(
    tmp_path, redis_url, figure
):
    """C19."""
    loop = asyncio.get_running_loop()
    async with (
        RelayProcess(tmp_path / "one", redis_url) as one,
        RelayProcess(tmp_path / "two", redis_url) as two,
        UplinkPeer(one) as connector,
        ClientPeer(two) as client,
    ):
        await connector.hello("s1")
        await client.initialize()
        await client.call("_bridge/watch")
        one.process.kill()
        began = loop.time()

        def is_away(message):
            agent = message.get("params", {}).get("agent", {})
            return agent.get("attachment", {}).get("state") == "disconnected"

        told = await client.until(is_away)
        figure(f"C19: a killed process is said to be gone {loop.time() - began:.2f} s later")
        assert told["params"]["agent"]["attachment"]["reason"] == "socket_closed"
        await one.process.wait()
