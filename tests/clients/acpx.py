"""Runs acpx, a command line client of other makers, and checks what it and we say."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clients.packages import node
from schema.check import check_agent_message, check_client_message

DENIED = 5  # its exit code when everything that was asked for was denied
WAIT_SECONDS = 60
CLIENT_SAYS = frozenset(
    f"session/{name}" for name in ("new", "load", "resume", "prompt", "cancel")
) | {"initialize"}


async def run_acpx(
    modules: Path, agent: Sequence[str], *arguments: str, cwd: Path, env: dict[str, str]
) -> tuple[int | None, list[dict[str, Any]]]:
    """Run it with an agent's command; give its exit code and the messages it printed."""
    process = await asyncio.create_subprocess_exec(
        node(),
        str(modules / "acpx" / "dist" / "cli.js"),
        *("--agent", shlex.join(agent), "--format", "json"),
        *arguments,
        cwd=cwd,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), WAIT_SECONDS)
    assert out, err.decode()
    return process.returncode, [json.loads(line) for line in out.splitlines()]


def check_conversation(messages: list[dict[str, Any]]) -> None:
    """Check every message of both sides against the official schema."""
    asked: dict[Any, str] = {}
    for message in messages:
        from_client = message.get("method") in CLIENT_SAYS or "outcome" in message.get("result", {})
        check = check_client_message if from_client else check_agent_message
        if "method" in message:
            asked[message.get("id")] = message["method"]
            check(message)
        else:
            check(message, answers=asked[message["id"]])
