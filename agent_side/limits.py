"""The owner's limits on a command line: what counts from afar, what is asked, what is written."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_side.command_line import Parser, WrongUse, folder_of, number_of

if TYPE_CHECKING:
    from agent_side.redaction import Redaction

PRESETS = ("read-only", "strict", "suggest", "auto", "full")  # the narrowest first
SANDBOXES = ("read-only", "workspace-write", "workspace-write-network", "off")
RISKS = ("low", "medium", "high")
NAMES = (
    *("approval", "remote_approval", "sandbox", "two_people", "unanswered", "relay_rules"),
    "snapshot_mb",
)


def add_limits(parser: argparse.ArgumentParser) -> None:
    """Give a command the options for them."""
    _add_trust(parser)
    parser.add_argument(
        "--approval",
        choices=PRESETS,
        default="suggest",
        help="what is decided without a person (default: suggest, nothing but by your rules)",
    )
    parser.add_argument(
        "--remote-approval",
        choices=PRESETS,
        default="",
        help="the widest preset that remote clients may set (default: none)",
    )
    parser.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="off",
        help="what the agent's process may write and reach, for its whole life (default: off)",
    )
    parser.add_argument(
        "--two-people",
        choices=RISKS,
        default="",
        metavar="RISK",
        help="from this risk on an approval from afar takes two people (default: never)",
    )
    parser.add_argument(
        "--unanswered",
        default="wait",
        metavar="POLICY",
        help="what becomes of questions that nobody answers: wait, or such as "
        "expire:30m, deny:1h, escalate:5m,expire:1h (default: wait)",
    )
    parser.add_argument(
        "--relay-rules",
        choices=("auto", "on", "off"),
        default="auto",
        help="whether rules of the relay may allow something (default: auto, "
        "while no signature is needed)",
    )
    parser.add_argument(
        "--snapshot-mb",
        type=number_of,
        default=2048,
        metavar="MB",
        help="what copies before turns may take on disk; 0: no copies, receipts and undo "
        "(default: 2048)",
    )


def _add_trust(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signed",
        choices=("auto", "required", "off"),
        default="auto",
        help="whether answers and messages from afar must be signed by a paired device "
        "(default: auto, once one was paired)",
    )
    parser.add_argument(
        "--redact",
        choices=("on", "off"),
        default="on",
        help="keep keys and tokens out of what goes to the relay (default: on)",
    )
    parser.add_argument(
        "--redact-pattern",
        action="append",
        default=[],
        metavar="REGEX",
        help="keep out what this matches, too; repeat for more",
    )


def limits_of(chosen: argparse.Namespace) -> dict[str, Any]:
    """Give what was chosen, as the connector's settings name it."""
    return {name: getattr(chosen, name) for name in NAMES}


def redaction_of(chosen: argparse.Namespace) -> Redaction:
    """Give what is kept from the relay; raises WrongUse."""
    from agent_side.agents.environment import secret_values
    from agent_side.redaction import BadPattern, Redaction

    own = secret_values(os.environ)
    try:
        return Redaction(on=chosen.redact == "on", patterns=chosen.redact_pattern, values=own)
    except BadPattern as error:
        raise WrongUse(f"--redact-pattern: {error}") from None


def add_rules(commands: Any, run: Callable[[argparse.Namespace], int]) -> None:
    """Add the command for the owner's rules."""
    rules = commands.add_parser("rules", help="what is always or never answered without you")
    actions = rules.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    listing = actions.add_parser("list", help="list the rules that hold")
    add = actions.add_parser("add", help="make a rule for one exact command in one folder")
    add.add_argument("verb", choices=("always", "never"), help="allow it, or refuse it")
    add.add_argument("line", metavar="COMMAND", help="the command, in quotes")
    add.add_argument("--cwd", type=folder_of, metavar="DIR", help="the folder (default: this one)")
    add.add_argument(
        "--days", type=int, default=30, help="how long it holds; 0: without end (default: 30)"
    )
    remove = actions.add_parser("remove", help="take a rule out")
    remove.add_argument("rule", metavar="ID", help="as `rules list` shows it")
    for parser, action in ((listing, "list"), (add, "add"), (remove, "remove")):
        parser.add_argument("--name", help="of the connector, where several have run")
        parser.set_defaults(run=run, action=action)
