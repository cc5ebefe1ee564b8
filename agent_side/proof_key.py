"""This machine's key: each attempt to attach is signed with it, so a copied token opens nothing.

The proof is a DPoP header (RFC 9449): for one address, one token, one moment, once.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from bridge.protocol import base64url

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

FILE = "proof-key.pem"
PRIVATE = 0o600
_COORDINATE_BYTES = 32
_HTTP = {"ws": "http", "wss": "https"}
_USUAL_PORTS = {"http": ":80", "https": ":443"}


class ProofKey:
    """A machine's key, kept in its state folder."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; the key is read, or made, when first used."""
        self._file = folder / FILE
        self._key: EllipticCurvePrivateKey | None = None

    def prove(self, url: str, token: str) -> str:
        """Give the proof for one request; raises OSError when there is no place for a key."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

        key = self._own()
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": _jwk(key)}
        claims = {
            "htm": "GET",
            "htu": http_address(url),
            "iat": int(time.time()),
            "jti": secrets.token_urlsafe(16),
            "ath": base64url.encode(hashlib.sha256(token.encode()).digest()),
        }
        said = ".".join(base64url.encode(json.dumps(part).encode()) for part in (header, claims))
        r, s = decode_dss_signature(key.sign(said.encode(), ec.ECDSA(hashes.SHA256())))
        raw = r.to_bytes(_COORDINATE_BYTES) + s.to_bytes(_COORDINATE_BYTES)
        return f"{said}.{base64url.encode(raw)}"

    def _own(self) -> EllipticCurvePrivateKey:
        if self._key is None:
            self._key = _read_or_make(self._file)
        return self._key


def http_address(url: str) -> str:
    """Give the address of a websocket as its handshake names it."""
    parts = urlsplit(url)
    scheme = _HTTP.get(parts.scheme, parts.scheme)
    place = parts.netloc.lower().removesuffix(_USUAL_PORTS.get(scheme, ""))
    return urlunsplit((scheme, place, parts.path, "", ""))


def _read_or_make(file: Path) -> EllipticCurvePrivateKey:
    """Read the key, or make it; of two processes that make one, the first one's counts."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    if not file.exists():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = file.with_suffix(f".{secrets.token_hex(4)}")
        pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(descriptor, "wb") as fresh:
            fresh.write(pem)
        try:
            _place(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise OSError(f"{file} is no EC key: remove it")
    return key


def _place(draft: Path, file: Path) -> None:
    try:
        os.link(draft, file)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not file.exists():
            draft.replace(file)


def _jwk(key: Any) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    x, y = (base64url.encode(n.to_bytes(_COORDINATE_BYTES)) for n in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "x": x, "y": y}
