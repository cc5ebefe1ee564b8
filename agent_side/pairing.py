"""Pairs devices with this machine: one invitation at a time, shown by whoever asked for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent_side.devices import Devices
from bridge.protocol import uplink
from bridge.protocol.errors import PairingRefused
from bridge.protocol.pairing import LIFE_SECONDS, Invitation, Step
from bridge.protocol.uplink import Invited, PairingEnd, PairingNews

logger = logging.getLogger(__name__)

OnStep = Callable[[Invitation], None]


@dataclass(frozen=True)
class Place:
    """What a device joins, as its offer says."""

    host: str
    user: str
    agent: str
    folder: str
    relay: str


class Pairings:
    """The pairing that is under way, if one is."""

    def __init__(self, devices: Devices, tell: Callable[[str, Any], None]) -> None:
        """Pin into ``devices``; ``tell`` speaks to the relay."""
        self.agent_id = ""  # set when the state folder is open
        self._devices = devices
        self._tell = tell
        self._invitation: Invitation | None = None
        self._on_step: OnStep = lambda _: None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, place: Place, on_step: OnStep) -> Invitation:
        """Invite a device for two minutes; an earlier invitation is over with it.

        ``on_step`` hears of each step: a device must be compared, was paired or refused, or none
        came in time.
        """
        self.cancel()
        one = self._invitation = Invitation(
            host=place.host,
            user=place.user,
            agent=place.agent,
            folder=place.folder,
            relay=place.relay,
        )
        self._on_step = on_step
        self._timer = asyncio.get_running_loop().call_later(LIFE_SECONDS, self._expire, one)
        self.retell()
        return one

    def retell(self) -> None:
        """Tell the relay of an invitation that waits, which it may not have heard of."""
        one = self._invitation
        if one is not None and one.step is Step.OPEN:
            self._tell(uplink.PAIR, Invited(one.code, self.agent_id, one.offer, one.offer_mac))

    def cancel(self, one: Invitation | None = None) -> None:
        """End the invitation that is open, if it is this one when one is named."""
        if self._invitation is not None and one in {None, self._invitation}:
            self._expire(self._invitation)

    def news(self, news: PairingNews) -> None:
        """Take a device's answer."""
        one = self._invitation
        if one is None or news.code != one.code or news.answer is None:
            return
        try:
            one.take(news.answer, news.proof)
        except PairingRefused as error:
            if one.step is not Step.REFUSED:
                return  # it came twice
            logger.warning("a device was not paired: %s", error)
        self._stepped(one)

    def compared(self, one: Invitation, *, same: bool) -> None:
        """Take the person's word for whether device and machine show the same words."""
        if one is self._invitation and one.step is Step.COMPARING:
            one.compared(same=same)
            self._stepped(one)

    def _expire(self, one: Invitation) -> None:
        before = one.step
        one.expire()
        if one.step is not before:
            self._stepped(one)

    def _stepped(self, one: Invitation) -> None:
        if one.step is Step.PAIRED and one.device is not None:
            device = one.device
            self._devices.pin(key=device.key, name=device.name, subject=device.subject)
        number = one.number if one.step is Step.COMPARING else None
        proof = one.end_mac if one.step is Step.PAIRED else None
        end = PairingEnd(one.code, self.agent_id, one.step, number, proof)
        self._tell(uplink.PAIRED, end)
        if one.step is not Step.COMPARING:
            self._invitation = None
            if self._timer is not None:
                self._timer.cancel()
        self._on_step(one)
