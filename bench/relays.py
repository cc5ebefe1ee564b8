"""Relay processes over one Valkey, and what lets clients in: the product as it is served."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import psutil

from bench.servers import SERVER_CPU, Running, before_others, free_port, pinned, process, wait_for
from bridge.embedded import EmbeddedValkey
from bridge.identity import Kind
from bridge.protocol import acp, entry, jsonrpc, uplink
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY
from bridge.tokens import Tokens

AGENT = "bench-agent"
TENANT = "bench"
SESSION = "bench-{:04d}"
SESSION_PATTERN = "bench-@S"  # what the paced client puts a session's number into


@dataclass
class Relays(Running):
    """What runs: relay processes over one store, and the keys tokens are made with."""

    ports: list[int] = field(default_factory=list)  # the last one's is ``port``
    store_url: str = ""
    folder: Path = Path()
    viewers: list[str] = field(default_factory=list)  # tokens of dashboards, one each
    lines: list[str] | None = None  # what a dashboard says; None: it attaches
    epoch: int = field(default_factory=lambda: time.time_ns() // 10**6)

    def token(self, kind: Kind, subject: str = "bench", role: Role = Role.VIEWER) -> str:
        """Give a token for an hour."""
        return Tokens(self.folder / "keys").issue(kind, subject, TENANT, role, 3600)

    def people(self, count: int) -> list[str]:
        """Give a token for each of so many people."""
        tokens = Tokens(self.folder / "keys")
        names = (f"person-{number}" for number in range(count))
        return [tokens.issue("person", name, TENANT, Role.VIEWER, 3600) for name in names]

    def hello(self, sessions: int) -> bytes:
        """Give a connector's first message, with the cards of its sessions."""
        names = [SESSION.format(number) for number in range(sessions)]
        params = uplink.Hello(
            self.epoch,
            "bench-writer",
            uplink.ConnectorCard("bench"),
            [uplink.AgentCard(AGENT, "bench", title="Bench")],
            [uplink.SessionCard(name, AGENT, 1, title="Bench", cwd="/tmp") for name in names],
        )
        return jsonrpc.request(1, uplink.HELLO, msgspec.to_builtins(params))


@contextmanager
def relays(count: int = 1, **settings: str) -> Iterator[Relays]:
    """Serve with so many processes, all on the server's CPU together with the store."""
    folder = Path(tempfile.mkdtemp(prefix="cb-"))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        store = EmbeddedValkey(folder / "valkey")
        with pinned(SERVER_CPU):
            url = store.start()
        stack.callback(store.stop)
        stores = _store_pids(store)
        for pid in stores:
            before_others(pid)
        variables = {**os.environ, "BRIDGE_LOG_LEVEL": "warning", "BRIDGE_REDIS_URL": url}
        variables |= {f"BRIDGE_{name.upper()}": value for name, value in settings.items()}
        variables["BRIDGE_STATE_DIR"] = str(folder)
        variables["BRIDGE_MAX_NEW_SOCKETS_PER_SECOND"] = "0"  # any: how fast they come is measured
        variables["BRIDGE_MAX_SOCKETS_PER_SUBJECT"] = "10000"
        ports = [free_port() for _ in range(count)]
        pids = [stack.enter_context(process(_command(port), variables)) for port in ports]
        for port in ports:
            wait_for(port)
        yield Relays(ports[-1], [*pids, *stores], ports=ports, store_url=url, folder=folder)


def entry_parts(size: int, epoch: int) -> tuple[str, str, str]:
    """Give an update of about ``size`` bytes: before its stamp, before its number, the rest."""
    head = (
        f'{{"jsonrpc":"2.0","method":"{entry.UPDATE}","params":{{"sessionId":"{SESSION_PATTERN}",'
        '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'
    )
    end = f'"}}}},"_meta":{{"{META_KEY}":{{"epoch":{epoch},"seq":'
    tail = f',"at":"{entry.timestamp(epoch)}"}}}}}}}}'
    room = max(0, size - len(head) - len(end) - len(tail) - 19 - 6)
    words = " the quick brown fox jumps over the lazy dog" * (room // 44 + 1)
    return head, words[:room] + end, tail


def dashboard_lines(method: str = acp.LOAD) -> list[str]:
    """Give what a dashboard says: initialize, then the sessions it watches."""
    initialize = {"protocolVersion": acp.PROTOCOL_VERSION, "clientCapabilities": {}}
    attach = {"sessionId": SESSION_PATTERN, "cwd": "/tmp", "mcpServers": []}
    first = jsonrpc.request(1, acp.INITIALIZE, initialize).decode()
    then = jsonrpc.request(2, method, attach).decode()
    return [first, then.replace('"id":2', '"id":@I')]


def _command(port: int) -> list[str]:
    program = str(Path(sys.executable).with_name("chimera-relay"))
    return [program, "serve", "--host", "127.0.0.1", "--port", str(port)]


def _store_pids(store: EmbeddedValkey) -> list[int]:
    if store.pid is None:
        return []
    return [store.pid, *(child.pid for child in psutil.Process(store.pid).children())]
