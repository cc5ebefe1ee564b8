"""How much harm what is asked may do; a simple rule, so that people can foresee it."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bridge.protocol import jsonrpc
from bridge.protocol.jsonrpc import Payload

READABLE = 16 << 10  # characters of a command; nobody reads more, and shlex is slow

Risk: TypeAlias = Literal["low", "medium", "high"]

READING = frozenset({"read", "search", "fetch", "think"})
SEPARATORS = frozenset({";", "&&", "||", "|", "&", "|&", "\n", "(", ")", "{", "}"})
WRITING = (">", "$(", "`", "<(")  # what it does besides the programs it names
SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"})
WRAPPERS = frozenset({"env", "nohup", "time", "nice", "xargs", "command", "exec", "timeout"})
HARMLESS = frozenset(
    {"ls", "cat", "head", "tail", "pwd", "echo", "wc", "grep", "rg", "which", "date", "true"}
)
DESTRUCTIVE = frozenset(
    {"rm", "sudo", "su", "doas", "dd", "mkfs", "shred", "chmod", "chown", "kill", "killall"}
    | {"pkill", "reboot", "shutdown", "systemctl", "crontab", "eval", "ssh", "scp", "rsync"}
)
GIT_HARM = frozenset({"push", "reset", "clean", "filter-branch", "rebase"})
DOWNLOADS = frozenset({"curl", "wget"})


def rate(subject: str) -> Risk:
    """Rate a subject's text: reading is low, deleting, rising in rights or publishing is high."""
    facts = jsonrpc.payload(subject.encode())
    if facts.get("kind") == "elicitation":
        return "low"
    if "command" in facts:
        return of_command(facts["command"])
    kind = facts.get("kind")
    if kind in READING:
        return "low"
    if kind == "delete" or (kind in ("edit", "move") and _outside(facts)):
        return "high"
    return "medium"


def of_command(command: str | list[str]) -> Risk:
    """Rate a shell command, or a program with its arguments."""
    script = _script(command)
    words = _words(script) if script is not None else list(command)
    if words is None:
        return "high"  # what cannot be read cannot be called safe
    calls = _calls(words)
    if any(_is_harmful(call) for call in calls) or _pipes_to_shell(words):
        return "high"
    if script is not None and any(sign in script for sign in WRITING):
        return "medium"
    if calls and all(call[0] in HARMLESS for call in calls):
        return "low"
    return "medium"


def _script(command: str | list[str]) -> str | None:
    if isinstance(command, str):
        return command
    match command:
        case [shell, flags, script] if Path(shell).name in SHELLS and "c" in flags:
            return script
    return None


def _words(script: str) -> list[str] | None:
    if len(script) > READABLE:
        return None
    lexer = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return None


def _calls(words: list[str]) -> list[list[str]]:
    calls: list[list[str]] = [[]]
    for word in words:
        if word in SEPARATORS:
            calls.append([])
        elif calls[-1] or not _is_prefix(word):
            calls[-1].append(Path(word).name if not calls[-1] else word)
    return [call for call in calls if call]


def _is_prefix(word: str) -> bool:
    return word in WRAPPERS or ("=" in word and word.partition("=")[0].isidentifier())


def _is_harmful(call: list[str]) -> bool:
    name, arguments = call[0], call[1:]
    if name in DESTRUCTIVE or name.startswith("mkfs"):
        return True
    if name in SHELLS and arguments[:1] == ["-c"] and len(arguments) > 1:
        return of_command(arguments[1]) == "high"
    if name == "git":
        return any(argument in GIT_HARM for argument in arguments)
    return name in ("npm", "docker", "kubectl") and any(
        argument in ("publish", "delete", "rm", "prune", "apply") for argument in arguments
    )


def _pipes_to_shell(words: list[str]) -> bool:
    names = [Path(word).name for word in words]
    fetched = any(name in DOWNLOADS for name in names)
    return fetched and any(
        left == "|" and right in SHELLS | {"python", "python3", "sudo", "node"}
        for left, right in pairwise(names)
    )


def _outside(facts: Payload) -> bool:
    cwd = Path(str(facts.get("cwd") or "/"))
    paths: list[Any] = [*facts.get("paths", []), *(d.get("path") for d in facts.get("diffs", []))]
    return any(isinstance(path, str) and not _is_inside(cwd / path, cwd) for path in paths)


def _is_inside(path: Path, folder: Path) -> bool:
    return ".." not in path.parts and path.is_relative_to(folder)
