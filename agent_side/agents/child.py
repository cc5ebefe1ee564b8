"""The operating system's side of an agent: its pipes, its process group, its last words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from agent_side.agents.lines import LineSplitter

LINE_LIMIT = 64 << 20  # bytes; agents send whole files and tool outputs in one line
STDERR_LINE_LIMIT = 64 << 10  # bytes
TAIL_LINES = 50  # of standard error, kept to say why an agent ended
TAIL_LINE_LENGTH = 500  # characters
DRAIN_SECONDS = 2.0  # for output left in the pipes when a stray child of the agent holds them


class Child(asyncio.SubprocessProtocol):
    """A child process that gives its output line by line and is ended with all it started."""

    def __init__(
        self,
        on_line: Callable[[bytes], None],
        on_skip: Callable[[int], None],
        on_end: Callable[[int | None], None],
    ) -> None:
        """Keep who is told of a line, of lines too long to keep, and of the end."""
        self.ended = asyncio.Event()
        self.code: int | None = None  # negative: the signal that ended it
        self.pid: int | None = None  # also its process group's
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._on_line = on_line
        self._on_skip = on_skip
        self._on_end = on_end
        self._out = LineSplitter(LINE_LIMIT)
        self._err = LineSplitter(STDERR_LINE_LIMIT)
        self._lifeline: int | None = None
        self._transport: asyncio.SubprocessTransport | None = None

    @property
    def alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self.pid is not None and not self.ended.is_set()

    async def spawn(self, argv: tuple[str, ...], env: Mapping[str, str], cwd: Path) -> None:
        """Start the program in a session of its own; raises OSError."""
        reading, self._lifeline = os.pipe()
        try:
            await asyncio.get_running_loop().subprocess_exec(
                lambda: self,
                *_guarded(argv, reading),
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                pass_fds=() if sys.platform == "win32" else (reading,),
            )
        except BaseException:
            self._let_go()
            raise
        finally:
            os.close(reading)

    def write(self, line: bytes) -> None:
        """Write to its standard input; nothing happens when that is closed."""
        stdin = self._pipe(0)
        if stdin is not None and not stdin.is_closing():
            cast("asyncio.WriteTransport", stdin).write(line)

    def close_input(self) -> None:
        """Tell it, by the end of its standard input, to end."""
        if (stdin := self._pipe(0)) is not None:
            stdin.close()

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to it and to all it started in its group."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def ends_within(self, seconds: float) -> bool:
        """Wait for its end, at most so long; give whether it came."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.ended.wait(), seconds)
        return self.ended.is_set()

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the process's transport."""
        self._transport = cast("asyncio.SubprocessTransport", transport)  # uvloop's is no subclass
        self.pid = self._transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Give the lines that are whole now."""
        if fd != 1:
            self.tail.extend(shown(line) for line in self._err.feed(data))
            return
        skipped = self._out.skipped
        for line in self._out.feed(data):
            self._on_line(line)
        if self._out.skipped > skipped:
            self._on_skip(self._out.skipped - skipped)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        """Give a last line that has no line feed."""
        if fd == 1:
            self._on_line(self._out.rest())
        elif fd > 1 and (last := self._err.rest()):
            self.tail.append(shown(last))

    def process_exited(self) -> None:
        """End what it left behind, so that the pipes end as well."""
        self.signal_group(signal.SIGKILL)
        asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._close_pipes)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Tell the end: the process is gone and all it wrote is read."""
        if self._transport is not None:
            self.code = self._transport.get_returncode()
            self._transport.close()
        self._let_go()
        self.ended.set()
        self._on_end(self.code)

    def _let_go(self) -> None:
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None

    def _close_pipes(self) -> None:
        for fd in (0, 1, 2):
            if (pipe := self._pipe(fd)) is not None:
                pipe.close()

    def _pipe(self, fd: int) -> asyncio.BaseTransport | None:
        return self._transport.get_pipe_transport(fd) if self._transport else None


def shown(line: bytes) -> str:
    """Give a line as a person may read it."""
    return line.decode("utf-8", "replace").strip()[:TAIL_LINE_LENGTH]


def _guarded(argv: tuple[str, ...], lifeline: int) -> tuple[str, ...]:
    if sys.platform == "win32":
        return argv
    guard = Path(__file__).with_name("guard.py")
    return (sys.executable, "-I", "-S", str(guard), str(lifeline), *argv)
