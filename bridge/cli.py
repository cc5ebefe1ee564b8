"""The command ``chimera-relay``: serve, token, tokens, link, keys, audit, doctor."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

from bridge import admin, serving
from bridge.command_line import FAULT, WRONG_USE

ROLES = ("viewer", "approver", "operator", "admin")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TTL = re.compile(r"(\d{1,9})([smhd])")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the process's exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULT


def seconds(text: str) -> int:
    """Read a lifetime such as 90s, 15m, 8h or 30d."""
    match = _TTL.fullmatch(text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no lifetime: write 90s, 15m, 8h or 30d")
    return int(match[1]) * _UNITS[match[2]]


def _parser() -> argparse.ArgumentParser:
    parser = _Command(
        prog="chimera-relay",
        description="The relay between coding agents and the people who answer them. "
        "Settings are environment variables named BRIDGE_*; see docs/settings.md.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_token(commands)
    _add_tokens(commands)
    _add_link(commands)
    _add_keys(commands)
    _add_audit(commands)
    doctor = commands.add_parser("doctor", help="check settings, keys, store, port and page")
    doctor.set_defaults(run=admin.doctor)
    return parser


class _Command(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib import metadata

        print(f"chimera-relay {metadata.version('chimera-bridge')}")
        parser.exit()


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="run the relay")
    serve.set_defaults(run=serving.serve)
    serve.add_argument("--host", help="the address to listen on (BRIDGE_HOST, else 127.0.0.1)")
    serve.add_argument("--port", help="the port, 0 for a free one (BRIDGE_PORT, else 8787)")
    serve.add_argument("--workers", metavar="N", help="relay processes (BRIDGE_WORKERS, else 1)")
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    serve.add_argument("--link", action="store_true", help="print a sign-in link at start")


def _add_token(commands: Any) -> None:
    token = commands.add_parser("token", help="print a token for a person or an agent")
    token.set_defaults(run=admin.token)
    token.add_argument("--kind", required=True, choices=("person", "agent"))
    token.add_argument("--subject", required=True, help="who it speaks for: alice, build-03")
    _add_whose(token, role_for="a person's role (default: viewer)", role=None)
    token.add_argument(
        "--ttl",
        type=seconds,
        metavar="TIME",
        help="its life: 90s, 15m, 8h, 30d (default: 15m for a person, 30d for an agent)",
    )
    token.add_argument(
        "--refresh",
        action="store_true",
        help="print it as JSON, with a refresh token that gives the next one, for 90 days",
    )


def _add_link(commands: Any) -> None:
    link = commands.add_parser(
        "link", help="print a link that signs a browser in once, within ten minutes"
    )
    link.set_defaults(run=admin.link)
    link.add_argument("--subject", default=None, help="who signs in (default: this user)")
    _add_whose(link, role_for="their role (default: admin)", role="admin")


def _add_keys(commands: Any) -> None:
    keys = commands.add_parser("keys", help="list, rotate or retire the signing keys")
    keys.set_defaults(run=admin.keys)
    keys.add_argument(
        "action",
        choices=("list", "rotate", "retire"),
        help="rotate: a new key signs from now on; retire: what an older key signed ends",
    )
    keys.add_argument("key", nargs="?", help="the number of the key to retire")


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser("audit", help="check or print the record of who did what")
    audit.set_defaults(run=admin.audit)
    audit.add_argument(
        "action",
        choices=("verify", "export"),
        help="verify: is any record changed, removed or added; export: print all as JSON lines",
    )
    audit.add_argument("--tenant", default="default", help="whose (default: default)")


def _add_whose(parser: argparse.ArgumentParser, *, role_for: str, role: str | None) -> None:
    parser.add_argument("--tenant", default="default", help="whose data (default: default)")
    parser.add_argument("--role", choices=ROLES, default=role, help=role_for)


def _add_tokens(commands: Any) -> None:
    tokens = commands.add_parser("tokens", help="list the tokens in use, or revoke one")
    tokens.set_defaults(run=admin.tokens)
    tokens.add_argument(
        "action", choices=("list", "revoke"), help="revoke: what lives from it ends within a second"
    )
    tokens.add_argument("token", nargs="?", help="the token to revoke, or its id")
    tokens.add_argument("--tenant", default="default", help="whose (default: default)")


if __name__ == "__main__":
    sys.exit(main())
