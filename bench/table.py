"""Figures of several servers over several rounds: medians, and ratios within each round."""

from __future__ import annotations

from statistics import median
from typing import Any

Figures = dict[str, float]
PER_CPU = "deliveries_per_cpu_second"  # what ratios compare: others may be at work here too
_COLUMNS = {
    "deliveries_per_second": ("deliveries/s", "{:,.0f}"),
    PER_CPU: ("per CPU second", "{:,.0f}"),
    "server_cpu": ("server CPU", "{:.2f}"),
    "client_cpu": ("load CPU", "{:.2f}"),
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
}


class Table:
    """What was measured; the load is the same for all, so servers compare within a round."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[Figures]] = {}

    def add(self, name: str, figures: Figures) -> None:
        """Note a server's figures of the next round."""
        self.rounds.setdefault(name, []).append(figures)

    def median(self, name: str, figure: str) -> float:
        """A figure's median over the rounds."""
        return median(one[figure] for one in self.rounds[name])

    def ratio(self, name: str, other: str, figure: str = PER_CPU) -> float:
        """The median over the rounds of one server's figure over another's in the same round."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=False)
        return median(one[figure] / two[figure] for one, two in pairs)

    def text(self, references: list[str]) -> str:
        """Write the table for people, with a column of ratios to each reference."""
        titles = ["server", *(title for title, _ in _COLUMNS.values())]
        titles += [f"/ {name}" for name in references]
        rows = [titles, *(self._row(name, references) for name in self.rounds)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(titles))]
        return "\n".join(
            "  ".join(c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(cells))
            for cells in (list(zip(row, widths, strict=True)) for row in rows)
        )

    def as_json(self, references: list[str]) -> dict[str, Any]:
        """Give medians, ratios and every round for programs."""
        return {
            name: {
                "median": {figure: self.median(name, figure) for figure in rounds[0]},
                "ratio": {other: round(self.ratio(name, other), 3) for other in references},
                "rounds": rounds,
            }
            for name, rounds in self.rounds.items()
        }

    def _row(self, name: str, references: list[str]) -> list[str]:
        figures = [form.format(self.median(name, one)) for one, (_, form) in _COLUMNS.items()]
        return [name, *figures, *(f"{self.ratio(name, other):.2f}" for other in references)]
