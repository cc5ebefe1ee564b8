"""``chimera-bridge rules``: the owner's rules, listed, made and taken out beside the connector."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from agent_side import scope
from agent_side.connector import local_origin
from agent_side.doors.visible import one_line
from agent_side.faults import FAULT, ExitReason
from agent_side.rules import Rules, Verb

Say = Callable[[str], None]

WRONG_USE = 2
VERBS: dict[str, Verb] = {"always": "allow", "never": "deny"}


class NotOne(ValueError):
    """No connector is meant, or several could be; the message says which there are."""


def run(chosen: argparse.Namespace, state: Path, say: Say) -> ExitReason:
    """Do what the command line asks, for the connector of that name."""
    try:
        rules = Rules(_folder(state, chosen.name))
        if chosen.action == "list":
            return _list(rules, say)
        if chosen.action == "remove":
            return _remove(rules, chosen.rule, say)
        return _add(rules, chosen, say)
    except NotOne as error:
        return ExitReason(WRONG_USE, str(error))
    except OSError as error:
        return ExitReason(FAULT, str(error))


def _list(rules: Rules, say: Say) -> ExitReason:
    found = rules.all()
    for rule in found:
        say(f"{rule.id}  {one_line(rule.sentence)}  (by {one_line(rule.by.subject)})")
    if not found:
        say("there are no rules: every question is asked")
    return ExitReason(0, "listed")


def _add(rules: Rules, chosen: argparse.Namespace, say: Say) -> ExitReason:
    cwd = chosen.cwd or Path.cwd()
    found = scope.of_facts({"kind": "execute", "command": chosen.line, "cwd": str(cwd)})
    if found is None:
        return ExitReason(WRONG_USE, f"{chosen.line[:80]!r} is too long or no shell command")
    origin, days = local_origin("terminal"), max(0, chosen.days)
    rule = rules.add(found, VERBS[chosen.verb], origin, days)
    say(f"{rule.id}  {one_line(rule.sentence)}")
    return ExitReason(0, "added")


def _remove(rules: Rules, id_: str, say: Say) -> ExitReason:
    rule = rules.remove(id_)
    if rule is None:
        return ExitReason(FAULT, f"there is no rule {id_!r}; `rules list` shows them")
    say(f"removed: {one_line(rule.sentence)}")
    return ExitReason(0, "removed")


def _folder(state: Path, name: str | None) -> Path:
    known = sorted(path.parent.name for path in state.glob("*/connector.json"))
    if name is None and len(known) > 1:
        raise NotOne(f"several connectors are known here: choose {', '.join(known)} with --name")
    chosen = name or (known[0] if known else "")
    if chosen not in known:
        raise NotOne(f"no connector {chosen!r} has run here; known: {', '.join(known) or 'none'}")
    return state / chosen
