"""Latency at a fixed rate, counted from when an entry was due; the relay stores every entry."""

from __future__ import annotations

from functools import partial

from bench.bars import Wanted, measured, options
from bench.paced import Load
from bench.relays import relays
from bench.servers import c_relay
from bench.table import Table

C_RELAY, ONE, TWO = "C relay", "one process", "agent on A, dashboard on B"
COLUMNS = {
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
    "p999_us": ("p99.9 us", "{:,.0f}"),
    "server_cpu": ("server CPU", "{:.2f}"),
}


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = options("latency", __doc__)
    parser.add_argument("--rate", type=float, default=1000, help="entries per second")
    chosen = parser.parse_args(arguments)
    load = Load(rate=chosen.rate, seconds=chosen.seconds)
    title = f"{chosen.rate:g} entries of 300 bytes a second, from when each was due"
    servers = {
        C_RELAY: partial(c_relay, "each"),
        ONE: partial(relays, 1),
        TWO: partial(relays, 2),
    }
    return measured("latency", title, chosen, servers, load.measure, COLUMNS, _wanted)


def _wanted(table: Table) -> list[Wanted]:
    return [
        Wanted(f"p50 of {name} / {C_RELAY}", table.ratio(name, C_RELAY, "p50_us"), limit)
        for name, limit in ((ONE, 2), (TWO, 5))
    ]
