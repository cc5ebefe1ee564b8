"""A device that is revoked is cut off on every relay process at once (A16)."""

import asyncio
import json
import time

import httpx
import pytest
from fakes.device import FakeDevice
from fakes.site import Site
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bridge import redis as redis_module
from bridge.agents import Agents
from bridge.audit import Audit
from bridge.devices import Devices
from bridge.inbox import Inbox
from bridge.login import Logins
from bridge.protocol.acp import Role
from bridge.protocol.uplink import DeviceCard
from bridge.tokens import Tokens

TENANT = "default"
LONGEST_SECONDS = 1.0  # the bar: 99 of 100 end within it


@pytest.fixture(scope="module")
async def both(tmp_path_factory, redis_server):
    folder = tmp_path_factory.mktemp("revocation")
    keys = folder / "a" / "relay"
    async with (
        Site(folder / "a", redis_url=redis_server) as a,
        Site(folder / "b", redis_url=redis_server, keys=keys) as b,
    ):
        yield a, b


@pytest.fixture
async def store(redis_server):
    opened = redis_module.Store.open(redis_server)
    yield opened
    await opened.aclose()


class Phone:
    """A signed-in phone at a relay, with a websocket and an event stream open."""

    def __init__(self, site: Site, cookie: str) -> None:
        self.site = site
        self.headers = {"cookie": f"bridge_local={cookie}", "origin": site.url}

    async def open(self, session: str):
        """Open both; gives what ends when each is cut, with the time of that."""
        socket = await connect(self.site.acp, additional_headers=self.headers, compression=None)
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        await socket.send(json.dumps(hello))
        await socket.recv()
        reading = asyncio.Event()
        ends = (
            asyncio.create_task(self._until_closed(socket)),
            asyncio.create_task(self._until_silent(session, reading)),
        )
        await asyncio.wait_for(reading.wait(), 20)
        return ends

    @staticmethod
    async def _until_closed(socket):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as closed:
            return time.monotonic(), closed.rcvd.code

    async def _until_silent(self, session, reading):
        url = f"{self.site.url}/api/sessions/{session}/events"
        async with (
            httpx.AsyncClient(trust_env=False, timeout=30) as http,
            http.stream("GET", url, headers=self.headers) as response,
        ):
            assert response.status_code == 200
            async for _ in response.aiter_bytes():
                reading.set()
        return time.monotonic(), response.status_code


class Owner:
    """Whoever lets phones in and shuts them out, at one relay process."""

    def __init__(self, store, keys, http) -> None:
        inbox = Inbox(store, "test")
        self.logins, self.http = Logins(store), http
        audit = Audit(store, Tokens(keys))
        self.devices = Devices(store, inbox, Agents(store, inbox), self.logins, audit)

    async def let_in(self, site):
        """Sign a phone in, paired."""
        link = await self.logins.make_link(tenant=TENANT, subject="alice", role=Role.OPERATOR)
        secret, identity = await self.logins.sign_in(link, "Pixel")
        device = FakeDevice()
        card = DeviceCard(device.id, device.key, device.name, "alice")
        await self.devices.paired(TENANT, card, identity.token_id)
        return Phone(site, secret), device

    async def revoked(self, _phone, device):
        assert (await self.http.delete(f"/api/devices/{device.id}")).status_code == 204

    async def signed_out(self, phone, _device):
        headers = {**phone.headers, "origin": str(self.http.base_url).rstrip("/")}
        async with httpx.AsyncClient(base_url=self.http.base_url, headers=headers) as browser:
            assert (await browser.post("/api/sign-out")).status_code == 204


@pytest.mark.attack("S12", "a device is revoked, or signed out, at another relay process")
@pytest.mark.parametrize("end", [Owner.revoked, Owner.signed_out])
async def test_who_is_shut_out_is_cut_off_at_another_relay_within_a_second(
    both, store, *, figure, attack_length, end
):
    """E08: from the call to the last byte of an open websocket and an open event stream."""
    a, b = both
    bearer = {"authorization": f"Bearer {await a.token()}"}
    took = []
    async with (
        await a.uplink("box") as uplink,
        httpx.AsyncClient(base_url=a.url, headers=bearer, trust_env=False) as http,
    ):
        await uplink.hello(session := f"s-{end.__name__}")
        owner = Owner(store, a.folder / "relay", http)
        for _ in range(attack_length(5, 100)):
            phone, device = await owner.let_in(b)
            ends = await phone.open(session)
            begun = time.monotonic()
            await end(owner, phone, device)
            (closed, code), (silent, _) = await asyncio.wait_for(asyncio.gather(*ends), 20)
            assert code == 4401
            took += [closed - begun, silent - begun]
            async with httpx.AsyncClient(base_url=b.url, trust_env=False) as again:
                assert (await again.get("/api/me", headers=phone.headers)).status_code == 401
    took.sort()
    worst = took[int(len(took) * 0.99)]
    figure(f"{len(took)} connections {end.__name__}, p99 {worst * 1000:.0f} ms")
    assert worst <= LONGEST_SECONDS
