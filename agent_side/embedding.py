"""A connector inside another program: ``agent_side.serve``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent_side.agents.catalog import command_for
from agent_side.connect import connector_state, sandboxed
from agent_side.connector import Connector
from agent_side.faults import ExitReason
from agent_side.settings import ConnectorSettings, RelayTarget


class NotServed(Exception):
    """The connector ended before it was ready; ``reason`` has its exit code and a sentence."""

    def __init__(self, reason: ExitReason) -> None:
        """Keep the reason."""
        super().__init__(reason.sentence)
        self.reason = reason


@asynccontextmanager
async def serve(
    agent: str | Sequence[str],
    *,
    relay: RelayTarget | str | None = None,
    token: str = "",
    name: str = "embedded",
    cwd: Path | None = None,
    state_dir: Path | None = None,
    **limits: Any,
) -> AsyncIterator[Connector]:
    """Run a connector while the block runs: an agent of the catalogue by name, or by its command.

    Gives the connector, ready for sessions and doors; ``limits`` are further ConnectorSettings.
    Raises NotServed when the agent does not start or the name is taken, SettingsError, and what
    ``command_for`` raises.
    """
    folder = cwd or Path.cwd()
    named, argv = (agent, ()) if isinstance(agent, str) else (None, agent)
    settings = ConnectorSettings(name, folder, state_dir or connector_state(), **limits)
    command = sandboxed(command_for(named, argv, folder, os.environ), settings)
    target = RelayTarget(relay, token) if isinstance(relay, str) else relay
    connector = Connector(settings, command, relay=target)
    running = asyncio.create_task(connector.run())
    try:
        await connector.ready()
        if connector.has_ended:
            raise NotServed(await running)
        yield connector
    finally:
        connector.stop("the program that embeds it is done")
        await running
