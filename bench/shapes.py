"""The shapes of a fan-out, and what is wanted of the relay in each."""

from __future__ import annotations

from dataclasses import dataclass, field

C_RELAY = "C relay"
OURS, STORED = "chimera-relay, no store", "chimera-relay, stored"


@dataclass(frozen=True)
class Shape:
    """How many sessions and dashboards, how large entries are, how many are under way."""

    name: str
    sessions: int
    dashboards: int  # of each session
    size: int
    in_flight: int
    wanted: dict[str, float] = field(default_factory=dict)  # times the C relay

    @property
    def title(self) -> str:
        """Say it in words."""
        sessions = "1 session" if self.sessions == 1 else f"{self.sessions} sessions"
        size = f"{self.size} B" if self.size < 1024 else f"{self.size >> 10} KiB"
        return f"{sessions} x {self.dashboards} dashboards, {size}, {self.in_flight} in flight"

    def options(self) -> list[str]:
        """What the load client needs to make it."""
        sessions, dashboards = str(self.sessions), str(self.dashboards)
        return ["-x", sessions, "-n", dashboards, "-w", str(self.in_flight)]


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("A", 1, 100, 300, 32, {OURS: 14, STORED: 8}),
        Shape("B", 100, 2, 300, 200, {OURS: 0.95, STORED: 0.50}),
        Shape("C", 1, 100, 300, 1, {OURS: 0.85}),
        Shape("E", 1, 100, 2 << 10, 32, {OURS: 9}),
        Shape("F", 1, 100, 64 << 10, 4, {OURS: 1.0}),
    )
}
