"""Who may come in: how many sockets a relay process holds, of whom, and how many open a second."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

_FULL_SECONDS = 10  # before it makes sense to ask a full relay again
_BURST_SECONDS = 0.25  # of the rate may come at once
_SPREAD = 0.8  # of the rate is given to those who were told to come again
_LONGEST_SECONDS = 60


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """The caps; an office behind one address needs many, a flood needs more."""

    total: int = 50_000
    per_address: int = 10_000
    per_subject: int = 1_000
    per_second: int = 0  # new ones; 0: as fast as they come


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no place, as HTTP says it before a websocket is accepted."""

    status: int
    message: str
    retry_after: int = _FULL_SECONDS


@dataclass(frozen=True, slots=True)
class Place:
    """What one socket counts for."""

    address: str
    subject: str = ""  # with its tenant: acme/alice; nobody: not counted


class Rate:
    """A bucket of new connections that fills evenly; who finds it empty is told when to come."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin full; 0 lets everybody through."""
        self._rate = per_second
        self._clock = clock
        self._most = max(1.0, per_second * _BURST_SECONDS)
        self._left = self._most
        self._told = 0.0  # who was told to come again and has not had the time to
        self._at = clock()

    def take(self) -> int:
        """Give 0 to let one in, else the seconds after which it may come again."""
        if not self._rate:
            return 0
        self._fill()
        if self._left >= 1:
            self._left -= 1
            return 0
        self._told += 1
        return self.wait

    @property
    def wait(self) -> int:
        """The seconds to tell who comes now; 0 while the bucket has some."""
        if not self._rate:
            return 0
        self._fill()
        if self._left >= 1:
            return 0
        return min(_LONGEST_SECONDS, max(1, math.ceil(self._told / (self._rate * _SPREAD))))

    def _fill(self) -> None:
        now = self._clock()
        passed, self._at = now - self._at, now
        self._left = min(self._most, self._left + passed * self._rate)
        self._told = max(0.0, self._told - passed * self._rate * _SPREAD)


class Admission:
    """Counts the places that are taken."""

    def __init__(self, limits: SocketLimits, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with every place free."""
        self.limits = limits
        self.rate = Rate(limits.per_second, clock)
        self.taken = 0
        self.refused: Counter[str] = Counter()  # by why
        self.is_ending = False
        self._by_address: Counter[str] = Counter()
        self._by_subject: Counter[str] = Counter()

    def admit(self, place: Place) -> Refusal | None:
        """Take a place, or say why there is none."""
        why, refusal = self._why_not(place)
        if refusal is not None:
            self.refused[why] += 1
            return refusal
        self.taken += 1
        self._by_address[place.address] += 1
        self._by_subject[place.subject] += 1
        return None

    def release(self, place: Place) -> None:
        """Give a place back."""
        self.taken -= 1
        for counts, name in (
            (self._by_address, place.address),
            (self._by_subject, place.subject),
        ):
            counts[name] -= 1
            if counts[name] <= 0:
                del counts[name]

    @property
    def wait(self) -> int:
        """The seconds to tell who wants to come in now; 0 when it may."""
        if self.is_ending:
            return 1
        return _FULL_SECONDS if self.taken >= self.limits.total else self.rate.wait

    def end(self) -> None:
        """Let nobody in any more: this process ends."""
        self.is_ending = True

    def _why_not(self, place: Place) -> tuple[str, Refusal | None]:
        limits, address = self.limits, place.address
        if self.is_ending:
            return "ending", Refusal(503, "this relay process ends; come again", 1)
        if self.taken >= limits.total:
            return "full", Refusal(503, f"this relay holds its {limits.total} connections")
        if self._by_address[address] >= limits.per_address:
            most = limits.per_address
            return "address", Refusal(
                429, f"{address} has {most} connections, the most one address may have"
            )
        if place.subject and self._by_subject[place.subject] >= limits.per_subject:
            most, who = limits.per_subject, place.subject.partition("/")[2]
            return "subject", Refusal(
                429, f"{who} has {most} connections, the most one may have at a relay process"
            )
        wait = self.rate.take()
        if wait:
            return "rate", Refusal(503, "too many connect at once; come again", wait)
        return "", None
