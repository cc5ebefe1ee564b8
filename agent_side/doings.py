"""What an agent did in one turn as far as it was seen: what was granted, and which commands ran."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from agent_side.snapshots.snapshot import shown
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Resolved

if TYPE_CHECKING:
    from agent_side.round_trips import Question

KEPT = 200  # questions and commands of one turn; the rest is counted in the log alone
TEXT_LENGTH = 2000  # characters of one command; the log has all of it


@dataclass
class Command:
    """A command that the agent said it runs."""

    text: str = ""
    status: str = "pending"
    asked: bool = False


@dataclass
class Doings:
    """One turn's; outside turns it takes what belongs to none."""

    granted: list[Payload] = field(default_factory=list)
    refused: list[Payload] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)  # as granted questions named them
    used: Payload | None = None  # what the session had used before
    _commands: dict[str, Command] = field(default_factory=dict)

    def commands(self) -> list[Payload]:
        """Give the commands in the order in which they began."""
        found = [one for one in self._commands.values() if one.text]
        return [{"command": c.text, "asked": c.asked, "status": c.status} for c in found[:KEPT]]

    def take(self, update: Payload) -> None:
        """Take what the agent says of a tool call."""
        id_ = update.get("toolCallId")
        if not isinstance(id_, str) or (id_ not in self._commands and len(self._commands) > KEPT):
            return
        command = self._commands.setdefault(id_, Command())
        command.text = _command_of(update) or command.text
        if isinstance(update.get("status"), str):
            command.status = update["status"]

    def closed(self, question: Question, resolved: Resolved) -> None:
        """Take how a question ended."""
        subject = json.loads(question.round_trip.subject)
        option = _option(question.params, resolved)
        facts: Payload = {
            "id": resolved.id,
            "title": str(subject.get("title") or "")[:TEXT_LENGTH],
            "option": option.get("name") or (resolved.answer or {}).get("action"),
            "reason": resolved.reason.value,
            "by": msgspec.to_builtins(resolved.by),
        }
        if rule := getattr(resolved, "rule", None):
            facts["rule"] = msgspec.to_builtins(rule)
        if not _is_granted(option, resolved):
            _keep(self.refused, facts)
            return
        _keep(self.granted, facts)
        self.paths.update(_paths(subject))
        self._grant(question.params)

    def _grant(self, params: Payload) -> None:
        call = params.get("toolCall")
        if isinstance(call, dict):
            self.take({k: v for k, v in call.items() if k != "status"})
            if (command := self._commands.get(str(call.get("toolCallId")))) is not None:
                command.asked = True


def _keep(kept: list[Payload], facts: Payload) -> None:
    if len(kept) < KEPT:
        kept.append(facts)


def _command_of(update: Payload) -> str:
    raw = update.get("rawInput")
    command = raw.get("command") if isinstance(raw, dict) else None
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return command[:TEXT_LENGTH] if isinstance(command, str) else ""


def _option(params: Payload, resolved: Resolved) -> Payload:
    chosen = (resolved.answer or {}).get("optionId")
    options: Any = params.get("options")
    for option in options if isinstance(options, list) else []:
        if isinstance(option, dict) and chosen is not None and option.get("optionId") == chosen:
            return option
    return {}


def _is_granted(option: Payload, resolved: Resolved) -> bool:
    if option:
        return str(option.get("kind", "")).startswith("allow")
    return (resolved.answer or {}).get("action") == "accept"


def _paths(subject: Payload) -> set[str]:
    """Give the paths that a question named, as it named them."""
    diffs = [one.get("path") for one in subject.get("diffs") or () if isinstance(one, dict)]
    named = [*diffs, *(subject.get("paths") or ())]
    arguments = subject.get("arguments")
    if isinstance(arguments, dict):
        named += [v for k, v in arguments.items() if k.lower().endswith(("path", "file"))]
    return {shown(path) for path in named if isinstance(path, str)}
