"""What the command line says of the HTTP door."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_side.command_line import WrongUse, port_of

if TYPE_CHECKING:
    from agent_side.doors.gate import HttpPlace

HTTP_PORT = 5173  # as of ferret's server
TOKEN_VARIABLE = "FERRET_SERVER_TOKEN"  # noqa: S105  its name


def place_of(text: str) -> tuple[str, int]:
    """Read HOST:PORT, or one of both alone."""
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdigit():
        return text, HTTP_PORT
    return host.strip("[]") or "127.0.0.1", 0 if port == "0" else port_of(port)


def add_http(parser: argparse.ArgumentParser) -> None:
    """Add what an HTTP door is told."""
    parser.add_argument(
        "--http",
        type=place_of,
        nargs="?",
        const=("127.0.0.1", HTTP_PORT),
        metavar="HOST:PORT",
        help="serve programs over HTTP and event streams (127.0.0.1:5173)",
    )
    parser.add_argument(
        "--auth-token", metavar="TOKEN", help="what programs show (else FERRET_SERVER_TOKEN)"
    )
    parser.add_argument(
        "--ide-schema",
        choices=("true", "false"),
        default="true",
        help="whether streams have code/diff, terminal/output and the like",
    )


def http_place(chosen: argparse.Namespace, environ: Mapping[str, str]) -> HttpPlace | None:
    """Give where programs are served, if they are; raises WrongUse."""
    if chosen.http is None:
        return None
    from agent_side.doors.gate import HttpPlace

    host, port = chosen.http
    token = chosen.auth_token or environ.get(TOKEN_VARIABLE, "")
    place = HttpPlace(host, port, token, chosen.ide_schema == "true")
    if not place.loopback and not token:
        raise WrongUse(
            f"{place.url} is open to other machines: set {TOKEN_VARIABLE}, or serve 127.0.0.1"
        )
    if not place.loopback:
        warning = f"WARNING: {place.url} is open to other machines, and nothing on it is encrypted"
        print(f"chimera-bridge: {warning}", file=sys.stderr, flush=True)  # noqa: T201
    return place
