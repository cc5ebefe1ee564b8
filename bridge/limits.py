"""How many sockets a relay process holds, in all and for one address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

_RETRY_AFTER_SECONDS = 10


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """The caps; an office behind one address needs many, a flood needs more."""

    total: int = 50_000
    per_address: int = 10_000


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no place, as HTTP says it before a websocket is accepted."""

    status: int
    message: str
    retry_after: int = _RETRY_AFTER_SECONDS


class Admission:
    """Counts the places that are taken."""

    def __init__(self, limits: SocketLimits) -> None:
        """Start with every place free."""
        self.limits = limits
        self.taken = 0
        self._by_address: Counter[str] = Counter()

    def admit(self, address: str) -> Refusal | None:
        """Take a place, or say why there is none."""
        if self.taken >= self.limits.total:
            return Refusal(503, f"this relay holds its {self.limits.total} connections; try later")
        if self._by_address[address] >= self.limits.per_address:
            most = self.limits.per_address
            return Refusal(429, f"{address} has {most} connections, the most one address may have")
        self.taken += 1
        self._by_address[address] += 1
        return None

    def release(self, address: str) -> None:
        """Give a place back."""
        self.taken -= 1
        self._by_address[address] -= 1
        if self._by_address[address] <= 0:
            del self._by_address[address]
