"""What "always" or "never" would cover: one tool with equal arguments, said in words beforehand.

A rule made of it is never wider than those words. What an agent words anew each time, such as a
description, is left out; changes to a file are covered by the file, whatever they say.
"""

from __future__ import annotations

import hashlib
import json
import os.path
import re
import shlex
from typing import Any, NamedTuple

from agent_side import risk, shell
from bridge.protocol.jsonrpc import Payload

ON_FILES = frozenset({"read", "edit", "delete", "move"})
TOLD = frozenset({"description", "explanation", "justification", "reason"})  # not what will run
NAMING = re.compile(r".*(path|file|filename|target|source|destination|uri|url)$", re.IGNORECASE)
PLAIN = re.compile(r"""[^"'\\\n]*""")  # where the number of blanks says nothing
SHOWN = 300  # characters of arguments; a rule nobody can read is not offered


class Scope(NamedTuple):
    """What a rule covers: the key that equal questions share, and the words for people."""

    key: str
    words: str


def of_facts(facts: Payload) -> Scope | None:
    """Give the scope of a subject's facts; None when no rule can be made of it."""
    if facts.get("truncated") or facts.get("kind") == "elicitation":
        return None
    found = _of_command(facts) or _of_files(facts) or _of_arguments(facts)
    if found is None:
        return None
    covered, words = found
    text = json.dumps([facts.get("kind"), _folder(facts), covered], sort_keys=True)
    key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Scope(key, f"{words} in {_folder(facts)}")


def _of_command(facts: Payload) -> tuple[Any, str] | None:
    command = facts.get("command")
    if command is None:
        return None
    if isinstance(command, str) and shell.parse(command) is None:
        return None
    shown = _normal(command) if isinstance(command, str) else shlex.join(command)
    covered = shown if isinstance(command, str) else command
    rest = _steady(facts.get("arguments"))
    more = f" with {_json(rest)}" if rest else ""
    if len(shown) + len(more) > SHOWN:
        return None
    return [covered, rest], f"run exactly “{shown}”{more}"


def _of_files(facts: Payload) -> tuple[Any, str] | None:
    paths = risk.paths_of(facts)
    if facts.get("kind") not in ON_FILES or not paths or "command" in facts:
        return None
    cwd = _folder(facts)
    files = sorted({os.path.normpath(os.path.join(cwd, path)) for path in paths})  # noqa: PTH118
    named = _naming(facts.get("arguments"))
    shown = ", ".join(files)
    if len(shown) > SHOWN:
        return None
    whatever = ", whatever the change," if facts["kind"] == "edit" else ""
    return [files, named], f"{facts['kind']} {shown}{whatever}"


def _of_arguments(facts: Payload) -> tuple[Any, str] | None:
    arguments = _steady(facts.get("arguments"))
    if not arguments or "command" in facts or facts.get("diffs"):
        return None
    shown = _json(arguments)
    if len(shown) > SHOWN:
        return None
    return arguments, f"use {facts.get('kind')} with exactly {shown}"


def _normal(command: str) -> str:
    return " ".join(command.split()) if PLAIN.fullmatch(command) else command.strip()


def _steady(arguments: Any) -> Any:
    if isinstance(arguments, dict):
        return {name: value for name, value in arguments.items() if name not in TOLD}
    return arguments


def _naming(arguments: Any) -> Any:
    """Keep the arguments that name what is touched, wherever an agent puts them."""
    if not isinstance(arguments, dict):
        return None
    return {name: value for name, value in arguments.items() if NAMING.fullmatch(name)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _folder(facts: Payload) -> str:
    return str(facts.get("cwd") or "/")
