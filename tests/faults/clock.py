"""Another time of day for a process, by Debian's faketime; how long things last stays true."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

NEEDS = "needs faketime, for a clock that is wrong"
LIBRARY = "*/faketime/libfaketimeMT.so.1"


def can_be_wrong() -> bool:
    return _library() is not None


def environment(ahead_seconds: int) -> dict[str, str]:
    """What a process is started with so that its clock is ahead, or behind."""
    return {
        "LD_PRELOAD": str(_library()),
        "FAKETIME": f"{ahead_seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def clock(ahead_seconds: int) -> Callable[[], float]:
    """The same clock in this process."""
    return lambda: time.time() + ahead_seconds


def _library() -> Path | None:
    return next(Path("/usr/lib").glob(LIBRARY), None)
