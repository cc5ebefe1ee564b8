"""Run a measurement by its name: ``./dev bench NAME``."""

from __future__ import annotations

import importlib
import sys

MEASUREMENTS = {
    "fanout": "deliveries per CPU second in several shapes, beside other servers",
    "latency": "at a fixed rate, stored: one process; agent and dashboard on two",
    "idle": "5,000 dashboards that only stay: memory, CPU, how fast they come",
    "uplink": "entries stored and acknowledged for one connector",
    "replay": "the newest page of a long session, and all of it",
    "growth": "cost for 1 to 1,000 dashboards and sessions",
    "decide": "from the tap on a phone to the agent",
    "console": "one dashboard that watches 1,000 sessions",
    "undo": "200 random turns in random folders, undone and compared; times beside git stash",
    "pipe": "1,000 updates a second from an agent to an editor, beside a bare pipe",
    "report": "write what was measured into docs/performance.md, with plots",
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("measurements (./dev bench NAME --help tells their options):")
        for name, what in MEASUREMENTS.items():
            print(f"  {name:10} {what}")
        return 0
    name, *rest = arguments
    if name not in MEASUREMENTS:
        known = ", ".join(MEASUREMENTS)
        print(f"./dev bench: no measurement {name!r}; there are {known}", file=sys.stderr)
        return 2
    return int(importlib.import_module(f"bench.{name}").main(rest))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
