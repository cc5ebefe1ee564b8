"""Counters and gauges of this process, as Prometheus reads them (text format 0.0.4)."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "bridge_"
_NAME = re.compile(r"[a-z][a-z0-9_]*")

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What this process counted since it started; label values are words of ours, never input."""

    def __init__(self) -> None:
        """Begin with the facts every process has."""
        self._help: dict[str, tuple[str, str]] = {}
        self._counts: dict[str, dict[Labels, float]] = {}
        self._gauges: dict[str, Callable[[], float | Mapping[Labels, float]]] = {}
        self._started = time.time()
        self.gauge("process_id", "the process that answers, of several", os.getpid)
        self.gauge("start_time_seconds", "when the process started", lambda: self._started)
        self.gauge("resident_memory_bytes", "memory of the process", _resident_bytes)
        self.gauge("open_files", "descriptors of the process", _open_files)
        self.gauge("tasks", "tasks of its event loop", _tasks)

    def counter(self, name: str, meaning: str) -> None:
        """Declare a counter, so that it shows before it was used."""
        self._declare(name, meaning, "counter")
        self._counts[name] = {}

    def gauge(
        self, name: str, meaning: str, read: Callable[[], float | Mapping[Labels, float]]
    ) -> None:
        """Declare a value that is read when asked for."""
        self._declare(name, meaning, "gauge")
        self._gauges[name] = read

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        """Add to a declared counter."""
        series = self._counts[name]
        key = tuple(sorted(labels.items()))
        series[key] = series.get(key, 0) + by

    def value(self, name: str, **labels: str) -> float:
        """Give what a counter has come to."""
        return self._counts[name].get(tuple(sorted(labels.items())), 0)

    def text(self) -> str:
        """Write everything, one series a line."""
        lines: list[str] = []
        for name, (kind, meaning) in self._help.items():
            lines += [f"# HELP {PREFIX}{name} {meaning}", f"# TYPE {PREFIX}{name} {kind}"]
            lines += [_line(name, key, value) for key, value in self._series(name).items()]
        return "\n".join(lines) + "\n"

    def _series(self, name: str) -> Mapping[Labels, float]:
        if name in self._counts:
            return self._counts[name] or {(): 0}
        read = self._gauges[name]()
        return read if isinstance(read, Mapping) else {(): read}

    def _declare(self, name: str, meaning: str, kind: str) -> None:
        if not _NAME.fullmatch(name) or name in self._help:
            raise ValueError(f"{name!r} cannot name a new metric")
        self._help[name] = (kind, meaning)


def _line(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{key}="{_escape(word)}"' for key, word in labels)
    number = f"{value:.0f}" if value == int(value) else repr(value)
    return f"{PREFIX}{name}{{{shown}}} {number}" if shown else f"{PREFIX}{name} {number}"


def _escape(word: str) -> str:
    return word.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _resident_bytes() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError):  # not Linux
        return 0
    return pages * 4096


def _tasks() -> float:
    try:
        return len(asyncio.all_tasks())
    except RuntimeError:  # no loop runs
        return 0


def _open_files() -> float:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return 0
