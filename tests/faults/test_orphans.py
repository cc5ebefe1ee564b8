"""Connectors killed at random moments while their agents work: nothing of an agent stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

from fakes.agent import FakeAgent
from fakes.relay import FakeRelay

MARK = "CHIMERA_BRIDGE_TEST_ORPHAN"
GONE_WITHIN_SECONDS = 10
# The agent is a launcher: its workers must go with it.
LAUNCHER = """
import os, subprocess, sys
subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
subprocess.Popen(["sh", "-c", "trap '' TERM HUP; sleep 600"], stdin=subprocess.DEVNULL)
os.execv(sys.argv[1], sys.argv[1:])
"""


async def test_no_agent_outlives_a_connector_that_is_killed_at_random(tmp_path, length, row):
    """F01: no orphans accumulate."""
    kills, slowest = length(10, 100), 0.0
    chance = random.Random(1)
    async with FakeRelay() as relay:
        for number in range(kills):
            folder = tmp_path / str(number)
            process = await connect(folder, relay)
            await relay.attached(number + 1)
            session = await relay.new_session(folder)
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
            relay.send_mail("session/prompt", prompt, f"m-{number}")
            await relay.until(lambda: relay.texts(session))  # noqa: B023
            await asyncio.sleep(chance.random() * 0.05)  # the moment is what is random
            process.send_signal(signal.SIGKILL)
            await process.wait()
            slowest = max(slowest, await gone(str(folder)))
    row(
        "F01",
        f"kill -9 of a connector whose agent works, {kills} times",
        lost=0,
        orphans=0,
        recover=f"{slowest:.2f} s",
    )


async def gone(mark: str) -> float:
    """Wait until no process carries a mark; gives how long that took."""
    began = time.monotonic()
    while left := marked(mark):
        assert time.monotonic() - began < GONE_WITHIN_SECONDS, left
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def marked(mark: str) -> list[str]:
    """Give the living processes that have a mark in their environment."""
    wanted, found = f"{MARK}={mark}\0".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted in (place / "environ").read_bytes() + b"\0":
                found.append((place / "cmdline").read_text().replace("\0", " "))
    return found


async def connect(folder: Path, relay: FakeRelay) -> asyncio.subprocess.Process:
    """Start the connector's own command line in front of a launcher of an agent."""
    chunks = {"chunks": 1000, "text": "{i} ", "every": 0.01}
    agent = FakeAgent(folder / "agent", turns=[[chunks]])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent_side.cli", "connect", "--relay", relay.url),
        *("--name", "orphans", "--cwd", str(folder), "--snapshot-mb", "0"),
        *("--", sys.executable, "-I", "-S", "-c", LAUNCHER, *agent.argv),
        env={
            **os.environ,
            MARK: str(folder),
            "CHIMERA_BRIDGE_STATE_DIR": str(folder / "state"),
            "FERRET_BRIDGE_TOKEN": "good",
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
