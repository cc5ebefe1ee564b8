"""A QR code for a terminal."""

from __future__ import annotations

import io


def qr_code(text: str) -> str:
    """Draw a text as a QR code of half blocks, dark on light so that every camera reads it."""
    import segno

    drawn = io.StringIO()
    segno.make(text, error="l", boost_error=False).terminal(drawn, compact=True)
    return drawn.getvalue().rstrip("\n")
