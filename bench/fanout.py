"""Deliveries per CPU second of one relay process, in several shapes, beside other servers.

All run in the same rounds, each on one core with the load on another. The relay is measured as it
is served, with its store on its own core and entries acknowledged when they are in it; and, as the
others keep nothing, without a store.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path

from bench import peers
from bench.plot import Bar, Chart
from bench.report import Section, save
from bench.rounds import CannotMeasure, Maker, play, run_load
from bench.servers import Entry, Running, c_relay, on_load_cpu, relay, uvicorn
from bench.shapes import C_RELAY, OURS, SHAPES, STORED, Shape
from bench.table import Figures, Table

SOCKETS = "bridge.websocket:RelayWebSocketProtocol"
PEERS: dict[str, Maker] = {
    "uWebSockets": peers.uwebsockets,
    "NATS": peers.nats,
    "nchan": peers.nchan,
    "mosquitto": peers.mosquitto,
    "socket.io": peers.socket_io,
    "websockets broadcast": peers.broadcast,
    "FastAPI send_text": peers.naive,
}
SERVERS: dict[str, Maker] = {
    C_RELAY: partial(c_relay, "each"),
    "C relay, sends joined": partial(c_relay, "joined"),
    OURS: partial(uvicorn, "bench.storeless", ws=SOCKETS),
    STORED: relay,
    **PEERS,
}
MUST = set(SERVERS) - set(PEERS)


def main(arguments: list[str]) -> int:
    chosen = _options().parse_args(arguments)
    on_load_cpu()
    for name in chosen.shape or SHAPES:
        try:
            table = _measure(SHAPES[name], chosen)
        except CannotMeasure as error:
            print(f"\n./dev bench: {error}", file=sys.stderr)
            return 1
        _show(SHAPES[name], table, chosen)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench fanout", description=__doc__)
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="default: all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each server and round")
    parser.add_argument("--only", action="append", choices=list(SERVERS), metavar="SERVER")
    parser.add_argument("--json", metavar="FILE", help="write all figures there; - prints them")
    return parser


def _measure(shape: Shape, chosen: argparse.Namespace) -> Table:
    entry = Entry.of(shape.size)
    options = [*shape.options(), *entry.options(), "-d", str(chosen.seconds), "-u", "0.7"]
    servers = {name: SERVERS[name] for name in chosen.only or SERVERS}
    return play(servers, partial(_load, options), chosen.rounds, MUST)


def _load(options: list[str], running: Running) -> Figures:
    figures = run_load("load", options, running)
    if figures["missing"] or figures["closed"]:
        what = f"{figures['missing']} deliveries missing, {figures['closed']} connections closed"
        raise CannotMeasure(what)
    return figures


def _show(shape: Shape, table: Table, chosen: argparse.Namespace) -> None:
    references = [C_RELAY] if C_RELAY in table.rounds else []
    print(f"\n{shape.name}: {shape.title}; medians of {chosen.rounds} rounds\n")
    print(table.text(references))
    if chosen.json:
        figures = json.dumps(table.as_json(references), indent=1) + "\n"
        sys.stdout.write(figures) if chosen.json == "-" else Path(chosen.json).write_text(figures)
    if references and not chosen.only:
        save(_section(shape, table, chosen.rounds))


def _section(shape: Shape, table: Table, rounds: int) -> Section:
    bars = [
        Bar(name, table.ratio(name, C_RELAY), name in (OURS, STORED), shape.wanted.get(name))
        for name in table.rounds
    ]
    bars.sort(key=lambda bar: -bar.value)
    chart = Chart("deliveries per CPU second, times the C relay with one send per message", bars)
    text = f"{table.markdown([C_RELAY])}\n\nMedians of {rounds} rounds. {_verdicts(shape, table)}"
    text += "".join(f"\n\n{name}: not measured: {why}" for name, why in table.unmeasured.items())
    title, command = f"{shape.name}: {shape.title}", f"fanout --shape {shape.name}"
    return Section(f"fanout-{shape.name}", title, text, [chart], command)


def _verdicts(shape: Shape, table: Table) -> str:
    said = [
        f"{name}: {table.ratio(name, C_RELAY):.2f} times the C relay (wanted: {wanted:g})."
        for name, wanted in shape.wanted.items()
    ]
    versions = [f"{name} {number}" for name, number in table.versions.items() if number]
    return " ".join([*said, f"Versions: {', '.join(versions)}."])
