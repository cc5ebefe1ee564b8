"""A person's device: a key, what it signs, and its side of a pairing."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from bridge.protocol import pairing, signing


def text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class FakeDevice:
    """Holds a key as a phone would."""

    def __init__(self, name: str = "pixel", subject: str = "alice") -> None:
        self.name = name
        self.subject = subject
        self._key = ec.generate_private_key(ec.SECP256R1())
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.key = text64(point[1:])
        self.id = signing.device_id(self.key)

    def jws(self, header: dict[str, Any] | bytes, claims: dict[str, Any] | bytes) -> str:
        """Sign anything, also what no honest device would."""
        parts = [p if isinstance(p, bytes) else json.dumps(p).encode() for p in (header, claims)]
        text = ".".join(text64(part) for part in parts)
        der = self._key.sign(text.encode(), ec.ECDSA(SHA256()))
        halves = (half.to_bytes(32) for half in decode_dss_signature(der))
        return f"{text}.{text64(b''.join(halves))}"

    def decision(self, **claims: Any) -> str:
        """Sign a decision: id, sessionId, epoch, hash, answer, decisionId."""
        return self.jws({"alg": "ES256", "typ": "decision+jwt"}, self._timed(claims))

    def mail(self, message: dict[str, Any], **claims: Any) -> str:
        """Sign a message: mailId, agent, epoch."""
        about = {"hash": signing.message_hash(message), **claims}
        return self.jws({"alg": "ES256", "typ": "mail+jwt"}, self._timed(about))

    def answer(self, offer: str, secret: bytes | None) -> tuple[str, str | None]:
        """Answer a pairing: the text and, with the secret, its proof."""
        said = {
            "v": 1,
            "key": self.key,
            "name": self.name,
            "subject": self.subject,
            "nonce": secrets.token_hex(16),
        }
        text = json.dumps(said)
        return text, None if secret is None else pairing.mac(secret, "answer", offer, text)

    def _timed(self, claims: dict[str, Any]) -> dict[str, Any]:
        now = now_ms()
        return {"device": self.id, "iat": now, "exp": now + 300_000, **claims}
