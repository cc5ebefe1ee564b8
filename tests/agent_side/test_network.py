"""Sleep and another network: the connector comes back at once instead of waiting out its turn."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from fakes.relay import FakeRelay
from fakes.running import Running

from agent_side import link, network, uplink


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(network, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(link, "TICK_SECONDS", 0.01)


async def test_a_machine_that_slept_says_so_and_connects_anew(tmp_path, monkeypatch, caplog):
    """C20."""
    # Between any two looks at it an hour and more went by.
    clock = SimpleNamespace(time=lambda: time.monotonic() * 1e6, monotonic=time.monotonic)
    monkeypatch.setattr(link, "time", clock)
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        await relay.attached(2)
        assert running.connector.ready
        assert "this machine was asleep" in caplog.text


async def test_another_network_ends_the_wait(monkeypatch):
    """C13."""
    seen = iter([("10.0.0.1", "")] * 3 + [("192.168.1.2", "")] * 3)
    monkeypatch.setattr(network, "addresses", lambda: next(seen))
    assert await asyncio.wait_for(network.pause(3600), 20)


async def test_a_network_that_is_gone_is_no_reason_to_try(monkeypatch):
    monkeypatch.setattr(network, "addresses", iter([("10.0.0.1", "")] + [("", "")] * 99).__next__)
    assert not await network.pause(0.05)


async def test_a_connector_whose_network_changed_connects_at_once(tmp_path, monkeypatch):
    """C13."""
    where = [("10.0.0.1", "")]
    monkeypatch.setattr(network, "addresses", lambda: where[0])
    monkeypatch.setattr(uplink.random, "uniform", lambda _low, high: 3600 if high else 0)
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        await relay.attached()
        await relay.stop()
        await running.until(lambda: running.connector.status()["state"] != "attached")
        await relay.start()
        where[0] = ("192.168.1.2", "")
        await relay.attached(2)


def test_this_machine_s_addresses_are_seen_without_sending():
    assert len(network.addresses()) == len(network._ELSEWHERE)
