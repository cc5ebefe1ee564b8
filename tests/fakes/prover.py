"""A machine's key as a thief would like to use it: proofs for anything, of any time."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Prover:
    """Signs DPoP proofs; whatever is named replaces what a true proof says."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())

    def prove(self, url: str, token: str, *, head: dict | None = None, **claims) -> str:
        numbers = self.key.public_key().public_numbers()
        x, y = (text64(n.to_bytes(32)) for n in (numbers.x, numbers.y))
        jwk = {"kty": "EC", "crv": "P-256", "x": x, "y": y}
        header = {"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk, **(head or {})}
        said = {
            "htm": "GET",
            "htu": url,
            "iat": int(time.time()),
            "jti": secrets.token_urlsafe(12),
            "ath": text64(hashlib.sha256(token.encode()).digest()),
            **claims,
        }
        text = ".".join(text64(json.dumps(part).encode()) for part in (header, said))
        r, s = decode_dss_signature(self.key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{text64(r.to_bytes(32) + s.to_bytes(32))}"
