"""The uplinks of a process: how many, and what all of them learn."""

import asyncio

from fakes.peers import UplinkPeer

from bridge.protocol.attachment import Reason
from bridge.protocol.uplink import ACK


async def test_there_are_as_many_as_are_connected(process, connector):
    assert len(process.relay.uplinks) == 1
    async with UplinkPeer(process, "a2", writer="w2") as second:
        await second.hello()
        assert len(process.relay.uplinks) == 2
    async with asyncio.timeout(10):
        while len(process.relay.uplinks) != 1:  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.005)


async def test_all_look_what_the_store_has_when_it_is_back(process, connector):
    async with UplinkPeer(process, "a2", writer="w2") as second:
        await second.hello("s2")
        await connector.store(connector.update(1))
        await second.store(second.update(1, session="s2"), session="s2")
        await process.relay.store.commands.delete(
            *[name async for name in process.relay.store.commands.scan_iter("*:meta:*")]
        )
        process.relay.uplinks.recovered()
        for one in (connector, second):
            assert (await one.told(ACK, resend=True))["seq"] == 0


async def test_all_claims_are_given_back_before_the_process_ends(process, connector):
    await process.relay.uplinks.release()
    found = (await process.relay.agents.get("acme", "a1")).attachment
    assert (found.state, found.reason) == ("disconnected", Reason.RELAY_RESTARTING)
