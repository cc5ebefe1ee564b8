"""Compares what was sent with what was acknowledged, stored and seen; and the table of figures."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from faults.watcher import Watcher

COLUMNS = (
    *("sent", "acked", "seen", "lost", "duplicated", "reordered", "gaps"),
    *("recorded", "applied", "detect", "recover", "RSS MB", "tasks", "fds", "more"),
)


def faults_of(stamps: Sequence[int], expected: Iterable[int]) -> dict[str, int]:
    """Count what is missing, what came twice and what came before its turn."""
    counted = Counter(stamps)
    first_seen = list(dict.fromkeys(stamps))
    return {
        "lost": len(set(expected) - counted.keys()),
        "duplicated": sum(count - 1 for count in counted.values()),
        "reordered": sum(after < before for before, after in pairwise(first_seen)),
    }


def judge(watchers: Sequence[Watcher], count: int) -> dict[str, int]:
    """Add up what watchers saw; each should have 0, 1, 2… up to a count of every session."""
    total: Counter[str] = Counter({"seen": 0, **NOTHING_WRONG})
    for watcher in watchers:
        total["gaps"] += watcher.gaps
        for stamps in watcher.stamps.values():
            total["seen"] += len(stamps)
            total.update(faults_of(stamps, range(count)))
    return dict(total)


NOTHING_WRONG = {"lost": 0, "duplicated": 0, "reordered": 0, "gaps": 0}


def percentile(values: Iterable[float], share: float) -> float:
    """Give the value below which that share of them lies."""
    found = sorted(values)
    return found[min(len(found) - 1, int(len(found) * share))]


class Row:
    """One row's figures: a line when it is over, and a place in the table."""

    def __init__(self, record: Callable[[str, str], None]) -> None:
        self._record = record

    def __call__(self, row: str, what: str, **figures: Any) -> None:
        """Note the figures; a name with no column of its own goes to the last one."""
        self._record("row", json.dumps({"row": row, "what": what, "figures": figures}))


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Lay the rows out in Markdown."""
    lines = [
        "| row | fault | " + " | ".join(COLUMNS) + " |",
        "| --- " * (len(COLUMNS) + 2) + "|",
    ]
    for row in sorted(rows, key=lambda one: (one["row"], one["what"])):
        figures = {name.replace("_", " "): value for name, value in row["figures"].items()}
        cells = [shown(figures.pop(name, "")) for name in COLUMNS[:-1]]
        more = "; ".join(f"{name} {shown(value)}" for name, value in figures.items())
        lines.append(f"| {row['row']} | {row['what']} | " + " | ".join([*cells, more]) + " |")
    return lines


def shown(value: Any) -> str:
    """Write a figure: whole numbers in groups of three, seconds to the hundredth."""
    if isinstance(value, float):
        return f"{value:.2f} s"
    return f"{value:,}" if isinstance(value, int) else str(value)
