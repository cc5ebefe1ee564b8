"""Takes from afar only what a paired device signed, where that is required; each signature once."""

from __future__ import annotations

import logging

from agent_side.devices import Device, Devices, DevicesUnreadable
from bridge.protocol import signing
from bridge.protocol.entry import Origin
from bridge.protocol.errors import SignatureRefused, SignatureRequired
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision
from bridge.protocol.signing import DecisionClaims, MailClaims
from bridge.protocol.uplink import DeviceCard, Mail

logger = logging.getLogger(__name__)

_UNSIGNED = "this machine takes this only from a paired device: run chimera-bridge pair there"


class Signatures:
    """The judge of signatures of one connector; the relay's word counts for nothing here."""

    def __init__(self, devices: Devices, choice: str) -> None:
        """Ask for signatures always, never, or (auto) from the first paired device on."""
        self.agent_id = ""  # set when the state folder is open
        self.epoch = 0  # the same; it may rise
        self._devices = devices
        self._choice = choice
        self._used: dict[str, int] = {}  # mail ids to the end of what was signed for them

    @property
    def required(self) -> bool:
        """Whether unsigned mail is refused; also when the devices cannot be read."""
        if self._choice != "auto":
            return self._choice == "required"
        try:
            return self._devices.required
        except DevicesUnreadable:
            return True

    @property
    def policy(self) -> str:
        """What the relay is told: required or off."""
        return "required" if self.required else "off"

    def cards(self) -> list[DeviceCard]:
        """Give the devices whose signatures are taken."""
        try:
            return [device.card for device in self._devices.all()]
        except DevicesUnreadable:
            return []

    def forget(self, id_: str) -> None:
        """Forget a device because the relay says so, which never makes more possible."""
        try:
            if self._devices.forget(id_, by_owner=False) is not None:
                logger.warning("a device was revoked at the relay and is forgotten here")
        except OSError as error:
            logger.warning("a revoked device cannot be forgotten: %s", error)

    def decision(self, mail: Mail, decision: Decision, session_id: str, now: int) -> Origin:
        """Give who made a decision; raises SignatureRequired or SignatureRefused."""
        if mail.signature is None:
            return self._unsigned(mail)
        device = self._device_of(mail.signature)
        claims = signing.verify(mail.signature, device.key, DecisionClaims)
        signed = Decision(claims.id, claims.hash, claims.answer, claims.decision_id)
        if signed != decision or claims.session_id != session_id:
            raise SignatureRefused("the signature is for another answer")
        self._check(claims, claims.decision_id, now)
        return _signer(mail.origin, device)

    def mail(self, mail: Mail, message: Payload, now: int, *, is_resumed: bool) -> Origin:
        """Give who sent a mail; raises SignatureRequired or SignatureRefused.

        ``is_resumed``: it was taken by an earlier process, in time and for the epoch of then.
        """
        if mail.signature is None:
            return self._unsigned(mail)
        device = self._device_of(mail.signature)
        claims = signing.verify(mail.signature, device.key, MailClaims)
        if claims.mail_id != mail.mail_id or claims.agent != self.agent_id:
            raise SignatureRefused("the signature is for another message")
        if claims.hash != signing.message_hash(message):
            raise SignatureRefused("the message is not the one that was signed")
        if not is_resumed:
            self._check(claims, mail.mail_id, now)
        return _signer(mail.origin, device)

    def _unsigned(self, mail: Mail) -> Origin:
        if self.required:
            raise SignatureRequired(_UNSIGNED)
        return mail.origin

    def _device_of(self, jws: str) -> Device:
        try:
            device = self._devices.get(signing.claimed_by(jws))
        except DevicesUnreadable as error:
            raise SignatureRefused(str(error)) from None
        if device is None:
            raise SignatureRefused("that device is not paired with this machine")
        return device

    def _check(self, claims: DecisionClaims | MailClaims, mail_id: str, now: int) -> None:
        if claims.epoch != self.epoch:
            raise SignatureRefused("signed for an earlier run of this machine's connector")
        signing.check_time(claims, now)
        for used, end in list(self._used.items()):
            if end <= now:
                del self._used[used]
        if mail_id in self._used:
            raise SignatureRefused("this signature was used already")
        self._used[mail_id] = claims.exp


def _signer(origin: Origin, device: Device) -> Origin:
    """Name who signed, by what is pinned here and not by what the relay says."""
    return Origin(device.subject, origin.tenant, device.name, origin.door)
