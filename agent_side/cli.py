"""The command ``chimera-bridge``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_side import undo_line
from agent_side.agent_options import add_agent, add_pass_env, command_words, model_of
from agent_side.command_line import (
    WRONG_USE,
    Parser,
    Version,
    WrongUse,
    add_token,
    folder_of,
    no_command,
    port_of,
    split,
)
from agent_side.hook_line import add_hook
from agent_side.http_options import add_http, http_place
from agent_side.limits import add_limits, add_rules, limits_of, redaction_of
from agent_side.trust_command import add_trust

if TYPE_CHECKING:
    from agent_side.agents.process import AgentCommand
    from agent_side.faults import ExitReason
    from agent_side.settings import RelayTarget

FAULT, NO_AGENT = 1, 5
DEMO = "demo"  # works for whoever asks for it, never by itself in a person's own folder
EDITORS = ("zed", "jetbrains", "vscode", "generic")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the process's exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    _open_standard_streams()
    signal.signal(signal.SIGTERM, _interrupted)  # until the event loop takes it over
    own, command = split(given)
    chosen = _parser().parse_args(own)
    chosen.command = command
    try:
        return int(chosen.run(chosen))
    except WrongUse as error:
        return _end(WRONG_USE, str(error))
    except KeyboardInterrupt:
        return 0


def _open_standard_streams() -> None:
    """Fill in streams that were closed, or what is opened next would take their numbers."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _interrupted(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


# The command line.


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="chimera-bridge",
        description="Answer your coding agent's questions from anywhere. "
        "Exit codes: 0 ended by a signal or its editor, 1 fault, 2 wrong use, "
        "3 refused credentials, 4 replaced by another process, 5 the agent does not start.",
    )
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    _add_up(commands)
    _add_connect(commands)
    _add_ferret(commands)
    _add_attach(commands)
    _add_pair(commands)
    _add_devices(commands)
    add_rules(commands, _rules)
    undo_line.add(commands)
    add_trust(commands)
    add_hook(commands)
    _add_doctor(commands)
    _add_print_config(commands)
    return parser


def _add_up(commands: Any) -> None:
    up = commands.add_parser(
        "up",
        help="everything on this machine: a relay, a connector and an agent",
        usage="chimera-bridge up [options] [-- COMMAND…]",
    )
    up.set_defaults(run=_up)
    add_agent(up)
    up.add_argument("--lan", action="store_true", help="serve the local network, over TLS")
    up.add_argument("--port", type=port_of, default=8787, help="the relay's port (default: 8787)")
    up.add_argument("--cwd", type=folder_of, metavar="DIR", help="the folder the agent works in")
    add_limits(up)


def _add_connect(commands: Any) -> None:
    connect = commands.add_parser(
        "connect",
        help="run an agent and attach it to a relay",
        usage="chimera-bridge connect --relay URL [options] [-- COMMAND…]",
        description="The token comes from FERRET_BRIDGE_TOKEN or --token-file.",
    )
    connect.set_defaults(run=_connect)
    connect.add_argument("--relay", metavar="URL", help="the relay, such as wss://relay.example")
    add_agent(connect)
    connect.add_argument("--stdio", action="store_true", help="serve an editor on stdin and stdout")
    _add_connector(connect)


def _add_ferret(commands: Any) -> None:
    ferret = commands.add_parser("ferret", help="ferret's engine as an agent")
    serve = ferret.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    serve = serve.add_parser(
        "serve",
        help="an ACP server on stdin and stdout, attached to a relay with --bridge",
        description="The token comes from FERRET_BRIDGE_TOKEN or --token-file.",
    )
    serve.set_defaults(run=_connect, agent="ferret", stdio=True)
    serve.add_argument("--bridge", dest="relay", metavar="URL", help="the relay to attach to")
    serve.add_argument("--model", metavar="MODEL", help="ferret's model (else FERRET_MODEL)")
    add_pass_env(serve)
    _add_connector(serve)


