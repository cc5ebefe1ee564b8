"""The whole thing on one machine: a real relay, a real connector, the demo agent."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from agent_side import lan
from agent_side import up as whole
from agent_side.relay_child import RelayChild, relay_environment

UP = (sys.executable, "-m", "agent_side.cli", "up")
WAIT_SECONDS = 40.0
LINK = re.compile(r"(https?://\S+)/#signin=([^\s&]+)")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Running:
    """An ``up`` in a state folder of its own, and what it printed."""

    def __init__(self, state, port, *flags):
        self.state, self.port, self.flags = state, port, flags
        self.lines = []
        self.changed = asyncio.Condition()

    async def __aenter__(self):
        quiet = {k: v for k, v in os.environ.items() if not k.startswith(("BRIDGE_", "CHIMERA_"))}
        self.process = await asyncio.create_subprocess_exec(
            *UP,
            *("--agent", "demo", "--port", str(self.port)),
            *self.flags,
            env={**quiet, "XDG_STATE_HOME": str(self.state), "CHIMERA_DEMO_PACE_MS": "0"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.reading = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
        self.code = await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        await self.reading

    async def read(self):
        while line := await self.process.stdout.readline():
            async with self.changed:
                self.lines.append(line.decode().rstrip())
                self.changed.notify_all()

    async def until(self, words, times=1):
        def found():
            return [line for line in self.lines if words in line]

        async with self.changed:
            waiting = self.changed.wait_for(lambda: len(found()) >= times)
            try:
                await asyncio.wait_for(waiting, WAIT_SECONDS)
            except TimeoutError:
                pytest.fail(f"it never said {words!r}: {self.lines}")
        return found()[times - 1]

    async def ended(self):
        code = await asyncio.wait_for(self.process.wait(), WAIT_SECONDS)
        await self.reading
        return code

    def family(self):
        """All processes it started, and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def relay(self):
        """The relay's own process, not the guard before it."""
        serving = [p for p in self.family() if p.cmdline()[-1] == "serve"]
        return next(p for p in serving if not any("guard.py" in word for word in p.cmdline()))

    @contextlib.asynccontextmanager
    async def signed_in(self):
        """Sign a browser in by the link; gives its client."""
        url, secret = LINK.search(await self.until("#signin=")).groups()
        async with httpx.AsyncClient(base_url=url, headers={"Origin": url}) as browser:
            (await browser.post("/api/sign-in", json={"secret": secret})).raise_for_status()
            yield browser


@pytest.fixture
def up(tmp_path):
    state, port = tmp_path / "state", free_port()
    return lambda *flags: Running(state, port, *flags)


def is_a_folder_elsewhere(folder):
    return Path(folder).is_dir() and not Path(folder).is_relative_to(Path.cwd())


async def all_gone(processes):
    _, alive = await asyncio.to_thread(psutil.wait_procs, processes, WAIT_SECONDS)
    assert alive == []


async def test_it_prints_a_link_that_signs_in_and_the_agent_is_there(up):
    async with up() as running:
        await running.until("attached to")
        async with running.signed_in() as browser:
            agents = (await browser.get("/api/agents")).json()["agents"]
            me = (await browser.get("/api/me")).json()
        assert [agent["attachment"]["state"] for agent in agents] == ["attached"]
        assert me["role"] == "admin"
        assert not [line for line in running.lines if "█" in line]  # no phone reaches 127.0.0.1
        assert await running.until("--lan")


async def test_the_demo_works_in_a_folder_of_its_own_that_is_kept(up, tmp_path):
    async with up() as running:
        first = await running.until("works in")
        await running.until("attached to")
    async with up() as running:
        assert await running.until("works in") == first
    assert is_a_folder_elsewhere(first.split("works in ")[1])


async def test_ctrl_c_ends_everything_in_order(up):
    async with up() as running:
        await running.until("attached to")
        family = running.family()
    assert running.code == 0
    await all_gone(family)


async def test_kill_9_leaves_nothing_behind(up):
    async with up() as running:
        await running.until("attached to")
        family = running.family()
        running.process.kill()
        await running.ended()
        await all_gone(family)


