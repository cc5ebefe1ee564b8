"""Web Push: a message that only one browser can read, brought by its maker's push service.

Encrypted as RFC 8291 says (one record of aes128gcm, RFC 8188); the relay shows who it is by VAPID
(RFC 8292). Push services are few and known: whatever else a browser names is refused, and no
redirect is followed, so that nobody makes the relay call addresses of its own network.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import jwt
import msgspec
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bridge.protocol import base64url
from bridge.protocol.errors import InvalidParams

PAYLOAD_LIMIT = 3000  # bytes; services take 4096 with what encryption adds
RECORD_SIZE = 4096
ENDPOINT_LIMIT = 2048
ANSWER_SECONDS = 10.0
TOKEN_SECONDS = 12 * 3600  # RFC 8292 allows 24 hours
GONE = frozenset({404, 410})
# Where the makers of browsers take messages.
SERVICES = (
    "fcm.googleapis.com",
    "updates.push.services.mozilla.com",
    ".push.apple.com",
    ".notify.windows.com",
)

_CURVE = ec.SECP256R1()
_POINT_BYTES = 65
_SECRET_BYTES = 16
_logger = logging.getLogger(__name__)


class Receiver(msgspec.Struct, frozen=True):
    """What a browser gave for messages to it (PushSubscription)."""

    endpoint: str
    p256dh: str  # its public key, base64url
    auth: str  # its secret, base64url


class Attempt(msgspec.Struct, frozen=True, rename="camel"):
    """What became of one message."""

    status: int  # of HTTP; 0: the service did not answer
    reason: str = ""
    took_ms: int = 0

    @property
    def is_taken(self) -> bool:
        """Whether the service has it."""
        return 200 <= self.status < 300  # noqa: PLR2004 (HTTP's success)

    @property
    def is_gone(self) -> bool:
        """Whether the browser wants no more."""
        return self.status in GONE


class WebPush:
    """The way to browsers that are closed."""

    def __init__(self, folder: Path, contact: str, further_hosts: Sequence[str] = ()) -> None:
        """Keep the key in a folder; ``contact``: mailto: or https:, for the service's operator."""
        self._key_file = folder / "push.pem"
        self._contact = contact
        self._further = frozenset(further_hosts)
        self._key: ec.EllipticCurvePrivateKey | None = None
        self._client: httpx.AsyncClient | None = None

    @property
    def public_key(self) -> str:
        """What a browser subscribes with (applicationServerKey, base64url)."""
        return base64url.encode(_point(self._own_key().public_key()))

    def check(self, receiver: Receiver) -> None:
        """Refuse what is no subscription at a known push service; raises InvalidParams."""
        parts = urlsplit(receiver.endpoint)
        host = (parts.hostname or "").lower()
        place = parts.netloc.lower()
        known = any(host == one or (one[0] == "." and host.endswith(one)) for one in SERVICES)
        if place in self._further:
            known = parts.scheme in {"https", "http"}
        elif parts.scheme != "https" or parts.port not in {None, 443} or "@" in place:
            known = False
        if not known or len(receiver.endpoint) > ENDPOINT_LIMIT:
            raise InvalidParams(
                f"{host or receiver.endpoint!r:.80} is no push service this relay knows; "
                "set BRIDGE_PUSH_HOSTS if it is yours"
            )
        try:
            _peer(receiver)
        except ValueError as error:
            raise InvalidParams(f"the subscription's keys are none: {error}") from None

    async def send(
        self, receiver: Receiver, message: bytes, *, seconds: int, topic: str = "", urgent: bool
    ) -> Attempt:
        """Bring a message; it is dropped when the browser is not there within those seconds."""
        began = time.monotonic()
        headers = {
            "content-encoding": "aes128gcm",
            "content-type": "application/octet-stream",
            "ttl": str(seconds),
            "urgency": "high" if urgent else "normal",
            "authorization": self._authorization(receiver.endpoint),
        }
        if topic:
            headers["topic"] = topic
        try:
            self.check(receiver)
            answer = await self._open().post(
                receiver.endpoint, content=encrypt(receiver, message), headers=headers
            )
            status, reason = answer.status_code, answer.text[:200] if answer.is_error else ""
        except (httpx.HTTPError, InvalidParams) as error:
            status, reason = 0, str(error) or type(error).__name__
        return Attempt(status, reason, round((time.monotonic() - began) * 1000))

    async def aclose(self) -> None:
        """Close what is open."""
        if self._client is not None:
            await self._client.aclose()

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                follow_redirects=False, timeout=ANSWER_SECONDS, trust_env=True
            )
        return self._client

    def _authorization(self, endpoint: str) -> str:
        parts = urlsplit(endpoint)
        claims = {
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int(time.time()) + TOKEN_SECONDS,
            "sub": self._contact,
        }
        return f"vapid t={jwt.encode(claims, self._own_key(), 'ES256')}, k={self.public_key}"

    def _own_key(self) -> ec.EllipticCurvePrivateKey:
        if self._key is None:
            self._key = _read_or_make(self._key_file)
        return self._key


def encrypt(
    receiver: Receiver,
    message: bytes,
    *,
    key: ec.EllipticCurvePrivateKey | None = None,
    salt: bytes = b"",
) -> bytes:
    """Encrypt for one browser (RFC 8291); raises ValueError when its keys are none.

    ``key`` and ``salt`` are random unless a known result is wanted.
    """
    peer, secret = _peer(receiver)
    own = key or ec.generate_private_key(_CURVE)
    salt = salt or secrets.token_bytes(_SECRET_BYTES)
    point = _point(own.public_key())
    info = b"WebPush: info\0" + _point(peer) + point
    shared = _derive(own.exchange(ec.ECDH(), peer), secret, info, 32)
    sealing = _derive(shared, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(shared, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + struct.pack("!LB", RECORD_SIZE, len(point)) + point
    return head + AESGCM(sealing).encrypt(nonce, message + b"\x02", None)


def _peer(receiver: Receiver) -> tuple[ec.EllipticCurvePublicKey, bytes]:
    point, secret = _bytes64(receiver.p256dh), _bytes64(receiver.auth)
    if len(point) != _POINT_BYTES or len(secret) != _SECRET_BYTES:
        raise ValueError("p256dh has 65 bytes and auth 16, in base64url")
    return ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, point), secret


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    form = serialization.PublicFormat.UncompressedPoint
    return key.public_bytes(serialization.Encoding.X962, form)


def _read_or_make(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read the key, or make it; of several processes that make one, the first one's counts."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = path.with_suffix(f".{secrets.token_hex(4)}")
        pem = ec.generate_private_key(_CURVE).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        try:
            os.link(fresh, path)
        except FileExistsError:
            _logger.debug("another process made %s", path)
        fresh.unlink()
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _bytes64(text: str) -> bytes:
    try:
        return base64url.decode(text)
    except ValueError:
        raise ValueError(f"{text[:20]!r} is no base64url") from None
