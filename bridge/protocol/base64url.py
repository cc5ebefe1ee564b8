"""Base64url without padding, of which each value has exactly one form (RFC 7515, section 2)."""

from __future__ import annotations

import base64
import binascii


def encode(data: bytes) -> str:
    """Give the text of some bytes."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Give the bytes of a text; raises ValueError for any other form of them."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error:
        found = b""
    if encode(found) != text:
        raise ValueError("not base64url without padding")
    return found
