"""What a measurement has to reach, and how it is told: on the terminal and in the report."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench.report import Section, save
from bench.rounds import CannotMeasure, Maker, play
from bench.servers import Running, on_load_cpu
from bench.table import Figures, Table


class Wanted(NamedTuple):
    """A figure and what it has to be."""

    says: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        """For people."""
        sign = "at least" if self.at_least else "at most"
        missed = "" if self.is_met else ", missed"
        return f"{self.says}: {self.value:,.2f} (wanted: {sign} {self.limit:g}{missed})"


def options(name: str, what: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    """Make the options that every measurement has."""
    parser = argparse.ArgumentParser(prog=f"./dev bench {name}", description=what)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each server and round")
    parser.add_argument("--json", metavar="FILE", help="write all figures there; - prints them")
    return parser


def measured(  # noqa: PLR0917 (each is of its own type)
    name: str,
    title: str,
    chosen: argparse.Namespace,
    servers: Mapping[str, Maker],
    measure: Callable[[Running], Figures],
    columns: dict[str, tuple[str, str]],
    wanted: Callable[[Table], list[Wanted]],
) -> int:
    """Play the rounds, tell what was found and what it had to be; 1 when something is missed."""
    on_load_cpu()
    _before_others()
    try:
        table = play(servers, measure, chosen.rounds, set(servers))
    except CannotMeasure as error:
        print(f"\n./dev bench: {error}", file=sys.stderr)
        return 1
    table.columns = columns
    found = wanted(table)
    print(f"\n{title}; medians of {chosen.rounds} rounds\n\n{table.text([])}\n")
    print("\n".join(map(str, found)))
    if chosen.json:
        figures = {"rounds": table.rounds, "wanted": [one._asdict() for one in found]}
        text = json.dumps(figures, indent=1) + "\n"
        sys.stdout.write(text) if chosen.json == "-" else Path(chosen.json).write_text(text)
    said = "\n".join(f"- {one}" for one in found)
    how = f"Medians of {chosen.rounds} rounds; ratios within a round."
    text = f"{table.markdown([])}\n\n{how}\n\n{said}"
    save(Section(name, title, text))
    return 0 if all(one.is_met for one in found) else 1


def _before_others() -> None:
    """Let a client that is this process run before what else the machine does."""
    with suppress(OSError, AttributeError):  # not Linux, or not root
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(1))
