"""A command line as its owner gives it: split by a shell's rules, and never run by a shell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import PureWindowsPath

# Launchers that cmd.exe reads, whatever starts them, and what it would make of an argument.
LAUNCHERS = (".cmd", ".bat")
CMD_SYNTAX = frozenset('&|<>^%"\r\n')


class CommandRefused(ValueError):
    """A command line that cannot be run as it is meant; the message says why."""


def split_line(line: str) -> tuple[str, ...]:
    """Give the words of a command line: a pipe in it is a word; raises CommandRefused."""
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise CommandRefused(f"the command {line[:80]!r} cannot be read: {error}") from None
    if not words or not words[0]:
        raise CommandRefused("the command is empty")
    return words


def refuse_cmd_syntax(argv: Sequence[str], platform: str = sys.platform) -> None:
    """Refuse arguments that cmd.exe would read as commands of its own; raises CommandRefused.

    They are not escaped: how differs from launcher to launcher, and a wrong guess runs them.
    """
    if platform != "win32" or PureWindowsPath(argv[0]).suffix.lower() not in LAUNCHERS:
        return
    for argument in argv[1:]:
        if CMD_SYNTAX.intersection(argument):
            raise CommandRefused(
                f"{argument[:80]!r} cannot be given to {argv[0]}: cmd.exe would read a part of it "
                "as its own; name the program itself instead of its .cmd"
            )