async def test_a_second_one_prints_a_link_to_the_first(up):
    async with up() as first:
        await first.until("attached to")
        async with up() as second:
            assert await second.ended() == 0
            async with second.signed_in() as browser:
                assert (await browser.get("/api/me")).status_code == 200
        assert f"process {first.process.pid}" in second.lines[0]


async def test_a_busy_port_is_named_with_who_has_it(up):
    running = up()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", running.port))
        taken.listen()
        async with running:
            assert await running.ended() == 1
    assert f"port {running.port} of 127.0.0.1 is in use" in running.lines[-1]
    assert f"process {os.getpid()} (" in running.lines[-1]
    assert "--port" in running.lines[-1]


async def test_a_relay_that_dies_is_started_again_and_the_agent_attaches(up):
    async with up() as running:
        await running.until("attached to")
        async with running.signed_in() as browser:
            running.relay().kill()
            await running.until("the relay ended")
            await running.until("attached to", times=2)
            agents = (await browser.get("/api/agents")).json()["agents"]  # still signed in
        assert [agent["attachment"]["state"] for agent in agents] == ["attached"]


async def test_after_a_restart_it_goes_on_where_it_was(up):
    async with up() as running:
        await running.until("attached to")
        async with running.signed_in() as browser:
            before = (await browser.get("/api/agents")).json()["agents"][0]["id"]
    async with up() as running:
        await running.until("attached to")
        async with running.signed_in() as browser:
            after = (await browser.get("/api/agents")).json()["agents"]
    assert [agent["id"] for agent in after] == [before]


async def test_an_agent_that_is_not_installed_is_five(up):
    async with up("--agent", "gemini", "--", "no-such-gemini") as running:
        assert await running.ended() == 5
    assert "no-such-gemini is not installed" in running.lines[-1]


async def test_lan_serves_tls_with_a_code_and_a_fingerprint_for_phones(up, tmp_path):
    try:
        address = lan.lan_address()
    except lan.NoNetwork:
        async with up("--lan") as running:
            assert await running.ended() == 1
        assert "on no network" in running.lines[-1]
        return
    async with up("--lan") as running:
        await running.until("attached to")
        url, secret = LINK.search(await running.until("#signin=")).groups()
        made = lan.certificate_for(address, tmp_path / "state" / "chimera-bridge" / "tls")
        trusting = ssl.create_default_context(cafile=made.authority)
        async with httpx.AsyncClient(verify=trusting) as phone:
            # As the page does it, with the page's own origin.
            given = {"json": {"secret": secret}, "headers": {"Origin": url}}
            assert (await phone.post(f"{url}/api/sign-in", **given)).status_code == 200
            assert (await phone.get(f"{url}/api/me")).json()["role"] == "admin"
        assert url == f"https://{address}:{running.port}"
        assert [line for line in running.lines if "█" in line]
        assert made.fingerprint in running.lines
        assert "&pair=" in await running.until("#signin=")  # no device was ever paired here


async def test_the_note_of_a_dead_one_does_not_mislead(up, tmp_path):
    note = tmp_path / "state" / "chimera-bridge" / "up.json"
    note.parent.mkdir(parents=True)
    note.write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": 1}))
    async with up() as running:
        assert str(running.port) in await running.until("#signin=")


class Counting(RelayChild):
    """Counts what it was asked."""

    asked = 0

    async def ask(self, *arguments):
        self.asked += 1
        return await super().ask(*arguments)


async def test_a_token_that_could_not_be_renewed_is_renewed_soon(monkeypatch, tmp_path):
    """B22."""
    assert whole.TOKEN_RETRY_SECONDS < 30
    monkeypatch.setattr(whole, "TOKEN_SECONDS", 0.0)
    monkeypatch.setattr(whole, "TOKEN_RETRY_SECONDS", 0.05)
    relay = Counting(relay_environment(tmp_path / "relay", "127.0.0.1", 0), print)
    token = tmp_path / "later" / "agent-token"
    renewing = asyncio.create_task(whole._keep_token_fresh(relay, token))
    async with asyncio.timeout(WAIT_SECONDS):
        while not token.exists():
            await asyncio.sleep(0.02)
            monkeypatch.setattr(whole, "TOKEN_SECONDS", 3600.0)
            if relay.asked > 1:  # the first one could be written nowhere
                token.parent.mkdir(exist_ok=True)
    renewing.cancel()
    assert token.read_text().count(".") == 2
