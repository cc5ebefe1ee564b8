"""What works on this machine: agents, the state folder, and the way to a relay layer by layer."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.http11 import Response

from agent_side import guarantees, hook
from agent_side.agents.catalog import AGENTS
from agent_side.attach import tls_context
from agent_side.connect import connector_state
from agent_side.guarantees import Abilities
from agent_side.sandbox import Mode, choose
from agent_side.settings import RelayTarget, SettingsError
from agent_side.snapshots import git
from bridge.protocol import uplink

STEP_SECONDS = 10.0
SKEW_SECONDS = 60.0  # tokens are checked with this leeway
PORTS = {"ws": 80, "wss": 443}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``fine`` also of an agent that is merely not installed."""

    what: str
    fine: bool
    sentence: str
    remedy: str = ""

    def __str__(self) -> str:
        """Write the line a person reads."""
        mark = "FAILS" if not self.fine else "-    " if self.remedy else "ok   "
        return f"{mark} {self.what}: {self.sentence}{f'; {self.remedy}' if self.remedy else ''}"


async def examine(relay: RelayTarget | None) -> list[Finding]:
    """Look at everything a connector needs here."""
    findings = [finding for name in AGENTS for finding in _agent(name)]
    findings += [_state(), _sandbox(), _undo(), *_hook()]
    if relay is not None:
        findings += [finding async for finding in _way_to(relay)]
    return findings


def print_findings(findings: list[Finding], *, as_json: bool) -> None:
    """Print what was found, for people or for programs."""
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2))  # noqa: T201
        return
    for finding in findings:
        print(finding)  # noqa: T201


def _agent(name: str) -> list[Finding]:
    agent = AGENTS[name]
    found = agent.locate(os.environ)
    if found is None:
        return [Finding(f"agent {name}", True, "not installed", f"install: {agent.install}")]
    known = Abilities(name, agent.title, agent.ask_mode, "" if _has_git() else "git_missing")
    promises = guarantees.sentence(guarantees.lines(known))
    return [
        Finding(f"agent {name}", fine=True, sentence=f"{agent.title}, {found[0]}"),
        Finding(f"agent {name} holds", fine=True, sentence=promises),
    ]


def _undo() -> Finding:
    if not _has_git():
        return Finding("undo", True, "no turn can be undone: git is missing", "install git")
    return Finding("undo", fine=True, sentence="a copy is kept before each turn (connect, up)")


def _hook() -> list[Finding]:
    """Whether chimera's own command has the flag for a relay; nothing where there is no chimera."""
    found = hook.find()
    if found is None or not found.has_ferret:
        return []
    state = found.state
    if state is hook.State.INSTALLED:
        return [
            Finding("hook", fine=True, sentence=f"`chimera ferret serve` has --bridge: {state}")
        ]
    told = f"{state}; {hook.UNHOOKED}"
    return [Finding("hook", state is hook.State.ABSENT, told, hook.INSTALL)]


def _has_git() -> bool:
    try:
        return bool(git.program())
    except git.GitMissing:
        return False


def _state() -> Finding:
    folder = connector_state()
    probe = folder / f".doctor-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        return Finding(
            "state",
            False,
            f"{folder}: {error.strerror}",
            "set CHIMERA_BRIDGE_STATE_DIR",
        )
    return Finding("state", fine=True, sentence=f"{folder} can be written")


def _sandbox() -> Finding:
    """Whether a sandbox would be enforced; what is merely absent is no failure."""
    state = choose(Mode.WORKSPACE_WRITE, [], path=os.environ.get("PATH")).state
    if state.enforced:
        return Finding("sandbox", fine=True, sentence=f"{state.by} enforces --sandbox")
    remedy = "install bubblewrap" if sys.platform == "linux" else ""
    return Finding("sandbox", True, f"--sandbox would not be enforced: {state.why}", remedy)


