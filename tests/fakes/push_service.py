"""A push service as browsers' makers run them: checks who sends, and reads as the browser would."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WAIT_SECONDS = 30


def text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def bytes64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Browser:
    """The keys of one subscription."""

    def __init__(self, service: PushService, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.auth = secrets.token_bytes(16)
        self.endpoint = f"{service.url}/send/{name}"
        self.got: list[dict[str, Any]] = []
        self.heads: list[dict[str, str]] = []

    def as_json(self) -> dict[str, Any]:
        """What ``PushSubscription.toJSON`` gives."""
        keys = {"p256dh": text64(self.point), "auth": text64(self.auth)}
        return {"endpoint": self.endpoint, "keys": keys}

    @property
    def point(self) -> bytes:
        form = serialization.PublicFormat.UncompressedPoint
        return self.key.public_key().public_bytes(serialization.Encoding.X962, form)

    def read(self, body: bytes) -> bytes:
        """Decrypt a message (RFC 8291)."""
        salt, (size, length) = body[:16], struct.unpack("!LB", body[16:21])
        sender = body[21 : 21 + length]
        assert len(body) <= size
        shared = self.key.exchange(
            ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), sender)
        )
        secret = _derive(shared, self.auth, b"WebPush: info\0" + self.point + sender, 32)
        key = _derive(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _derive(secret, salt, b"Content-Encoding: nonce\0", 12)
        return (
            AESGCM(key).decrypt(nonce, body[21 + length :], None).rstrip(b"\0").removesuffix(b"\2")
        )


class PushService:
    """Use it as ``async with PushService() as service``."""

    def __init__(self) -> None:
        self.browsers: dict[str, Browser] = {}
        self.answer = 201
        self.refused: list[str] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _door(self))

    async def __aenter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._server.shutdown)
        self._server.server_close()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.place}"

    def browser(self, name: str) -> Browser:
        self.browsers[name] = Browser(self, name)
        return self.browsers[name]

    async def until(self, so: Callable[[], Any]) -> Any:
        """Wait for messages that make it so."""
        async with asyncio.timeout(WAIT_SECONDS), self._changed:
            await self._changed.wait_for(so)
        return so()

    async def got(self, browser: Browser, kind: str, count: int = 1) -> dict[str, Any]:
        """Wait for that many messages of a kind; gives the last of them."""

        def found() -> list[dict[str, Any]]:
            return [one for one in browser.got if one["kind"] == kind]

        await self.until(lambda: len(found()) >= count)
        return found()[count - 1]

    def take(self, path: str, head: dict[str, str], body: bytes) -> int:
        """Take a message as a push service does; gives the status."""
        browser = self.browsers[path.removeprefix("/send/")]
        scheme, _, rest = head["authorization"].partition(" ")
        fields = dict(part.strip().split("=", 1) for part in rest.split(","))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes64(fields["k"]))
        claims = jwt.decode(fields["t"], key, ["ES256"], audience=self.url)
        assert scheme == "vapid"
        assert claims["sub"].startswith(("mailto:", "https:"))
        assert head["content-encoding"] == "aes128gcm"
        assert int(head["ttl"]) > 0
        if self.answer < 300:
            browser.got.append(json.loads(browser.read(body)))
            browser.heads.append(head)
        asyncio.run_coroutine_threadsafe(self._tell(), self._loop)
        return self.answer

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


def _door(service: PushService) -> type[BaseHTTPRequestHandler]:
    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            head = {name.lower(): value for name, value in self.headers.items()}
            try:
                status = service.take(self.path, head, body)
            except Exception as error:  # noqa: BLE001 (the test reads it)
                service.refused.append(repr(error))
                status = 400
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", f"{service.url}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Door


def _derive(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt, info).derive(secret)
