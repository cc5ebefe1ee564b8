"""Deliveries per second of one relay process, beside a minimal C relay and a naive route."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from bench.programs import CannotCompile, compiled
from bench.servers import Entry, Running, c_relay, on_load_cpu, relay, uvicorn
from bench.table import Figures, Table

C_RELAY, NAIVE, OURS = "C relay", "naive FastAPI", "chimera-relay, stored"
TARGET = 8.0  # times the naive route
SOCKETS = "bridge.websocket:RelayWebSocketProtocol"
Maker = Callable[[int], AbstractContextManager[Running]]
SERVERS: dict[str, Maker] = {
    C_RELAY: lambda _epoch: c_relay("each"),
    "C relay, sends joined": lambda _epoch: c_relay("joined"),
    NAIVE: lambda _epoch: uvicorn("bench.naive", ws="websockets-sansio"),
    "our hub, no store": lambda _epoch: uvicorn("bench.storeless", ws=SOCKETS),
    OURS: relay,
}


def main(arguments: list[str]) -> int:
    chosen = _options().parse_args(arguments)
    try:
        table = _run(chosen)
    except CannotCompile as error:
        print(f"./dev bench: {error}", file=sys.stderr)
        return 1
    references = [name for name in (C_RELAY, NAIVE) if name in table.rounds]
    print(_what(chosen))
    print(table.text(references))
    if NAIVE in table.rounds and OURS in table.rounds:
        print(f"\n{OURS}: {table.ratio(OURS, NAIVE):.1f} x {NAIVE} (wanted: {TARGET:.0f})")
    figures = json.dumps(table.as_json(references), indent=1)
    if chosen.json == "-":
        print(figures)
    elif chosen.json:
        Path(chosen.json).write_text(figures + "\n")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench fanout", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each server and round")
    parser.add_argument("--dashboards", type=int, default=100)
    parser.add_argument("--size", type=int, default=300, help="bytes of an update")
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--only", action="append", choices=list(SERVERS), metavar="SERVER")
    parser.add_argument("--json", metavar="FILE", help="write all figures there; - prints them")
    return parser


def _run(chosen: argparse.Namespace) -> Table:
    load, table = compiled("load"), Table()
    compiled("relay")
    on_load_cpu()
    names = chosen.only or list(SERVERS)
    for number in range(1, chosen.rounds + 1):
        for name in names:
            print(f"\rround {number} of {chosen.rounds}: {name:30}", end="", file=sys.stderr)
            epoch = int(time.time() * 1000)
            with SERVERS[name](epoch) as running:
                table.add(name, _measure(load, running, Entry.of(chosen.size, epoch), chosen))
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return table


def _measure(load: Path, running: Running, entry: Entry, chosen: argparse.Namespace) -> Figures:
    command = [str(load), "-p", str(running.port), "-n", str(chosen.dashboards)]
    command += ["-w", str(chosen.in_flight), "-d", str(chosen.seconds)]
    for pid in running.pids:
        command += ["-k", str(pid)]
    command += [*entry.options(), *running.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"\n{done.stderr.strip()}")
    figures: Figures = json.loads(done.stdout)
    if figures["missing"] or figures["closed"]:
        raise SystemExit(f"\n{figures['missing']} deliveries are missing: {figures}")
    return figures


def _what(chosen: argparse.Namespace) -> str:
    return (
        f"1 session x {chosen.dashboards} dashboards, updates of {chosen.size} bytes, "
        f"{chosen.in_flight} in flight; medians of {chosen.rounds} rounds of {chosen.seconds:g} s; "
        "server on one CPU, load on the other\n"
    )
