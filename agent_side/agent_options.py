"""How a command line chooses the agent that it starts, and which secrets that agent may see."""

from __future__ import annotations

import argparse

from agent_side.command_line import WrongUse, no_odd_command


def add_agent(parser: argparse.ArgumentParser) -> None:
    """Add how an agent is chosen."""
    parser.add_argument("--agent", metavar="NAME", help="an agent of the catalogue (see doctor)")
    parser.add_argument(
        "--command",
        dest="line",
        metavar="LINE",
        help="the agent's command in one text, split by a shell's rules and run without a shell",
    )
    add_pass_env(parser)


def add_pass_env(parser: argparse.ArgumentParser) -> None:
    """Add which secrets of the environment an agent may see."""
    parser.add_argument(
        "--pass-env",
        action="append",
        default=[],
        metavar="NAME",
        help="a secret of the environment that the agent may see; repeat for more",
    )


def command_words(chosen: argparse.Namespace) -> list[str]:
    """Give the agent's command, by ``--command`` or behind ``--``; raises WrongUse."""
    no_odd_command(chosen)
    if getattr(chosen, "line", None) is None:
        return list(chosen.command)
    if chosen.command:
        raise WrongUse("give the command by --command or behind --, not both")
    from agent_side.agents.launcher import CommandRefused, split_line

    try:
        return list(split_line(chosen.line))
    except CommandRefused as error:
        raise WrongUse(str(error)) from None


def model_of(chosen: argparse.Namespace) -> dict[str, str]:
    """Give the environment that names ferret's model, where the command line does."""
    model = getattr(chosen, "model", None)
    return {"FERRET_MODEL": model} if model else {}
