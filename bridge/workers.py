"""Several relay processes at one address: started, watched, and ended or replaced one by one.

Each worker has a listening socket of its own that this process keeps open, so the kernel spreads
connections evenly, and those that come while a worker is being replaced wait instead of failing.
Only this process starts the embedded store. It runs no event loop and no thread: it forks.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import FrameType

from pydantic import SecretStr

from bridge.embedded import EmbeddedValkey
from bridge.server import listen
from bridge.settings import Settings

LOOK_SECONDS = 0.25
START_SECONDS = 30.0
END_SECONDS = 6.0  # a worker ends within five
CALM_SECONDS = 10.0  # a worker that lived so long is started again at once
LONGEST_PAUSE_SECONDS = 5.0

Work = Callable[[Settings, socket.socket, int, Callable[[], None]], int]

logger = logging.getLogger(__name__)


class WorkerFailed(Exception):
    """A worker did not start; it has said why on standard error."""


class Worker:
    """One place for a relay process: its listening socket and who serves it now."""

    def __init__(self, number: int, listener: socket.socket) -> None:
        """Begin without a process."""
        self.number = number
        self.listener = listener
        self.pid = 0
        self.started_at = 0.0
        self.failures = 0
        self.due = 0.0  # when it is started again


class Workers:
    """The relay processes of one address, and the store that they share."""

    def __init__(self, settings: Settings, count: int, work: Work) -> None:
        """Bind the address; ``work`` serves in a process of its own and gives its exit code.

        Raises PortUnavailable.
        """
        self._settings = settings
        self._work = work
        self._workers = [
            Worker(number, one) for number, one in enumerate(_listeners(settings, count))
        ]
        self.port = int(self._workers[0].listener.getsockname()[1])
        self._ending: dict[int, float] = {}  # replaced processes, and when they are killed
        self._embedded: EmbeddedValkey | None = None
        self._caught: set[int] = set()

    def run(self, on_started: Callable[[str], None]) -> None:
        """Serve until SIGTERM or SIGINT; raises StoreUnavailable, OSError or WorkerFailed.

        ``on_started`` is given the store's address when all workers listen.
        """
        with ExitStack() as stack:
            stack.enter_context(self._signals())
            store_url = self._start_store(stack)
            stack.callback(self._end_all)
            for worker in self._workers:
                if not self._start(worker):
                    raise WorkerFailed("a relay process did not start")
            on_started(store_url)
            self._watch()

    def _start_store(self, stack: ExitStack) -> str:
        if self._settings.redis_url is not None:
            return self._settings.redis_url.get_secret_value()
        self._embedded = EmbeddedValkey(self._settings.store_folder)
        url = self._embedded.start()
        stack.callback(self._embedded.stop)
        self._settings = self._settings.model_copy(update={"redis_url": SecretStr(url)})
        return url

    # Watching.

    def _watch(self) -> None:
        while not self._caught & {signal.SIGTERM, signal.SIGINT}:
            select.select([self._wake], [], [], LOOK_SECONDS)
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, 1024)
            if self._embedded is not None:
                self._embedded.look()
            self._bury()
            self._kill_late()
            for worker in self._workers:
                if not worker.pid and time.monotonic() >= worker.due:
                    self._start(worker)
            if signal.SIGHUP in self._caught:
                self._caught.discard(signal.SIGHUP)
                self._replace_all()

    def _bury(self) -> None:
        """Take note of the processes that have ended."""
        for worker in self._workers:
            if worker.pid and (code := _exit_code(worker.pid)) is not None:
                self._died(worker, code)
        for pid in tuple(self._ending):
            if _exit_code(pid) is not None:
                del self._ending[pid]

    def _died(self, worker: Worker, code: int) -> None:
        calm = time.monotonic() - worker.started_at > CALM_SECONDS
        worker.failures = 0 if calm else worker.failures + 1
        pause = min(LONGEST_PAUSE_SECONDS, 0.1 * 2**worker.failures) if worker.failures else 0.0
        worker.pid, worker.due = 0, time.monotonic() + pause
        logger.error(
            "relay process %d ended (%d); starting it again in %.1f s", worker.number, code, pause
        )

    def _replace_all(self) -> None:
        """Have a new process at each place before the old one is ended: SIGHUP."""
        for worker in self._workers:
            old = worker.pid
            if self._start(worker):
                self._end(old)
            else:
                worker.pid = old
                logger.error("the new relay process did not start; the old one goes on")
                return

    def _end(self, pid: int) -> None:
        if pid:
            self._ending[pid] = time.monotonic() + END_SECONDS
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _kill_late(self) -> None:
        now = time.monotonic()
        for pid in [pid for pid, at in self._ending.items() if now >= at]:
            logger.warning("the relay process %d does not end; killing it", pid)
            self._ending[pid] = now + END_SECONDS
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        """End all processes; those who connect meanwhile are refused."""
        for worker in self._workers:
            self._end(worker.pid)
            worker.pid = 0
            worker.listener.close()
        while self._ending:
            self._bury()
            self._kill_late()
            time.sleep(0.02)

    # One process.

    def _start(self, worker: Worker) -> bool:
        """Start a worker and wait until it listens; False when it ended instead."""
        told, telling = os.pipe()
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            self._be(worker, supervisor, telling)
        os.close(telling)
        worker.started_at = time.monotonic()
        try:
            ready = bool(select.select([told], [], [], START_SECONDS)[0] and os.read(told, 1))
        finally:
            os.close(told)
        worker.pid = pid
        if not ready:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            self._died(worker, 1)
        return ready

    def _be(self, worker: Worker, supervisor: int, telling: int) -> None:
        """Be a worker: never comes back."""
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it is for who started this one
            signal.set_wakeup_fd(-1)
            for other in self._workers:
                if other is not worker:
                    other.listener.close()
            code = self._work(self._settings, worker.listener, supervisor, lambda: _tell(telling))
        except BaseException:  # noqa: BLE001 (the top of a process)
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        self._wake, waking = os.pipe()
        for end in (self._wake, waking):
            os.set_blocking(end, False)

        def catch(number: int, _frame: FrameType | None) -> None:
            self._caught.add(number)

        names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
        before = {one: signal.signal(one, catch) for one in names}
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(-1)
            for one, was in before.items():
                signal.signal(one, was)
            os.close(self._wake)
            os.close(waking)


def _tell(pipe: int) -> None:
    os.write(pipe, b"1")
    os.close(pipe)


def _exit_code(pid: int) -> int | None:
    """Give how a child ended; None while it runs."""
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def _listeners(settings: Settings, count: int) -> list[socket.socket]:
    """Bind as many sockets as there are workers; raises PortUnavailable."""
    with listen(settings.host, settings.port) as alone:  # is it free?
        port = int(alone.getsockname()[1])
    return [listen(settings.host, port, shared=True) for _ in range(count)]
