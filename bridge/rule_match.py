"""Which questions a relay's rule is about: pure matching, and the rule in words.

The first rule that matches decides. Where a question cannot be read, a rule that restricts matches
and one that allows does not.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec

from bridge.protocol import jsonrpc
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError
from bridge.protocol.jsonrpc import Payload

WAIT_SECONDS = 365 * 86_400  # the longest that a rule may wait

_Pattern: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Patterns: TypeAlias = Annotated[list[_Pattern], msgspec.Meta(max_length=50)]


class Action(StrEnum):
    """What a rule does with a question."""

    ALLOW = "allow"  # counts only where the machine's owner allowed rules of the relay
    DENY = "deny"
    ASK = "ask"  # and no later rule is looked at
    TWO_PEOPLE = "two_people"
    PASSKEY = "passkey"
    EXPIRE = "expire"  # after so many seconds
    ESCALATE = "escalate"  # after so many seconds


TIMED = frozenset({Action.EXPIRE, Action.ESCALATE})
_SENTENCES = {
    Action.ALLOW: "allow",
    Action.DENY: "refuse",
    Action.ASK: "ask one person for",
    Action.TWO_PEOPLE: "ask two people for",
    Action.PASSKEY: "ask with a passkey for",
    Action.EXPIRE: "end after {} without an answer",
    Action.ESCALATE: "call again after {} without an answer",
}
_NAMES = {
    "tools": "tools {}",
    "commands": "commands that begin with {}",
    "paths": "files {}",
    "agents": "agents {}",
    "hosts": "machines {}",
    "sessions": "sessions {}",
    "risks": "risk {}",
}


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a question must be like; each list that is not empty must fit."""

    tools: Patterns = []  # kinds of tool: execute, edit, …
    paths: Patterns = []  # globs, relative to the session's folder or absolute
    commands: Patterns = []  # the first words of a program's call
    agents: Patterns = []  # names or ids
    hosts: Patterns = []
    sessions: Patterns = []
    risks: Patterns = []


class Rule(msgspec.Struct, frozen=True, omit_defaults=True):
    """One rule of a tenant's admins."""

    id: str
    match: Match
    action: Action
    by: Origin
    at: int  # Unix milliseconds
    seconds: int = 0  # of those that wait
    note: str = ""

    @property
    def words(self) -> str:
        """The rule as a sentence."""
        wanted = [
            name.format(" or ".join(f"“{one}”" for one in getattr(self.match, field)))
            for field, name in _NAMES.items()
            if getattr(self.match, field)
        ]
        about = ", ".join(wanted) or "every question"
        verb = _SENTENCES[self.action].format(_span(self.seconds))
        return f"{verb}: {about}" if self.action in TIMED else f"{verb} {about}"


class Facts(msgspec.Struct, frozen=True):
    """What a question is like, for matching."""

    tool: str
    risk: str
    session: str
    agents: tuple[str, ...]  # its id and its name
    host: str
    cwd: str
    paths: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...] | None  # None: there is a command that cannot be read
    has_files: bool  # whether all it touches is named by paths


def facts_of(  # noqa: PLR0917 (each is of its own kind)
    subject: str, risk: str, session: str, agents: tuple[str, ...], host: str, calls: Any
) -> Facts:
    """Read what a question is like from its subject; ``calls`` as its machine parsed them."""
    told = _payload(subject)
    has_command = "command" in told
    read = tuple(tuple(map(str, call)) for call in calls) if isinstance(calls, list) else None
    paths = tuple(_paths(told))
    return Facts(
        tool=str(told.get("kind", "")),
        risk=risk,
        session=session,
        agents=agents,
        host=host,
        cwd=str(told.get("cwd") or "/"),
        paths=paths,
        calls=read if has_command else (),
        has_files=bool(paths) and not has_command,
    )


def first(rules: Sequence[Rule], facts: Facts) -> Rule | None:
    """Give the first rule that is about a question."""
    return next((rule for rule in rules if matches(rule, facts)), None)


def matches(rule: Rule, facts: Facts) -> bool:
    """Whether a rule is about a question."""
    match, widens = rule.match, rule.action is Action.ALLOW
    plain = (
        (match.tools, (facts.tool,)),
        (match.risks, (facts.risk,)),
        (match.agents, facts.agents),
        (match.hosts, (facts.host,)),
        (match.sessions, (facts.session,)),
    )
    if not all(not wanted or set(wanted) & set(held) for wanted, held in plain):
        return False
    return _fits_commands(match.commands, facts, widens=widens) and _fits_paths(
        match.paths, facts, widens=widens
    )


def _fits_commands(prefixes: list[str], facts: Facts, *, widens: bool) -> bool:
    if not prefixes:
        return True
    if facts.calls is None:
        return not widens
    fits = [any(_begins(call, prefix.split()) for prefix in prefixes) for call in facts.calls]
    return bool(fits) and (all(fits) if widens else any(fits))


def _begins(call: tuple[str, ...], prefix: list[str]) -> bool:
    words = (posixpath.basename(call[0]), *call[1:]) if call else ()
    return list(words[: len(prefix)]) == prefix


def _fits_paths(globs: list[str], facts: Facts, *, widens: bool) -> bool:
    if not globs:
        return True
    if widens:
        return facts.has_files and all(_is_any(path, globs, facts.cwd) for path in facts.paths)
    if facts.calls is None:
        return True
    words = [word for call in facts.calls for word in call[1:]]
    return any(_is_any(path, globs, facts.cwd) for path in (*facts.paths, *words))


def _is_any(path: str, globs: list[str], cwd: str) -> bool:
    return any(_is_at(path, glob, cwd) for glob in globs)


def _is_at(path: str, glob: str, cwd: str) -> bool:
    whole = posixpath.normpath(posixpath.join(cwd, path))
    wanted = posixpath.normpath(posixpath.join(cwd, glob))
    return fnmatch.fnmatchcase(whole, wanted)


def _paths(told: Payload) -> list[str]:
    diffs = told.get("diffs")
    named = [diff.get("path") for diff in diffs] if isinstance(diffs, list) else []
    paths = told.get("paths")
    found = [*(paths if isinstance(paths, list) else []), *named]
    return [path for path in found if isinstance(path, str)]


def _payload(subject: str) -> Payload:
    try:
        return jsonrpc.payload(subject.encode())
    except BridgeError:
        return {}


def _span(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and not seconds % size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
