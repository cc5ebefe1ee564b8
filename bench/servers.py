"""The servers of a measurement: each a process of its own on one CPU, and how it is spoken to."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from bench.programs import compiled
from bridge.protocol import acp, entry, jsonrpc, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY
from bridge.tokens import Tokens

SERVER_CPU, LOAD_CPU = 1, 0
SESSION = "bench-@S"  # the load client puts the session's number in
AGENT = "bench-agent-@S"
TENANT = "bench"
EPOCH = int(time.time() * 1000)
STARTS_WITHIN_SECONDS = 20


@dataclass(frozen=True)
class Entry:
    """An update of a given size, in the three parts that do not change."""

    head: str
    mid: str
    tail: str

    @classmethod
    def of(cls, size: int) -> Entry:
        """Make an update of about ``size`` bytes, its numbers included."""
        head = (
            f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{SESSION}",'
            '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
        )
        mid = f'"}}}},"_meta":{{"{META_KEY}":{{"epoch":{EPOCH},"seq":'
        tail = f',"at":"{entry.timestamp(EPOCH)}"}}}}}}}}'
        room = size - len(head) - len(mid) - len(tail) - 19 - 6 - 2
        words = "the quick brown fox jumps over the lazy dog " * (max(0, room) // 44 + 1)
        return cls(head, f" {words}"[: max(0, room)] + mid, tail)

    def options(self) -> list[str]:
        """What the load client needs to make it."""
        return ["-e", self.head, "-m", self.mid, "-t", self.tail]


@dataclass
class Running:
    """A server that listens: its port, its processes, and how the load client speaks to it."""

    port: int
    pids: list[int]
    options: list[str] = field(default_factory=list)
    version: str = ""


@contextmanager
def c_relay(mode: str) -> Iterator[Running]:
    """The minimal relay: ``each`` message a send, or all of one read ``joined``."""
    port = free_port()
    with process([str(compiled("relay")), str(port), mode]) as pid:
        wait_for(port)
        yield Running(port, [pid])


@contextmanager
def uvicorn(module: str, *, ws: str) -> Iterator[Running]:
    """A FastAPI application of this package."""
    port = free_port()
    options = ["--log-level", "error", "--no-access-log", "--ws-per-message-deflate", "false"]
    options += ["--loop", "uvloop", "--ws", ws, "--port", str(port)]
    with process([sys.executable, "-m", "uvicorn", *options, f"{module}:app"]) as pid:
        wait_for(port)
        yield Running(port, [pid])


@contextmanager
def relay() -> Iterator[Running]:
    """The product: ``chimera-relay serve`` with its own Valkey, tokens, uplink and /acp."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="cb-"))
    variables = {**os.environ, "BRIDGE_STATE_DIR": str(folder), "BRIDGE_LOG_LEVEL": "warning"}
    program = str(Path(sys.executable).with_name("chimera-relay"))
    command = [program, "serve", "--host", "127.0.0.1", "--port", str(port)]
    try:
        with process(command, variables) as pid:
            wait_for(port)
            children = psutil.Process(pid).children(recursive=True)
            dialog = _dialog(Tokens(folder / "keys"))
            yield Running(port, [pid, *(child.pid for child in children)], dialog)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_load_cpu() -> None:
    """Move this process to the CPU of the load."""
    _pin(LOAD_CPU)


# The real dialogs.


def _dialog(tokens: Tokens) -> list[str]:
    """Say hello as a connector does, and load the session as a dashboard does."""
    hello = uplink.Hello(
        EPOCH,
        "bench-writer-@S",
        uplink.ConnectorCard("bench"),
        [uplink.AgentCard(AGENT, "bench", title="Bench")],
        [uplink.SessionCard(SESSION, AGENT, 1, title="Bench", cwd="/tmp")],
    )
    initialize = {"protocolVersion": acp.PROTOCOL_VERSION, "clientCapabilities": {}}
    load = {"sessionId": SESSION, "cwd": "/tmp", "mcpServers": []}
    options = ["-a", "-Q", "/uplink", "-P", "/acp"]
    options += ["-g", f"Sec-WebSocket-Protocol: {uplink.SUBPROTOCOL}"]
    agent = tokens.issue("agent", "bench", TENANT, Role.OPERATOR, 3600)
    person = tokens.issue("person", "bench", TENANT, Role.VIEWER, 3600)
    options += ["-g", f"Authorization: Bearer {agent}", "-h", f"Authorization: Bearer {person}"]
    options += ["-j", _request(1, uplink.HELLO, msgspec.to_builtins(hello)), "-J", '"id":1']
    options += ["-s", _request(1, acp.INITIALIZE, initialize), "-S", '"id":1']
    return [*options, "-s", _request(2, acp.LOAD, load), "-S", '"id":2']


def _request(id_: int, method: str, params: object) -> str:
    return jsonrpc.request(id_, method, params).decode()


# Processes.


@contextmanager
def process(command: list[str], variables: dict[str, str] | None = None) -> Iterator[int]:
    """Run a server on its CPU, and end it."""
    with pinned(SERVER_CPU):  # what is started now inherits it
        started = subprocess.Popen(
            command, env=variables, start_new_session=True, stdout=subprocess.DEVNULL
        )
    try:
        before_others(started.pid)
        yield started.pid
    finally:
        started.terminate()
        with suppress(subprocess.TimeoutExpired):
            started.wait(10)
        started.kill()
        started.wait()


@contextmanager
def pinned(cpu: int) -> Iterator[None]:
    """Keep to a CPU for a while."""
    before = _pin(cpu)
    try:
        yield
    finally:
        _pin(*before)


def before_others(pid: int) -> None:
    """Let a process, in a session of its own, run before what else the machine does."""
    with suppress(OSError):  # not Linux, or not root
        Path(f"/proc/{pid}/autogroup").write_text("-19")


def _pin(*cpus: int) -> set[int]:
    """Keep to these CPUs; gives those of before. A machine with one measures all the same."""
    if not hasattr(os, "sched_setaffinity"):
        return set()
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, cpus)
    return before


def wait_for(port: int) -> None:
    """Wait until somebody listens on a port."""
    end = time.monotonic() + STARTS_WITHIN_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after {STARTS_WITHIN_SECONDS} s")
