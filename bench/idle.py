"""Dashboards that are there and say nothing: their memory, their CPU, and how fast they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.bars import Wanted, measured, options
from bench.paced import Load
from bench.relays import Relays, relays
from bench.servers import Running, uvicorn
from bench.table import Figures, Table

BARE, ATTACHED = "bare FastAPI route", "signed in, attached"
SIGNED_IN, AGAIN, NOBODY = "signed in", "signed in again", "nobody there"
COLUMNS = {
    "kib_each": ("KiB each", "{:.2f}"),
    "setup_per_second": ("set-up/s", "{:,.0f}"),
    "cpu_us_each": ("CPU us each", "{:,.0f}"),
    "server_cpu": ("CPU, idle", "{:.4f}"),
}
SETTLING_SECONDS = 2.0  # for the relay to forget those who left
WARM = 100  # that are there before: what the first ones cost is no cost of each


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = options("idle", __doc__, rounds=5)
    parser.add_argument("--dashboards", type=int, default=5000)
    chosen = parser.parse_args(arguments)
    load = Load(dashboards=chosen.dashboards, warm=WARM, seconds=chosen.seconds)
    servers = {
        BARE: partial(uvicorn, "bench.naive", ws="websockets-sansio"),
        ATTACHED: partial(_relay, chosen.dashboards, None),
        SIGNED_IN: partial(_relay, chosen.dashboards, []),
        AGAIN: partial(_known, load),
        NOBODY: relays,
    }
    title = f"{chosen.dashboards} dashboards that stay, each with a token of its own"
    return measured("idle", title, chosen, servers, partial(_measure, load), COLUMNS, _wanted)


@contextmanager
def _relay(people: int, lines: list[str] | None) -> Iterator[Relays]:
    with relays() as running:
        running.viewers, running.lines = running.people(people), lines
        yield running


@contextmanager
def _known(load: Load) -> Iterator[Relays]:
    """A relay where all have been before, with the same tokens."""
    with _relay(load.dashboards, []) as running:
        load.measure(running)
        time.sleep(SETTLING_SECONDS)
        yield running


def _measure(load: Load, running: Running) -> Figures:
    if isinstance(running, Relays) and not running.viewers:
        load = Load(seconds=load.seconds)
    figures = load.measure(running)
    count = max(1, figures["connections"])
    return figures | {
        "kib_each": (figures["rss_kib"] - figures["rss_before_kib"]) / count,
        "setup_per_second": count / max(1e-9, figures["setup_seconds"]),
        "cpu_us_each": figures["setup_cpu"] / count * 1e6,
    }


def _wanted(table: Table) -> list[Wanted]:
    cpu = table.median(ATTACHED, "server_cpu") - table.median(NOBODY, "server_cpu")
    found = [
        Wanted("KiB of RSS each", table.median(ATTACHED, "kib_each"), 4),
        Wanted("CPU that all of them cost while idle, of a core", cpu, 0.01),
    ]
    for name in (SIGNED_IN, AGAIN):
        ratio = table.ratio(BARE, name, "cpu_us_each")
        found.append(Wanted(f"set-up, {name} / {BARE}, per CPU second", ratio, 1.5, at_least=True))
    return found
