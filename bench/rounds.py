"""Several servers in turn, round by round: what machine and moment do to one they do to all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from bench.installing import NotHere
from bench.programs import CannotCompile, compiled
from bench.servers import Running, before_others
from bench.table import Figures, Table

Maker = Callable[[], AbstractContextManager[Running]]
Measure = Callable[[Running], Figures]


class CannotMeasure(Exception):
    """A server's figures would mean nothing; says why."""


def play(servers: Mapping[str, Maker], measure: Measure, rounds: int, must: set[str]) -> Table:
    """Measure each server once a round; one that is not in ``must`` may be missing or fail."""
    table = Table()
    for number in range(1, rounds + 1):
        for name, start in servers.items():
            if name in table.unmeasured:
                continue
            _say(f"round {number} of {rounds}: {name}")
            try:
                with start() as running:
                    table.add(name, measure(running))
                    table.versions[name] = running.version
            except (NotHere, CannotMeasure, RuntimeError) as error:
                if name in must:
                    raise CannotMeasure(f"{name}: {error}") from error
                table.give_up(name, str(error))
    _say("")
    return table


def run_load(program: str, options: list[str], running: Running) -> Figures:
    """Run a load client on a server; raises CannotMeasure when it says so."""
    try:
        command = [str(compiled(program)), "-p", str(running.port)]
    except CannotCompile as error:
        raise CannotMeasure(str(error)) from None
    for pid in running.pids:
        command += ["-k", str(pid)]
    # Latin-1: a prepared message may be of bytes.
    encoded = [one.encode("latin-1") for one in (*command, *options, *running.options)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(encoded, start_new_session=True, **pipes) as client:
        before_others(client.pid)
        said, complaint = client.communicate()
    if client.returncode:
        raise CannotMeasure(complaint.decode(errors="replace").strip()[:500])
    figures: Figures = json.loads(said)
    return figures


def _say(what: str) -> None:
    print(f"\r{what:70}" + ("" if what else "\r"), end="", file=sys.stderr, flush=True)