def _add_connector(parser: argparse.ArgumentParser) -> None:
    name = "of this connector on this machine (default: the agent's)"
    parser.add_argument("--name", "--profile", metavar="NAME", help=name)
    parser.add_argument(
        "--cwd", type=folder_of, metavar="DIR", help="where sessions open (default: this folder)"
    )
    parser.add_argument(
        "--root",
        type=folder_of,
        action="append",
        default=[],
        metavar="DIR",
        help="a folder in which remote clients may open sessions; repeat for more (default: --cwd)",
    )
    add_limits(parser)
    add_http(parser)
    parser.add_argument("--trust", action="store_true", help="trust folders that editors open")
    parser.add_argument("--stay", action="store_true", help="go on when the editor leaves")
    add_token(parser)


def _add_attach(commands: Any) -> None:
    attach = commands.add_parser(
        "attach",
        help="carry an editor's stdin and stdout to a relay",
        description="The token comes from CHIMERA_BRIDGE_TOKEN or --token-file.",
    )
    attach.set_defaults(run=_attach)
    attach.add_argument("relay", metavar="URL", help="such as wss://relay.example/acp")
    attach.add_argument("--session", default="", help="what the editor opens is this session")
    attach.add_argument("--agent", default="", metavar="ID", help="the agent of new sessions")
    attach.add_argument(
        "--cwd", default="", metavar="DIR", help="the folder of new sessions, on its machine"
    )
    add_token(attach)


def _add_pair(commands: Any) -> None:
    pair = commands.add_parser(
        "pair",
        help="pair a phone: its signature then counts on this machine, and no other",
        description="Shows a QR code and a code to type, beside a connector that runs.",
    )
    pair.set_defaults(run=_pair)
    pair.add_argument("--name", help="of the connector, where several run")


def _add_devices(commands: Any) -> None:
    devices = commands.add_parser("devices", help="the devices that are paired with this machine")
    actions = devices.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    listing = actions.add_parser("list", help="list them with their fingerprints")
    listing.set_defaults(run=_devices, device=None)
    revoke = actions.add_parser("revoke", help="take a device's signature no more")
    revoke.set_defaults(run=_devices)
    revoke.add_argument("device", metavar="DEVICE", help="its fingerprint or name; all: every one")


def _add_doctor(commands: Any) -> None:
    doctor = commands.add_parser(
        "doctor", help="what works on this machine, and what would mend it"
    )
    doctor.set_defaults(run=_doctor)
    doctor.add_argument("--relay", metavar="URL", help="also check the way to a relay")
    doctor.add_argument("--json", action="store_true", help="print it as JSON")
    add_token(doctor)


def _add_print_config(commands: Any) -> None:
    config = commands.add_parser(
        "print-config",
        help="print the entry for an editor",
        usage="chimera-bridge print-config {zed,jetbrains,vscode,generic} [-- ARGUMENTS…]",
        description="ARGUMENTS are what follows chimera-bridge (default: connect --stdio).",
    )
    config.set_defaults(run=_print_config)
    config.add_argument("editor", choices=EDITORS)


# The commands; each gives its exit code.


def _up(chosen: argparse.Namespace) -> int:
    from agent_side.up import Up

    up = Up(
        agent=chosen.agent,
        command=command_words(chosen),
        passed=chosen.pass_env,
        lan=chosen.lan,
        port=chosen.port,
        cwd=chosen.cwd,
        signed=chosen.signed,
        redaction=redaction_of(chosen),
        limits=limits_of(chosen),
    )
    return _run(up.run())


