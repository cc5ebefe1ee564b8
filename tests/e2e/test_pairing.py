"""Pairing end to end: the command, a connector that runs, a relay, a device on HTTP."""

import asyncio
import base64
import json
import os
import re
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import httpx
import pytest
from fakes.device import FakeDevice
from fakes.site import BRIDGE

from agent_side.devices import Devices
from bridge.protocol import pairing


class Command:
    """``chimera-bridge pair`` with a person at it."""

    def __init__(self, process):
        self.process = process
        self.lines = []

    @classmethod
    async def start(cls, env):
        return cls(
            await asyncio.create_subprocess_exec(
                *BRIDGE, "pair", env=env, stdin=PIPE, stdout=PIPE, stderr=sys.stderr
            )
        )

    async def said(self, pattern):
        """Read on to a line that matches."""
        async with asyncio.timeout(20):
            while line := (await self.process.stdout.readline()).decode():
                self.lines.append(line)
                if found := re.search(pattern, line):
                    return found
        raise AssertionError(f"it ended without {pattern}: {self.lines}")

    async def type(self, text):
        self.process.stdin.write(f"{text}\n".encode())
        await self.process.stdin.drain()

    async def end(self):
        async with asyncio.timeout(20):
            return await self.process.wait()


class Phone(FakeDevice):
    """A device at the relay's HTTP door."""

    def __init__(self, site, token, **who):
        super().__init__(**who)
        self.http = httpx.AsyncClient(
            base_url=site.url, headers={"authorization": f"Bearer {token}"}, trust_env=False
        )

    async def post(self, path, **body):
        return await self.http.post(f"/api/pairings/{path}", json=body)

    async def pair(self, code, secret=None):
        """Look at the offer, answer it; gives offer and answer."""
        offer = (await self.post("look", code=code)).json()["offer"]
        answer, proof = self.answer(offer, secret)
        done = await self.post("answer", code=code, answer=answer, proof=proof)
        assert done.status_code == 202, done.text
        return offer, answer

    async def outcome(self, code, *steps):
        """Wait for one of these steps."""
        async with asyncio.timeout(20):
            while True:
                found = (await self.post("outcome", code=code)).json()
                if found["step"] in steps:
                    return found
                await asyncio.sleep(0.05)


@pytest.fixture
async def at(own_stage):
    stage = await own_stage()
    await stage.site.token()
    return stage


def devices(stage):
    return Devices(Path(stage.site.env["CHIMERA_BRIDGE_STATE_DIR"]))


@pytest.fixture
async def phone(at):
    one = Phone(at.site, await at.site.token())
    yield one
    await one.http.aclose()


async def until(so):
    """Wait for something to hold, of which nothing tells."""
    async with asyncio.timeout(20):
        while not await so():  # noqa: ASYNC110 (as the docstring says)
            await asyncio.sleep(0.02)


async def test_who_scans_the_code_is_paired_and_both_sides_have_proof(at, phone):
    command = await Command.start(at.site.env)
    code, text = (await command.said(r"#pair=([A-Z0-9]{6})\.([\w-]+)")).groups()
    secret = base64.urlsafe_b64decode(text + "==")
    offer, answer = await phone.pair(code, secret)
    shown = json.loads(offer)
    assert shown["folder"] == str(at.site.work)
    assert shown["relay"] == at.site.url
    done = await phone.outcome(code, "paired")
    assert done["mac"] == pairing.mac(secret, "paired", offer, answer)
    fingerprint = (await command.said(r"fingerprint ([a-z-]+)"))[1]
    assert await command.end() == 0
    [device] = devices(at).all()
    assert (device.id, device.fingerprint) == (phone.id, fingerprint)
    listed = (await phone.http.get("/api/devices")).json()["devices"]
    assert [one["fingerprint"] for one in listed] == [fingerprint]


@pytest.mark.parametrize(("typed", "paired"), [("yes", True), ("no", False)])
async def test_without_a_camera_words_are_compared(at, phone, typed, paired):
    command = await Command.start(at.site.env)
    code = (await command.said(r"type the code ([A-Z0-9-]{7})"))[1]
    offer, answer = await phone.pair(code)
    number = (await phone.outcome(code, "comparing"))["number"]
    words = (await command.said(r"^    ([a-z]+-[a-z]+-[a-z]+)$"))[1]
    assert words == pairing.comparison(offer, answer, number)
    await command.type(typed)
    step = "paired" if paired else "refused"
    assert (await phone.outcome(code, "paired", "refused"))["step"] == step
    assert await command.end() == (0 if paired else 1)
    assert len(devices(at).all()) == paired


async def test_a_pairing_ends_with_its_command(at, phone):
    command = await Command.start(at.site.env)
    code = (await command.said(r"type the code ([A-Z0-9-]{7})"))[1]
    command.process.terminate()
    await command.end()

    async def gone():
        return (await phone.post("look", code=code)).status_code == 404

    await until(gone)
    assert devices(at).all() == ()


async def test_a_swapped_key_is_refused(at, phone):
    """S: the relay swaps the key in a pairing by QR code."""
    command = await Command.start(at.site.env)
    code, _ = (await command.said(r"#pair=([A-Z0-9]{6})\.([\w-]+)")).groups()
    evil = phone
    offer = (await evil.post("look", code=code)).json()["offer"]
    answer, proof = evil.answer(offer, os.urandom(16))
    await evil.post("answer", code=code, answer=answer, proof=proof)
    assert (await evil.outcome(code, "paired", "refused"))["step"] == "refused"
    assert await command.end() == 1
    assert devices(at).all() == ()


async def test_revoking_at_the_relay_has_the_machine_forget_the_key(at, phone):
    devices(at).pin(key=phone.key, name="pixel", subject="alice")

    async def known():
        return (await phone.http.get("/api/devices")).json()["devices"]

    async def forgotten():
        return not devices(at).all()

    await until(known)
    assert (await phone.http.delete(f"/api/devices/{phone.id}")).status_code == 204
    await until(forgotten)
    assert devices(at).required


async def test_the_commands_list_and_forget_devices(at):
    phone = FakeDevice()
    pinned = devices(at).pin(key=phone.key, name="pixel", subject="alice")

    async def run(*words):
        process = await asyncio.create_subprocess_exec(
            *BRIDGE, "devices", *words, env=at.site.env, stdout=PIPE, stderr=PIPE
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    assert await run("list") == (0, f"{pinned.fingerprint}  pixel  of alice\n")
    code, said = await run("revoke", pinned.fingerprint)
    assert code == 0
    assert "forgotten: pixel" in said
    assert (await run("revoke", "pixel"))[0] == 2
    assert devices(at).all() == ()
