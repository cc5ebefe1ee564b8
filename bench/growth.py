"""What 1, 10, 100 and 1,000 dashboards or sessions cost: CPU for each delivery and each entry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

from bench.bars import Wanted, measured, options
from bench.paced import Load
from bench.relays import Relays, relays
from bench.servers import Running
from bench.table import Figures, Table

COUNTS = (1, 10, 100, 1000)
DASHBOARDS = {f"{count:,} dashboards of one session": count for count in COUNTS}
SESSIONS = {f"{count:,} sessions of one dashboard": count for count in COUNTS}
ENTRIES = 100  # a second, to dashboards of one session
SPREAD = 1000  # a second, over all sessions
COLUMNS = {
    "us_per_delivery": ("CPU us per delivery", "{:,.1f}"),
    "us_per_entry": ("CPU us per entry", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
    "server_cpu": ("server CPU", "{:.2f}"),
}
MARGIN = 1.2  # measuring is not exact


class _Loaded(Relays):
    """A relay, and the load that it gets."""

    load: Load


def main(arguments: list[str]) -> int:
    """Run it."""
    chosen = options("growth", __doc__, rounds=3).parse_args(arguments)
    seconds = chosen.seconds
    loads = {
        name: Load(ENTRIES, dashboards=count, seconds=seconds) for name, count in DASHBOARDS.items()
    } | {name: Load(SPREAD, sessions=count, seconds=seconds) for name, count in SESSIONS.items()}
    servers = {name: partial(_loaded, load) for name, load in loads.items()}
    title = "cost growth, entries of 300 bytes, stored"
    return measured("growth", title, chosen, servers, _measure, COLUMNS, _wanted)


@contextmanager
def _loaded(load: Load) -> Iterator[Relays]:
    with relays() as running:
        found = _Loaded(**vars(running))
        found.load = load
        yield found


def _measure(running: Running) -> Figures:
    assert isinstance(running, _Loaded)
    load = running.load
    figures = load.measure(running)
    per_entry = figures["server_cpu"] / load.rate * 1e6
    return figures | {"us_per_entry": per_entry, "us_per_delivery": per_entry / load.dashboards}


def _wanted(table: Table) -> list[Wanted]:
    """Linear or better: ten times as many never cost more than ten times as much."""
    found = []
    for names, figure in ((list(DASHBOARDS), "us_per_delivery"), (list(SESSIONS), "us_per_entry")):
        for few, many in pairwise(names):
            ratio = table.ratio(many, few, figure)
            found.append(Wanted(f"{COLUMNS[figure][0]}, {many} / {few}", ratio, MARGIN))
    return found
