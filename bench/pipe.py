"""Updates from an agent to an editor: straight, through a bare pipe, and through the connector."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Any

import psutil

from bench.report import Section, save
from bench.table import Figures, Table

STRAIGHT, BARE, CONNECTOR = "straight", "bare pipe (cat)", "connector"
COLUMNS = {
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
    "cpu": ("CPU between", "{:.3f}"),
}


@dataclass
class Line:
    """The editor's end: what is written to, what is read from, and the process between."""

    to: IO[bytes]
    source: IO[bytes]
    between: psutil.Process | None


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="./dev bench pipe", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=1000, help="updates a second")
    parser.add_argument("--seconds", type=float, default=5)
    chosen = parser.parse_args(arguments)
    table = Table(COLUMNS)
    for _ in range(chosen.rounds):
        for name, open_line in ((STRAIGHT, _straight), (BARE, _cat), (CONNECTOR, _connector)):
            with (
                tempfile.TemporaryDirectory(prefix="bench-pipe-") as folder,
                open_line(Path(folder)) as line,
            ):
                table.add(name, _measure(line, folder, chosen.rate, chosen.seconds))
    title = f"{chosen.rate:,.0f} updates a second from an agent to an editor beside it"
    says = [
        f"the connector's CPU is {table.ratio(CONNECTOR, BARE, 'cpu'):.1f} times a bare pipe's",
        f"its p50 is {table.ratio(CONNECTOR, BARE, 'p50_us'):.1f} times a bare pipe's",
        f"its p99 is {table.ratio(CONNECTOR, BARE, 'p99_us'):.1f} times a bare pipe's",
    ]
    print(f"\n{title}; medians of {chosen.rounds} rounds\n\n{table.text([])}\n")
    print("\n".join(says))
    text = f"{table.markdown([])}\n\n" + "\n".join(f"- {one}" for one in says)
    save(Section("pipe", title, text))
    return 0


def _measure(line: Line, folder: str, rate: float, seconds: float) -> Figures:
    _call(line, 1, "initialize", {"protocolVersion": 1})
    made = _call(line, 2, "session/new", {"cwd": folder, "mcpServers": []})
    prompt = [{"type": "text", "text": json.dumps([rate, seconds])}]
    before, began = _cpu(line), time.monotonic()
    params = {"sessionId": made["result"]["sessionId"], "prompt": prompt}
    took = _stream(line, params)
    spent = (_cpu(line) - before) / (time.monotonic() - began)
    assert len(took) == round(rate * seconds), f"{len(took)} updates came"
    return {"p50_us": median(took), "p99_us": quantiles(took, n=100)[98], "cpu": spent}


def _stream(line: Line, params: dict[str, Any]) -> list[float]:
    """Prompt, and give how long each update took in microseconds."""
    _say(line, 3, "session/prompt", params)
    took: list[float] = []
    for text in line.source:
        now = time.monotonic_ns()
        message = json.loads(text)
        if message.get("id") == 3 and "method" not in message:
            return took
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "agent_message_chunk":
            took.append((now - int(update["content"]["text"].split(" ")[0])) / 1000)
    raise RuntimeError("the agent left")


def _call(line: Line, id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    _say(line, id_, method, params)
    for text in line.source:
        message: dict[str, Any] = json.loads(text)
        if message.get("id") == id_:
            return message
    raise RuntimeError("the agent left")


def _say(line: Line, id_: int, method: str, params: dict[str, Any]) -> None:
    message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    line.to.write(json.dumps(message).encode() + b"\n")
    line.to.flush()


def _cpu(line: Line) -> float:
    if line.between is None:
        return 0.0
    times = line.between.cpu_times()
    return float(times.user + times.system)


# The three ways.


def _agent() -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("streamer.py"))]


@contextmanager
def _straight(folder: Path) -> Iterator[Line]:
    with _process(_agent(), folder) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        yield Line(agent.stdin, agent.stdout, None)


@contextmanager
def _cat(folder: Path) -> Iterator[Line]:
    with _process(_agent(), folder) as agent, _process(["cat"], folder, agent.stdout) as cat:
        assert agent.stdin is not None
        assert cat.stdout is not None
        yield Line(agent.stdin, cat.stdout, psutil.Process(cat.pid))
        agent.stdin.close()  # cat ends when the agent does


@contextmanager
def _connector(folder: Path) -> Iterator[Line]:
    program = str(Path(sys.executable).with_name("chimera-bridge"))
    command = [program, "connect", "--stdio", "--cwd", str(folder), "--", *_agent()]
    with _process(command, folder) as connector:
        assert connector.stdin is not None
        assert connector.stdout is not None
        yield Line(connector.stdin, connector.stdout, psutil.Process(connector.pid))


@contextmanager
def _process(
    command: list[str], folder: Path, source: IO[bytes] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        stdin=source or subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.stdin is not None:
            process.stdin.close()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
