"""``chimera-bridge up``: a relay, a connector and an agent on this machine, and how to sign in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agent_side import lan
from agent_side.agents.catalog import AgentNotInstalled, AgentUnknown, command_for, default_agent
from agent_side.agents.launcher import CommandRefused
from agent_side.agents.process import AgentCommand
from agent_side.connect import (
    connector_state,
    has_terminal,
    sandboxed,
    say_warnings,
    show_console,
    state_home,
    stopped_by_signals,
)
from agent_side.connector import AGENT_DOES_NOT_START, Connector, ExitReason, local_origin
from agent_side.doors.visible import one_line
from agent_side.faults import FAULT
from agent_side.folder import PRIVATE
from agent_side.pairing import Place as Joins
from agent_side.port_holder import holder_of
from agent_side.qr import qr_code
from agent_side.redaction import Redaction
from agent_side.relay_child import RelayChild, RelayDown, relay_environment
from agent_side.settings import ConnectorSettings, RelayTarget, SettingsError
from bridge.protocol.pairing import Invitation, Step, device_of
from bridge.protocol.signing import fingerprint

WRONG_USE = 2
LOOPBACK = "127.0.0.1"
DEMO = "demo"
TOKEN_SECONDS = 24 * 3600.0  # between renewals; a token lives 30 days
TOKEN_RETRY_SECONDS = 15.0  # after one that failed
DEMO_NOTE = "demo-folder"


@dataclass(frozen=True)
class _Place:
    """Where the relay is served."""

    host: str
    port: int
    certificate: lan.Certificate | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self.certificate else 'http'}://{self.host}:{self.port}"


@dataclass(frozen=True)
class Up:
    """What the command line asked for."""

    agent: str | None = None
    command: Sequence[str] = ()
    passed: Sequence[str] = ()  # secrets of the environment that the agent may see
    lan: bool = False
    port: int = 8787
    cwd: Path | None = None
    signed: str = "auto"
    redaction: Redaction = field(default_factory=Redaction)
    limits: Mapping[str, Any] = field(default_factory=dict)  # the owner's, as settings name them

    async def run(self) -> ExitReason:
        """Run everything until a signal ends it; the second one on a machine shows the first."""
        home = state_home()
        home.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        with _only_one(home) as mine:
            if not mine:
                return await _show_first(home)
            try:
                return await self._serve(home)
            except (AgentUnknown, AgentNotInstalled, CommandRefused, SettingsError) as error:
                code = AGENT_DOES_NOT_START if isinstance(error, AgentNotInstalled) else WRONG_USE
                return ExitReason(code, str(error))
            except (RelayDown, lan.NoNetwork, OSError) as error:
                return ExitReason(FAULT, str(error))

    async def _serve(self, home: Path) -> ExitReason:
        command = self._agent_command(home)
        place = self._place(home)
        _check_free(place)
        say_warnings()
        relay = RelayChild(_environment(home, place), _say)
        stopping = asyncio.Event()
        with stopped_by_signals(lambda _: stopping.set()):
            started = asyncio.create_task(relay.start())
            stopped = asyncio.create_task(stopping.wait())
            try:
                await asyncio.wait((started, stopped), return_when=asyncio.FIRST_COMPLETED)
                if stopping.is_set():
                    started.cancel()
                    return ExitReason(0, "stopped")
                await started
                return await self._with_relay(home, place, relay, command, stopping)
            finally:
                stopped.cancel()
                await relay.stop()
                (home / "up.json").unlink(missing_ok=True)

    async def _with_relay(
        self,
        home: Path,
        place: _Place,
        relay: RelayChild,
        command: AgentCommand,
        stopping: asyncio.Event,
    ) -> ExitReason:
        token = home / "agent-token"
        _, link = await asyncio.gather(_renew_token(relay, token), relay.ask("link"))
        (home / "up.json").write_text(json.dumps({"url": place.url, "pid": os.getpid()}))
        target = RelayTarget(
            url=place.url,
            token_file=token,
            ca=place.certificate.authority if place.certificate else None,
        )
        settings = ConnectorSettings(
            name=command.name,
            cwd=command.cwd,
            state_dir=connector_state(),
            signed=self.signed,
            redaction=self.redaction,
            **self.limits,
        )
        connector = Connector(settings, sandboxed(command, settings), relay=target)
        _invite(place, _with_pairing(place, link, connector, command), command)
        show_console(connector, asks=has_terminal())
        return await _all_together(connector, relay, token, stopping)

    def _agent_command(self, home: Path) -> AgentCommand:
        name = self.agent or (None if self.command else default_agent(os.environ))
        demo = name == DEMO and not self.command
        cwd = self.cwd or (_demo_folder(home) if demo else Path.cwd())
        return command_for(name, self.command, cwd, os.environ, self.passed)

    def _place(self, home: Path) -> _Place:
        if not self.lan:
            return _Place(LOOPBACK, self.port)
        address = lan.lan_address()
        return _Place(address, self.port, lan.certificate_for(address, home / "tls"))


async def _all_together(
    connector: Connector, relay: RelayChild, token: Path, stopping: asyncio.Event
) -> ExitReason:
    """Run until the connector ends or a signal comes; then end the connector in order."""
    running = asyncio.create_task(connector.run())
    background = [
        asyncio.create_task(relay.watch()),
        asyncio.create_task(_keep_token_fresh(relay, token)),
        asyncio.create_task(stopping.wait()),
    ]
    try:
        await asyncio.wait((running, background[-1]), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            connector.stop("stopped")
            readying = asyncio.create_task(connector.ready())
            await asyncio.wait((running, readying), timeout=0)
            if not readying.done():  # the agent is still starting
                running.cancel()
            readying.cancel()
        return await running
    except asyncio.CancelledError:
        return ExitReason(0, "stopped")
    finally:
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)


async def _renew_token(relay: RelayChild, token: Path) -> None:
    issued = await relay.ask("token", "--kind", "agent", "--subject", "up", "--ttl", "30d")
    fresh = token.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(issued)
    fresh.replace(token)


async def _keep_token_fresh(relay: RelayChild, token: Path) -> None:
    wait = TOKEN_SECONDS
    while True:
        await asyncio.sleep(wait)
        try:
            await _renew_token(relay, token)
            wait = TOKEN_SECONDS
        except (RelayDown, OSError):  # the one that is there still holds
            wait = TOKEN_RETRY_SECONDS


# What people are told.


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


def _invite(place: _Place, link: str, command: AgentCommand) -> None:
    _say(f"{command.title} works in {command.cwd}")
    if place.certificate is None:
        _say(f"open {link}")
        _say("it signs one browser in, once, within ten minutes; run `up` again for another.")
        _say("for a phone: stop this and run `up --lan`.")
        return
    _say(qr_code(link, colour=sys.stdout.isatty()))
    _say(f"on a phone in this network, scan the code or open {link}")
    _say("it warns of a certificate it does not know: go on if its SHA-256 fingerprint is")
    _say(place.certificate.fingerprint)


def _with_pairing(place: _Place, link: str, connector: Connector, command: AgentCommand) -> str:
    """Give the link, which also pairs a phone when none was ever paired with this machine."""
    if place.certificate is None or connector.has_devices:
        return link
    who = local_origin("terminal")
    joins = Joins(who.device, who.subject, command.title, str(command.cwd), place.url)

    def stepped(one: Invitation) -> None:
        if one.step is Step.COMPARING:  # nobody is asked here: the code alone was in the QR code
            connector.pairings.compared(one, same=False)
        elif one.step is Step.PAIRED and one.device is not None:
            shown = fingerprint(device_of(one.device))
            _say(f"paired: {one_line(one.device.name)}, fingerprint {shown}, as the phone shows")
        elif one.step is Step.EXPIRED:
            _say("the code pairs no more; `chimera-bridge pair` shows another")

    one = connector.pairings.begin(joins, stepped)
    _say("the code also pairs the phone, within two minutes, if you say so there: from then on")
    _say("this machine takes answers and messages only from paired devices.")
    return f"{link}&{one.fragment}"


async def page_link(page_url: str) -> str:
    """Give a relay's address for people, with what signs in where `up` runs it."""
    home = state_home()
    try:
        note = json.loads((home / "up.json").read_text())
        if str(note["url"]) != page_url:
            return page_url
        relay = RelayChild({**os.environ, "BRIDGE_STATE_DIR": str(_relay_state(home))}, _say)
        return await relay.ask("link")
    except (OSError, ValueError, KeyError, RelayDown):
        return page_url


