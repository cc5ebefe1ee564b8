"""An operations console: one dashboard that watches 1,000 sessions, beside dashboards of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.bars import Wanted, measured, options
from bench.paced import Load
from bench.relays import Relays, relays
from bench.servers import Running, c_relay
from bench.table import Figures, Table

C_RELAY, ALONE, WITH = "C relay", "others alone", "with a console"
COLUMNS = {
    "p50_us": ("others p50 us", "{:,.0f}"),
    "p99_us": ("others p99 us", "{:,.0f}"),
    "console_p50_us": ("console p50 us", "{:,.0f}"),
    "console_p99_us": ("console p99 us", "{:,.0f}"),
    "server_cpu": ("server CPU", "{:.2f}"),
}
OTHERS = 50  # sessions that have a dashboard of their own
UNMOVED = 1.5  # times; two runs of the same differ by less


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = options("console", __doc__, rounds=3)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--updates", type=float, default=5, help="a second, of each session")
    chosen = parser.parse_args(arguments)
    rate = chosen.sessions * chosen.updates
    load = Load(rate, chosen.sessions, watched=min(OTHERS, chosen.sessions), seconds=chosen.seconds)
    servers = {C_RELAY: partial(c_relay, "each"), ALONE: relays, WITH: _with_console}
    title = f"{chosen.sessions} sessions with {chosen.updates:g} updates a second each"
    measure = partial(_measure, load)
    return measured("console", title, chosen, servers, measure, COLUMNS, _wanted)


class _Watched(Relays):
    """A relay that a console watches."""


@contextmanager
def _with_console() -> Iterator[Relays]:
    with relays() as running:
        yield _Watched(**vars(running))


def _measure(load: Load, running: Running) -> Figures:
    if not isinstance(running, Relays):  # it knows no sessions: one dashboard that gets everything
        figures = Load(load.rate, seconds=load.seconds).measure(running)
        return figures | {f"console_{name}": figures[name] for name in ("p50_us", "p99_us")}
    consoles = 1 if isinstance(running, _Watched) else 0
    return Load(
        load.rate, load.sessions, watched=load.watched, consoles=consoles, seconds=load.seconds
    ).measure(running)


def _wanted(table: Table) -> list[Wanted]:
    console = "console_p99_us"
    return [
        Wanted(f"p99 of the console / {C_RELAY}", table.ratio(WITH, C_RELAY, console), 10),
        Wanted("p99 of others, with / without it", table.ratio(WITH, ALONE, "p99_us"), UNMOVED),
    ]