def _connect(chosen: argparse.Namespace) -> int:
    if chosen.relay is None and not chosen.stdio and chosen.http is None:
        raise WrongUse(
            "connect needs --relay URL, --stdio to serve an editor alone, or --http for programs"
        )
    argv = command_words(chosen)
    from agent_side.agents.catalog import (
        AgentNotInstalled,
        AgentUnknown,
        command_for,
        default_agent,
    )
    from agent_side.agents.launcher import CommandRefused
    from agent_side.connect import Doors, connector_state, run_connector, sandboxed, say_warnings
    from agent_side.settings import ConnectorSettings, SettingsError

    cwd = chosen.cwd or Path.cwd()
    try:
        relay = _target(chosen, "FERRET_BRIDGE_TOKEN") if chosen.relay else None
        if not chosen.agent and not argv and default_agent(os.environ) == DEMO:
            return _end(NO_AGENT, "no agent is installed here; `chimera-bridge doctor` says how to")
        environ = {**os.environ, **model_of(chosen)}
        command = command_for(chosen.agent, argv, cwd, environ, chosen.pass_env)
        settings = ConnectorSettings(
            name=chosen.name or _name_of(command),
            cwd=cwd,
            state_dir=connector_state(),
            roots=tuple(chosen.root),
            trusted=tuple(chosen.root) if chosen.stdio and not chosen.cwd else None,
            trust_opened=chosen.trust,
            signed=chosen.signed,
            redaction=redaction_of(chosen),
            **limits_of(chosen),
        )
    except (AgentUnknown, CommandRefused, SettingsError) as error:
        raise WrongUse(str(error)) from None
    except AgentNotInstalled as error:
        return _end(NO_AGENT, str(error))
    say_warnings()
    command = sandboxed(command, settings)
    doors = Doors(stdio=chosen.stdio, stay=chosen.stay, http=http_place(chosen, os.environ))
    return _run(run_connector(settings, command, relay, doors))


def _attach(chosen: argparse.Namespace) -> int:
    no_command(chosen)
    from agent_side.attach import attach
    from agent_side.conversation import Wishes
    from agent_side.settings import SettingsError

    try:
        target = _target(chosen, "CHIMERA_BRIDGE_TOKEN")
    except SettingsError as error:
        raise WrongUse(str(error)) from None
    wishes = Wishes(session=chosen.session, agent=chosen.agent, cwd=chosen.cwd)
    return _run(attach(target, wishes))


def _pair(chosen: argparse.Namespace) -> int:
    no_command(chosen)
    from agent_side.connect import connector_state
    from agent_side.pair import pair
    from agent_side.up import page_link

    return _run(pair(connector_state(), chosen.name, page_link, _say))


def _devices(chosen: argparse.Namespace) -> int:
    no_command(chosen)
    from agent_side.connect import connector_state
    from agent_side.pair import list_devices, revoke_device

    try:
        if chosen.device is None:
            ending = list_devices(connector_state(), _say)
        else:
            ending = revoke_device(connector_state(), chosen.device, _say)
    except OSError as error:
        return _end(FAULT, str(error))
    return _end(ending.code, ending.sentence)


def _rules(chosen: argparse.Namespace) -> int:
    no_command(chosen)
    from agent_side.connect import connector_state
    from agent_side.rule_list import run

    ending = run(chosen, connector_state(), _say)
    return _end(ending.code, ending.sentence)


def _doctor(chosen: argparse.Namespace) -> int:
    no_command(chosen)
    from agent_side.doctor import examine, print_findings
    from agent_side.settings import SettingsError

    try:
        relay = _target(chosen, "FERRET_BRIDGE_TOKEN") if chosen.relay else None
    except SettingsError as error:
        raise WrongUse(str(error)) from None
    findings = _awaited(examine(relay))
    print_findings(findings, as_json=chosen.json)
    return FAULT if any(not finding.fine for finding in findings) else 0


def _print_config(chosen: argparse.Namespace) -> int:
    from agent_side.print_config import print_config

    if chosen.command:
        _parser().parse_args(split(chosen.command)[0])  # an entry that cannot start helps nobody
    return print_config(chosen.editor, chosen.command)


def _target(chosen: argparse.Namespace, variable: str) -> RelayTarget:
    from agent_side.settings import RelayTarget

    return RelayTarget(
        url=chosen.relay,
        token=os.environ.get(variable, ""),
        token_file=chosen.token_file,
        insecure=chosen.insecure,
        ca=chosen.ca,
    )


def _name_of(command: AgentCommand) -> str:
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in command.name)
    return kept.strip(".-")[:64] or "agent"


def _run(work: Coroutine[Any, Any, ExitReason]) -> int:
    ending: ExitReason = _awaited(work)
    return _end(ending.code, ending.sentence)


def _awaited(work: Coroutine[Any, Any, Any]) -> Any:
    import asyncio

    return asyncio.run(work)


def _say(line: str) -> None:
    print(line, flush=True)


def _end(code: int, sentence: str) -> int:
    if code and sentence:
        from agent_side.doors.visible import one_line  # a relay's or an agent's words may be in it

        print(f"chimera-bridge: {one_line(sentence)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