async def _show_first(home: Path) -> ExitReason:
    """Print another link to the `up` that runs already."""
    try:
        note = json.loads((home / "up.json").read_text())
        url = str(note["url"])
    except (OSError, ValueError, KeyError):
        return ExitReason(FAULT, "another `up` is just starting; try again in a moment")
    relay = RelayChild({**os.environ, "BRIDGE_STATE_DIR": str(_relay_state(home))}, _say)
    try:
        link = await relay.ask("link")
    except RelayDown as error:
        return ExitReason(FAULT, f"`up` runs already (process {note.get('pid')}), but: {error}")
    _say(f"it runs already at {url} (process {note.get('pid')}); open {link}")
    if not url.startswith(f"http://{LOOPBACK}"):
        _say(qr_code(link, colour=sys.stdout.isatty()))
    return ExitReason(0, "it runs already")


# What it stands on.


@contextlib.contextmanager
def _only_one(home: Path) -> Iterator[bool]:
    """Say whether this is the only `up` of this user."""
    with (home / "up.lock").open("a") as lock:
        yield _locked(lock)


def _locked(lock: IO[str]) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl  # not on Windows

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _relay_state(home: Path) -> Path:
    chosen = os.environ.get("BRIDGE_STATE_DIR")
    return Path(chosen) if chosen else home / "relay"


def _environment(home: Path, place: _Place) -> dict[str, str]:
    more: dict[str, object] = {}
    if place.certificate is not None:
        # Without its public address the relay lets pages of this machine alone sign in.
        more = {
            "tls_cert": place.certificate.certificate,
            "tls_key": place.certificate.key,
            "public_url": place.url,
        }
    return relay_environment(_relay_state(home), place.host, place.port, **more)


def _demo_folder(home: Path) -> Path:
    """Give the demo agent's folder: a temporary one that is kept, never the user's own files."""
    note = home / DEMO_NOTE
    with contextlib.suppress(OSError):
        folder = Path(note.read_text().strip())
        if folder.is_dir():
            return folder
    folder = Path(tempfile.mkdtemp(prefix="chimera-demo-"))
    note.write_text(f"{folder}\n")
    return folder


def _check_free(place: _Place) -> None:
    """Raise RelayDown when the port is taken, with who has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((place.host, place.port))
        except OSError as error:
            holder = holder_of(place.port)
            by = f" by {holder}" if holder else ""
            raise RelayDown(
                f"port {place.port} of {place.host} is in use{by}: end that, or choose another "
                f"with --port ({error.strerror})"
            ) from None
