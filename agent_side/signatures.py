"""Takes from afar only what a paired device signed, where that is required; each signature once."""

from __future__ import annotations

import logging

import msgspec

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

    def __init__(self, devices: Devices, choice: str, relay_rules: str = "auto") -> None:
        """Ask for signatures always, never, or (auto) from the first paired device on.

        ``relay_rules``: whether a relay's rule may allow: on, off, or auto while none is needed.
        """
        self.agent_id = ""  # set when the state folder is open
        self.epoch = 0  # the same; it may rise
        self._devices = devices
        self._choice = choice
        self._relay_rules = relay_rules
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

    @property
    def relay_rules(self) -> bool:
        """Whether a rule of the relay may allow something, which a hostile relay then could."""
        return self._relay_rules == "on" or (self._relay_rules == "auto" and not self.required)

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

    def decision(
        self, mail: Mail, decision: Decision, session_id: str, now: int
    ) -> tuple[Origin, Origin | None]:
        """Give who made a decision, and who approved it first where it took two people.

        Raises SignatureRequired or SignatureRefused, also when the two are not distinct.
        """
        by, device = self._decided(mail.signature, mail.origin, decision, session_id)
        first = decision.first
        if first is None:
            self._use(mail.signature, decision.decision_id, now)
            return by, None
        alike = msgspec.structs.replace(decision, decision_id=first.decision_id)
        also, other = self._decided(first.signature, first.by, alike, session_id)
        if by.subject == also.subject or (device is not None and device == other):
            raise SignatureRefused("the two approvals are not of two people")
        self._use(mail.signature, decision.decision_id, now)
        self._use(first.signature, first.decision_id, now, is_kept=True)
        return by, also

    def _decided(
        self, jws: str | None, origin: Origin, decision: Decision, session_id: str
    ) -> tuple[Origin, str | None]:
        """Check one signature of a decision; gives who made it and with which device."""
        if jws is None:
            return self._unsigned(origin), None
        device = self._device_of(jws)
        claims = signing.verify(jws, device.key, DecisionClaims)
        signed = (claims.id, claims.hash, claims.answer, claims.decision_id, claims.session_id)
        asked = (decision.id, decision.hash, decision.answer, decision.decision_id, session_id)
        if signed != asked:
            raise SignatureRefused("the signature is for another answer")
        return _signer(origin, device), device.id

    def _use(self, jws: str | None, mail_id: str, now: int, *, is_kept: bool = False) -> None:
        """Count a signature as used; ``is_kept``: it waited for a second one, however long."""
        if jws is not None:
            claims = signing.unverified(jws, DecisionClaims)
            self._check(claims, mail_id, min(now, claims.exp - 1) if is_kept else now)

    def mail(self, mail: Mail, message: Payload, now: int, *, is_resumed: bool) -> Origin:
        """Give who sent a mail; raises SignatureRequired or SignatureRefused.

        ``is_resumed``: it was taken by an earlier process, in time and for the epoch of then.
        """
        if mail.signature is None:
            return self._unsigned(mail.origin)
        device = self._device_of(mail.signature)
        claims = signing.verify(mail.signature, device.key, MailClaims)
        if claims.mail_id != mail.mail_id or claims.agent != self.agent_id:
            raise SignatureRefused("the signature is for another message")
        if claims.hash != signing.message_hash(message):
            raise SignatureRefused("the message is not the one that was signed")
        if not is_resumed:
            self._check(claims, mail.mail_id, now)
        return _signer(mail.origin, device)

    def _unsigned(self, origin: Origin) -> Origin:
        if self.required:
            raise SignatureRequired(_UNSIGNED)
        return origin

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
