"""Figures of several servers over several rounds: medians, and ratios within each round."""

from __future__ import annotations

from statistics import median
from typing import Any

Figures = dict[str, float]
PER_CPU = "deliveries_per_cpu_second"  # what ratios compare: others may be at work here too
COLUMNS = {
    "deliveries_per_second": ("deliveries/s", "{:,.0f}"),
    PER_CPU: ("per CPU second", "{:,.0f}"),
    "server_cpu": ("server CPU", "{:.2f}"),
    "client_cpu": ("load CPU", "{:.2f}"),
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
}


class Table:
    """What was measured; the load is the same for all, so servers compare within a round."""

    def __init__(self, columns: dict[str, tuple[str, str]] | None = None) -> None:
        """Show these figures, each with its title and format."""
        self.rounds: dict[str, list[Figures]] = {}
        self.unmeasured: dict[str, str] = {}  # and why
        self.versions: dict[str, str] = {}
        self.columns = columns or COLUMNS

    def add(self, name: str, figures: Figures) -> None:
        """Note a server's figures of the next round."""
        self.rounds.setdefault(name, []).append(figures)

    def give_up(self, name: str, why: str) -> None:
        """Note that a server cannot be measured; the rounds it had do not count."""
        self.rounds.pop(name, None)
        self.unmeasured[name] = why

    def median(self, name: str, figure: str) -> float:
        """A figure's median over the rounds."""
        return median(one[figure] for one in self.rounds[name])

    def ratio(self, name: str, other: str, figure: str = PER_CPU) -> float:
        """The median over the rounds of one server's figure over another's in the same round."""
        pairs = zip(self.rounds[name], self.rounds[other], strict=False)
        return median(one[figure] / two[figure] for one, two in pairs)

    def text(self, references: list[str]) -> str:
        """Write the table for a terminal, with a column of ratios to each reference."""
        rows = self._rows(references)
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(_aligned(row, widths)) for row in rows]
        lines += [f"{name}: not measured: {why}" for name, why in self.unmeasured.items()]
        return "\n".join(lines)

    def markdown(self, references: list[str]) -> str:
        """Write the table for a page."""
        titles, *rows = self._rows(references)
        ruler = ["---", *("---:" for _ in titles[1:])]
        rows += [[name, "not measured", *("" for _ in titles[2:])] for name in self.unmeasured]
        return "\n".join(f"| {' | '.join(row)} |" for row in (titles, ruler, *rows))

    def as_json(self, references: list[str]) -> dict[str, Any]:
        """Give medians, ratios and every round for programs."""
        return {
            name: {
                "median": {figure: self.median(name, figure) for figure in rounds[0]},
                "ratio": {other: round(self.ratio(name, other), 3) for other in references},
                "version": self.versions.get(name, ""),
                "rounds": rounds,
            }
            for name, rounds in self.rounds.items()
        }

    def _rows(self, references: list[str]) -> list[list[str]]:
        titles = ["server", *(title for title, _ in self.columns.values())]
        titles += [f"/ {name}" for name in references]
        return [titles, *(self._row(name, references) for name in self.rounds)]

    def _row(self, name: str, references: list[str]) -> list[str]:
        figures = [form.format(self.median(name, one)) for one, (_, form) in self.columns.items()]
        return [name, *figures, *(f"{self.ratio(name, other):.2f}" for other in references)]


def _aligned(row: list[str], widths: list[int]) -> list[str]:
    cells = zip(row, widths, strict=True)
    return [cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(cells)]
