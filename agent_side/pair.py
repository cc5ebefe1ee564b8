"""``chimera-bridge pair``: shows a running connector's invitation, asks what only people know."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_side import side_door
from agent_side.devices import Devices
from agent_side.doors.visible import one_line
from agent_side.faults import FAULT, ExitReason
from agent_side.qr import qr_code
from agent_side.side_door import Closed, Talk
from bridge.protocol.pairing import Step

Say = Callable[[str], None]


async def pair(state: Path, name: str | None, link: Callable[[str], Any], say: Say) -> ExitReason:
    """Pair one device with the connector of this name, or the only one that runs.

    ``link``: gives the address of a relay's page, with what signs in if it can.
    """
    there = running(state)
    if name is None and len(there) > 1:
        shown = ", ".join(there)
        return ExitReason(2, f"several connectors run here: choose one of {shown} with --name")
    chosen = name or (there[0] if there else "")
    if not chosen:
        return ExitReason(FAULT, "no connector runs here: start up or connect first")
    try:
        async with side_door.knock(state / chosen, "pair") as talk:
            return await _talk(talk, link, say)
    except Closed as error:
        return ExitReason(FAULT, str(error))


def running(state: Path) -> list[str]:
    """Give the names of the connectors that run."""
    return sorted(path.parent.name for path in state.glob(f"*/{side_door.FILE}"))


async def _talk(talk: Talk, link: Callable[[str], Any], say: Say) -> ExitReason:
    while (told := await talk.heard()) is not None:
        step = told.get("step")
        if step == Step.OPEN:
            await _show(told, link, say)
        elif step == Step.COMPARING:
            talk.say({"same": await _ask(told, say)})
        else:
            return _end(told, say)
    return ExitReason(FAULT, "the connector ended")


async def _show(told: dict[str, Any], link: Callable[[str], Any], say: Say) -> None:
    address = await link(str(told["relay"]))
    separator = "&" if "#" in address else "/#"
    url = f"{address}{separator}{told['fragment']}"
    say(qr_code(url, colour=sys.stdout.isatty()))
    say(f"scan it with the phone that shall answer for {one_line(str(told['agent']))}, or open")
    say(url)
    if "127.0.0.1" in address or "localhost" in address:
        say("this relay serves this machine alone; for a phone, run `up --lan`")
    elif url.startswith("http:"):
        say("this relay has no TLS: browsers make no keys on such a page, so it cannot be paired")
    say(f"without a camera: sign in on {address.split('#')[0]} and type the code {_spaced(told)}")
    say(f"it works once, for {told['seconds'] // 60} minutes; Ctrl+C ends it")


def _spaced(told: dict[str, Any]) -> str:
    code = str(told["code"])
    return f"{code[:3]}-{code[3:]}"


async def _ask(told: dict[str, Any], say: Say) -> bool:
    say(f"{one_line(str(told['device']))} wants to answer for this machine; it must show the words")
    say(f"    {told['words']}")
    say("does it show exactly these? type yes or no")
    typed = await asyncio.to_thread(sys.stdin.readline)
    return typed.strip().lower() in {"y", "yes"}


def _end(told: dict[str, Any], say: Say) -> ExitReason:
    if told.get("step") == Step.PAIRED:
        say(f"paired: {one_line(str(told['device']))}, fingerprint {told['fingerprint']}")
        say("compare: the page shows the same under Devices; if not, `chimera-bridge devices`")
        say("from now on this machine takes answers and messages only from paired devices")
        return ExitReason(0, "paired")
    if told.get("step") == Step.EXPIRED:
        return ExitReason(FAULT, "no device came in time; run pair again for another code")
    return ExitReason(FAULT, str(told.get("error") or "the device was refused; nothing was paired"))


# The list.


def list_devices(state: Path, say: Say) -> ExitReason:
    """Print the paired devices of this machine; raises OSError."""
    devices = Devices(state)
    for device in devices.all():
        say(f"{device.fingerprint}  {one_line(device.name)}  of {one_line(device.subject)}")
    if not devices.all():
        needed = "; signatures stay required until `devices revoke all`" if devices.required else ""
        say(f"no device is paired with this machine{needed}")
    return ExitReason(0, "listed")


def revoke_device(state: Path, named: str, say: Say) -> ExitReason:
    """Forget a device by its fingerprint, its id or its name, or all; raises OSError."""
    devices = Devices(state)
    found = [d for d in devices.all() if named in {"all", d.id, d.fingerprint, d.name}]
    if named == "all" and not found:
        devices.forget("", by_owner=True)
    if not found and named != "all":
        return ExitReason(2, f"no device {named!r} is paired here; `devices list` shows them")
    if len(found) > 1 and named != "all":
        return ExitReason(2, f"{len(found)} devices are called {named!r}: use the fingerprint")
    for device in found:
        devices.forget(device.id, by_owner=True)
        say(f"forgotten: {one_line(device.name)}, {device.fingerprint}")
    if not devices.required:
        say("no device is left: answers from afar count unsigned again")
    return ExitReason(0, "revoked")
