"""Starts an agent and ends its whole process group when the connector is gone.

    python -I -S guard.py LIFELINE PROGRAM [ARGUMENT...]

LIFELINE is the read end of a pipe whose other end only the connector holds: it closes when the
connector ends in whatever way, ``kill -9`` included, on Linux and macOS alike (PR_SET_PDEATHSIG
would reach the agent alone, not what the agent started). Standard input, output and error are the
agent's; the guard itself uses none of them. Standard library only: it costs 20 ms at each start.
"""

from __future__ import annotations

import os
import select
import signal
import sys

GRACE_SECONDS = 3.0  # between asking the group to end and ending it
CLOSING_SECONDS = 0.05  # an agent that sees the end of its input may be faster than our pipe
NOT_STARTED = 127  # as shells say it


def main(lifeline: int, command: list[str]) -> None:
    """Run the command to its end, or to the connector's, and end in the same way."""
    os.set_inheritable(lifeline, False)
    wake_out, wake_in = os.pipe()
    os.set_blocking(wake_in, False)
    signal.set_wakeup_fd(wake_in)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, _note)  # a handler, not SIG_IGN, which the agent would inherit
    child = os.fork()
    if child == 0:
        _become(command)
    _let_go_of_stdio()
    status = _wait(child, lifeline, wake_out)
    _end_like(status)


def _note(_number: int, _frame: object) -> None:
    """Do nothing: the wake-up pipe has it."""


def _become(command: list[str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and exec would pass that on
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_STARTED)


def _let_go_of_stdio() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _wait(child: int, lifeline: int, wake: int) -> int:
    watched, timeout = [lifeline, wake], None
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if lifeline not in watched or select.select([lifeline], [], [], CLOSING_SECONDS)[0]:
                os.killpg(0, signal.SIGKILL)
            return status
        ready, _, _ = select.select(watched, [], [], timeout)
        if wake in ready:
            os.read(wake, 4096)
        elif lifeline in ready:
            watched, timeout = [wake], GRACE_SECONDS
            os.killpg(0, signal.SIGTERM)
        elif not ready:
            os.killpg(0, signal.SIGKILL)


def _end_like(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