async def _way_to(relay: RelayTarget) -> AsyncIterator[Finding]:
    """Look at one layer after the other, up to the first that fails."""
    for layer in (_dns, _tcp, _tls, _upgrade):
        try:
            async with asyncio.timeout(STEP_SECONDS):
                findings = await layer(relay)
        except TimeoutError:
            findings = [
                _no(layer, f"no answer within {STEP_SECONDS:g} s", "is a firewall between?")
            ]
        except ssl.SSLCertVerificationError as error:
            remedy = "name its authority with --ca"
            findings = [
                _no(layer, f"the certificate is not trusted: {error.verify_message}", remedy)
            ]
        except ssl.SSLError as error:
            findings = [_no(layer, f"no TLS there: {error.reason}", "is the port right?")]
        except OSError as error:
            findings = [_no(layer, error.strerror or str(error), "is the address right, is it up?")]
        for finding in findings:
            yield finding
        if any(not finding.fine for finding in findings):
            return


async def _dns(relay: RelayTarget) -> list[Finding]:
    host, port, _ = _parts(relay)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = sorted({str(one[4][0]) for one in found})
    return [Finding("relay dns", fine=True, sentence=f"{host} is {', '.join(addresses)}")]


async def _tcp(relay: RelayTarget) -> list[Finding]:
    host, port, _ = _parts(relay)
    began = time.monotonic()
    _, writer = await asyncio.open_connection(host, port)
    took = (time.monotonic() - began) * 1000
    writer.close()
    return [Finding("relay tcp", fine=True, sentence=f"port {port} answers in {took:.0f} ms")]


async def _tls(relay: RelayTarget) -> list[Finding]:
    host, port, encrypted = _parts(relay)
    if not encrypted:
        return [Finding("relay tls", fine=True, sentence="none: plain ws")]
    _, writer = await asyncio.open_connection(host, port, ssl=tls_context(relay))
    version = writer.get_extra_info("ssl_object").version()
    writer.close()
    return [Finding("relay tls", fine=True, sentence=f"{version}, the certificate is trusted")]


async def _upgrade(relay: RelayTarget) -> list[Finding]:
    try:
        token = relay.read_token()
    except SettingsError as error:
        return [Finding("relay auth", fine=False, sentence=str(error))]
    try:
        async with connect(
            relay.uplink_url,
            subprotocols=[uplink.SUBPROTOCOL],  # type: ignore[list-item]
            additional_headers={"Authorization": f"Bearer {token}"} if token else {},
            ssl=tls_context(relay),
            compression=None,
        ) as socket_:
            answer = socket_.response
            assert answer is not None
    except InvalidStatus as error:
        return [*_refused(error.response, has_token=bool(token)), *_clock(error.response)]
    except InvalidHandshake as error:
        return [_no(_upgrade, str(error), "does something between speak HTTP only?")]
    fine = Finding("relay auth", fine=True, sentence="the token is accepted")
    return [Finding("relay upgrade", fine=True, sentence="a websocket"), fine, *_clock(answer)]


def _refused(response: Response, *, has_token: bool) -> list[Finding]:
    status = response.status_code
    if status not in (401, 403):
        return [_no(_upgrade, f"HTTP {status}", "is that a relay's address?")]
    reached = Finding("relay upgrade", fine=True, sentence="a relay answers")
    if not has_token:
        remedy = "set FERRET_BRIDGE_TOKEN or --token-file (chimera-relay token --kind agent)"
        return [reached, Finding("relay auth", False, "there is no token", remedy)]
    said = bytes(response.body or b"").decode("utf-8", "replace")[:300]
    return [
        reached,
        Finding("relay auth", False, f"HTTP {status} {said}".strip(), "renew the token"),
    ]


def _clock(response: Response) -> list[Finding]:
    date = response.headers.get("Date")
    if date is None:
        return []
    skew = time.time() - parsedate_to_datetime(date).timestamp()
    fine = abs(skew) < SKEW_SECONDS
    direction = "ahead of" if skew > 0 else "behind"
    sentence = f"{abs(skew):.0f} s {direction} the relay's"
    return [Finding("clock", fine, sentence, "" if fine else "set this machine's clock")]


def _no(layer: object, sentence: str, remedy: str) -> Finding:
    name = getattr(layer, "__name__", "").strip("_")
    return Finding(f"relay {name}", fine=False, sentence=sentence, remedy=remedy)


def _parts(relay: RelayTarget) -> tuple[str, int, bool]:
    parts = urlsplit(relay.uplink_url)
    return parts.hostname or "", parts.port or PORTS[parts.scheme], parts.scheme == "wss"
