"""How the command line is read: its parser, and the words that may stand for values."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

WRONG_USE = 2


class WrongUse(Exception):
    """The command line asks for what cannot be; the message is one sentence."""


class Parser(argparse.ArgumentParser):
    """A parser that takes no shortened option and says what is wrong in one line."""

    def __init__(self, **options: Any) -> None:
        """Take options in full alone."""
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """End with one line."""
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


class Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __init__(self, **options: Any) -> None:
        """Take no value."""
        super().__init__(**options, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print it and end."""
        from importlib import metadata

        print(f"chimera-bridge {metadata.version('chimera-bridge')}")
        parser.exit()


def folder_of(text: str) -> Path:
    """Read a folder that is there."""
    folder = Path(text).expanduser().absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return folder


def port_of(text: str) -> int:
    """Read a port."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 1 to 65535")
    return int(text)


def number_of(text: str) -> int:
    """Read a whole number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:  # noqa: PLR2004
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is no whole number from 0 on")
    return int(text)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Part the command line at the first ``--``."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def no_odd_command(chosen: argparse.Namespace) -> None:
    """Refuse an empty command after ``--``; raises WrongUse."""
    if chosen.command and chosen.command[0] == "":
        raise WrongUse("the command after -- is empty")


def no_command(chosen: argparse.Namespace) -> None:
    """Refuse a command where none belongs; raises WrongUse."""
    if chosen.command:
        raise WrongUse("nothing may follow -- here")


def add_token(parser: argparse.ArgumentParser) -> None:
    """Add how a relay is shown who this is, and how far it is believed."""
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="the file with the token")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="a further authority, PEM")
    parser.add_argument(
        "--insecure", action="store_true", help="allow plain ws:// to another machine"
    )
