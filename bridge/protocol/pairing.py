"""How a device and a machine learn each other's truth through a relay that neither has to trust.

The machine makes a code of six characters, by which the relay finds the pairing, a secret of 128
bits, which only a QR code carries, and an offer, which says what is joined. The device answers with
its public key. With the secret, the offer, the answer and the end each carry an HMAC over all that
was said before: whoever lacks the secret can change nothing. Without it, the machine has committed
itself in the offer to a number that it shows only after the answer; three words made of offer,
answer and number are compared by the person on both sides: a relay in the middle would have to
guess them (1 in 2**48).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from enum import StrEnum

import msgspec

from bridge.protocol import base64url, signing
from bridge.protocol.errors import PairingRefused, SignatureRefused

LIFE_SECONDS = 120  # between showing the code and the answer of the device
WRONG_CODES = 5  # of a tenant, after which its open pairings are closed
SECRET_BYTES = 16
TEXT_LIMIT = 4096  # characters of an offer or an answer
ALPHABET = "23456789ABCDEFGHJKMNPQRSTVWXYZ"  # none of 0 O 1 I L U
CODE = re.compile(f"[{ALPHABET}]{{6}}")
NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]{1,64}")


class Step(StrEnum):
    """How far a pairing is; the last three are ends."""

    OPEN = "open"  # waits for a device
    ANSWERED = "answered"  # a device's answer is on its way to the machine
    COMPARING = "comparing"  # the person compares words
    PAIRED = "paired"
    REFUSED = "refused"
    EXPIRED = "expired"


class Offer(msgspec.Struct, frozen=True):
    """What a device would join, and the hash of the number that is shown later."""

    host: str
    user: str  # the account on that machine
    agent: str
    folder: str
    relay: str
    commit: str
    v: int = 1


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The device that wants to be paired."""

    key: str
    name: str
    subject: str  # who holds it
    nonce: str
    v: int = 1


class Invitation:
    """One pairing on the machine's side: a device may answer it once."""

    def __init__(self, *, host: str, user: str, agent: str, folder: str, relay: str) -> None:
        """Make the code, the secret and the offer."""
        self.code = "".join(secrets.choice(ALPHABET) for _ in range(6))
        self.secret = secrets.token_bytes(SECRET_BYTES)
        self.number = secrets.token_hex(SECRET_BYTES)
        commit = hashlib.sha256(self.number.encode()).hexdigest()
        self.shown = Offer(host, user, agent, folder, relay, commit)
        self.offer = msgspec.json.encode(self.shown).decode()
        self.offer_mac = mac(self.secret, "offer", self.offer)
        self.step = Step.OPEN
        self.answer = ""
        self.device: Answer | None = None

    @property
    def fragment(self) -> str:
        """Give what the QR code's URL carries behind the ``#``; it never reaches the relay."""
        secret = base64url.encode(self.secret)
        return f"pair={self.code}.{secret}"

    @property
    def words(self) -> str:
        """Give the words that must be the same on both sides."""
        return comparison(self.offer, self.answer, self.number)

    @property
    def end_mac(self) -> str:
        """Give the proof that the machine took this device."""
        return mac(self.secret, "paired", self.offer, self.answer)

    def take(self, answer: str, proof: str | None) -> Answer:
        """Take the one answer; afterwards it is paired, or the person must compare.

        Raises PairingRefused: then the pairing is over.
        """
        if self.step is not Step.OPEN:
            raise PairingRefused("this pairing was answered already")
        self.step = Step.REFUSED
        self.device = read_answer(answer)
        self.answer = answer
        if proof is None:
            self.step = Step.COMPARING
        elif self._is_proven(proof):
            self.step = Step.PAIRED
        else:
            raise PairingRefused("the answer does not come from who scanned the code")
        return self.device

    def _is_proven(self, proof: str) -> bool:
        expected = mac(self.secret, "answer", self.offer, self.answer)
        return hmac.compare_digest(proof.encode("utf-8", "replace"), expected.encode())

    def compared(self, *, same: bool) -> None:
        """Take the person's word for whether the words are the same; raises PairingRefused."""
        if self.step is not Step.COMPARING:
            raise PairingRefused("there is nothing to compare")
        self.step = Step.PAIRED if same else Step.REFUSED

    def expire(self) -> None:
        """End what waits."""
        if self.step in {Step.OPEN, Step.COMPARING}:
            self.step = Step.EXPIRED


def mac(secret: bytes, what: str, *texts: str) -> str:
    """Give the HMAC-SHA-256 of a step and of all that was said up to it, in hex."""
    said = "".join(hashlib.sha256(text.encode()).hexdigest() for text in texts)
    return hmac.new(secret, f"chimera pairing 1 {what} {said}".encode(), hashlib.sha256).hexdigest()


def comparison(offer: str, answer: str, number: str) -> str:
    """Give the words for what was offered and answered and the number shown after it."""
    said = "".join(hashlib.sha256(text.encode()).hexdigest() for text in (offer, answer, number))
    return signing.words(hashlib.sha256(f"chimera pairing 1 words {said}".encode()).digest()[:6])


def read_answer(text: str) -> Answer:
    """Read a device's answer; raises PairingRefused."""
    if len(text) > TEXT_LIMIT:
        raise PairingRefused("the answer is too long")
    try:
        answer = msgspec.json.decode(text.encode(), type=Answer)
        signing.check_key(answer.key)
    except (msgspec.DecodeError, UnicodeEncodeError, SignatureRefused) as error:
        raise PairingRefused(f"no answer of a device: {error}") from None
    if not NAME.fullmatch(answer.name) or not 1 <= len(answer.subject) <= 128:  # noqa: PLR2004
        raise PairingRefused("a device needs a name of 1 to 64 characters that can be shown")
    return answer


def device_of(answer: Answer) -> str:
    """Give the id of the device that answered."""
    return signing.device_id(answer.key)


def read_code(typed: str) -> str:
    """Give the code that somebody typed, in capitals; raises PairingRefused."""
    code = "".join(typed.upper().split()).replace("-", "")
    if CODE.fullmatch(code) is None:
        raise PairingRefused(f"{typed[:20]!r} is no code: six characters of {ALPHABET}")
    return code
