"""A QR code for a terminal."""

from __future__ import annotations

import io

WHITE_ON_BLACK, PLAIN = "\x1b[40;97m", "\x1b[0m"


def qr_code(text: str, *, colour: bool) -> str:
    """Draw a text as a QR code of half blocks; ``colour``: readable on light terminals too."""
    import segno

    drawn = io.StringIO()
    segno.make(text, error="l", boost_error=False).terminal(drawn, compact=True)
    lines = drawn.getvalue().rstrip("\n").split("\n")
    return "\n".join(f"{WHITE_ON_BLACK}{line}{PLAIN}" if colour else line for line in lines)
