"""Runs a connector as a process of its own: signals, its doors, and what it says to people."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_side.agents.process import AgentCommand
from agent_side.connector import Connector, ExitReason
from agent_side.console import Console, watch_terminal
from agent_side.doors.gate import HttpPlace
from agent_side.doors.lines import take_stdio
from agent_side.doors.stdio import serve_lines
from agent_side.doors.visible import one_line, visible
from agent_side.sandbox import Mode, choose
from agent_side.settings import ConnectorSettings, RelayTarget
from agent_side.visitors import visit

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # by name: Windows has no SIGHUP


@dataclass(frozen=True)
class Doors:
    """Which local doors a connector opens."""

    stdio: bool = False  # an editor on standard input and output
    stay: bool = False  # go on when the editor leaves
    http: HttpPlace | None = None  # programs over HTTP


async def run_connector(
    settings: ConnectorSettings, command: AgentCommand, relay: RelayTarget | None, doors: Doors
) -> ExitReason:
    """Run a connector until it ends, or until a signal or its editor ends it."""
    lines = take_stdio() if doors.stdio else None  # before anything may print
    served = await visit(settings.folder, lines)
    if served is not None:
        return served
    connector = Connector(settings, command, relay=relay)
    running = asyncio.create_task(connector.run())
    readying = asyncio.create_task(connector.ready())

    def stop(reason: str) -> None:
        connector.stop(reason)
        if not readying.done():  # the agent is still starting, which may take a minute
            running.cancel()

    async def serve_editor() -> None:
        if lines is not None:
            await serve_lines(connector, lines)
            if not doors.stay:
                await connector.visitors.all_left()
                stop("the editor left")

    editor = asyncio.create_task(serve_editor())
    programs = asyncio.create_task(_serve_programs(connector, running, doors.http))
    try:
        with stopped_by_signals(stop):
            show_console(connector, asks=lines is None and has_terminal())
            return await running
    except asyncio.CancelledError:
        return ExitReason(0, "stopped")
    finally:
        for task in (readying, editor, programs):
            task.cancel()
        await asyncio.gather(readying, editor, programs, return_exceptions=True)


def sandboxed(command: AgentCommand, settings: ConnectorSettings) -> AgentCommand:
    """Give the agent's command as it runs in the sandbox that its owner chose, and say so."""
    mode = Mode(settings.sandbox)
    chosen = choose(
        mode,
        (*settings.allowed_roots, command.cwd),
        kept=[path.expanduser() for path in command.state],
        hidden=[settings.state_dir],
        path=command.env.get("PATH"),
    )
    if mode is not Mode.OFF and not chosen.state.enforced:
        logging.getLogger(__name__).warning(
            "the sandbox %s is not enforced: %s; only what the agent asks for is refused",
            mode,
            chosen.state.why,
        )
    return dataclasses.replace(command, sandbox=chosen)


async def _serve_programs(
    connector: Connector, running: asyncio.Task[ExitReason], place: HttpPlace | None
) -> None:
    await connector.ready()
    if place is None or running.done():
        return
    from agent_side.doors.http import serve_http  # a web server: only where it is asked for

    try:
        await serve_http(connector, place, _say_address)
    except OSError as error:
        connector.fail(f"{place.url} cannot be served: {error.strerror}")


def _say_address(url: str) -> None:
    print(f"serving programs at {url}", file=sys.stderr, flush=True)  # noqa: T201


def has_terminal() -> bool:
    """Whether a person can read and type here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show_console(connector: Connector, *, asks: bool) -> Console:
    """Open the terminal's door: on standard output where a person can answer, else on stderr."""
    out = sys.stdout if asks else sys.stderr
    console = Console(connector, lambda line: print(line, file=out, flush=True), asks=asks)
    connector.open_door(console)
    console.status_changed()
    if asks:
        watch_terminal(console)
    return console


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Have the signals that end a process end it in order."""
    loop = asyncio.get_running_loop()
    known = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    for number in known:
        loop.add_signal_handler(number, stop, f"ended by {number.name}")
    try:
        yield
    finally:
        for number in known:
            loop.remove_signal_handler(number)


def state_home() -> Path:
    """Give the folder of everything that must outlive a process."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "chimera-bridge"


def connector_state() -> Path:
    """Give the folder of the connectors' state."""
    chosen = os.environ.get("CHIMERA_BRIDGE_STATE_DIR")
    return Path(chosen) if chosen else state_home() / "connector"


def say_warnings() -> None:
    """Write what goes wrong inside to standard error, one line each."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


class _Lines(logging.Formatter):
    """Lines for a terminal, which what a relay or an agent says cannot move or forge."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return f"chimera-bridge: {one_line(record.message)}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 (the same)
        return visible(super().formatException(ei))
