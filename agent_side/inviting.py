"""Serves the owner's other commands at a connector's side door; most of it is pairing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from agent_side import undo_command, visitors
from agent_side.side_door import Talk
from bridge.protocol import signing
from bridge.protocol.errors import BridgeError
from bridge.protocol.pairing import LIFE_SECONDS, Invitation, Step, device_of

if TYPE_CHECKING:
    from agent_side.connector import Connector

ENDS = frozenset({Step.PAIRED, Step.REFUSED, Step.EXPIRED})


async def serve_side_door(connector: Connector, talk: Talk, first: dict[str, Any]) -> None:
    """Carry out a wish from the side door."""
    if (wish := str(first.get("wish"))) in undo_command.WISHES:
        await undo_command.serve(connector, talk, wish)
        return
    if wish == visitors.WISH:
        await connector.visitors.serve(connector, talk)
        return
    if wish != "pair":
        talk.say({"error": "this connector is older than the command: start it again"})
        return
    steps: asyncio.Queue[Step] = asyncio.Queue()
    try:
        one = connector.pairings.begin(
            connector.place, lambda invitation: steps.put_nowait(invitation.step)
        )
    except BridgeError as error:
        talk.say({"error": error.message})
        return
    listening = asyncio.create_task(_listen(connector, talk, one))
    try:
        talk.say(told(one))
        while (step := await steps.get()) not in ENDS:
            talk.say(told(one))
        talk.say({**told(one), "step": step.value})
    finally:
        listening.cancel()


async def _listen(connector: Connector, talk: Talk, one: Invitation) -> None:
    """Take the person's word, or the end of the invitation when the command is ended."""
    while (heard := await talk.heard()) is not None:
        connector.pairings.compared(one, same=heard.get("same") is True)
    connector.pairings.cancel(one)


def told(one: Invitation) -> dict[str, Any]:
    """Say how far an invitation is, for the owner's eyes alone."""
    offer = one.shown
    said: dict[str, Any] = {"step": one.step.value}
    if one.step is Step.OPEN:
        said |= {
            "code": one.code,
            "fragment": one.fragment,
            "relay": offer.relay,
            "agent": offer.agent,
            "seconds": LIFE_SECONDS,
        }
    if one.device is not None:
        said["device"] = f"{one.device.name} of {one.device.subject}"
    if one.step is Step.COMPARING:
        said["words"] = one.words
    if one.step is Step.PAIRED and one.device is not None:
        said["fingerprint"] = signing.fingerprint(device_of(one.device))
    return said
