"""How much a session's agent may do unasked, and who decides a question before a person is asked.

In this order: the owner's "never", what the sandbox refuses, what a preset refuses, what two people
must decide, the owner's "always", what a preset allows. Whatever is left is asked.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from agent_side import risk, scope
from agent_side.risk import Risk
from agent_side.rules import Rule, Rules, Verb
from agent_side.sandbox import SandboxState
from bridge.protocol import jsonrpc
from bridge.protocol.entry import RoundTrip
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import RuleNote, is_decidable


class Preset(StrEnum):
    """What is decided without a person, from the narrowest on."""

    READ_ONLY = "read-only"  # what only reads is allowed, all else is refused
    STRICT = "strict"  # everything is asked, and no "always" counts
    SUGGEST = "suggest"  # everything is asked, but for the owner's rules
    AUTO = "auto"  # what is of low risk is allowed
    FULL = "full"  # everything is allowed, but for what the owner's rules refuse


WIDTH = list(Preset)


class Verdict(NamedTuple):
    """An answer without a person."""

    verb: Verb
    rule: RuleNote
    violation: str = ""  # the mode of what refused it: of the sandbox, or a preset


class Approvals:
    """The presets of a connector's sessions, and its owner's rules."""

    def __init__(
        self,
        rules: Rules,
        sandbox: SandboxState,
        *,
        preset: Preset = Preset.SUGGEST,
        two_people: Risk | None = None,
    ) -> None:
        """Begin each session with ``preset``; ``two_people``: from which risk on it takes two."""
        self.rules = rules
        self._sandbox = sandbox
        self._preset = preset
        self._two_people = two_people
        self._of_session: dict[str, Preset] = {}

    def of(self, session_id: str) -> Preset:
        """Give a session's preset."""
        return self._of_session.get(session_id, self._preset)

    def set(self, session_id: str, preset: Preset) -> Preset:
        """Change a session's preset while this connector runs; gives the one before."""
        old = self.of(session_id)
        self._of_session[session_id] = preset
        return old

    def people(self, rated: Risk) -> int:
        """Give how many people must approve what is of this risk from afar."""
        level = self._two_people
        return 2 if level and risk.ORDER.index(rated) >= risk.ORDER.index(level) else 1

    def judge(self, session_id: str, asked: RoundTrip, roots: tuple[Path, ...]) -> Verdict | None:
        """Decide a permission without a person; None: ask one."""
        if asked.kind != "permission":
            return None
        facts = jsonrpc.payload(asked.subject.encode())
        found = scope.of_facts(facts)
        rule = self.rules.find(found.key) if found else None
        if rule is not None and rule.verb == "deny":
            return Verdict("deny", rule.note)
        preset = self.of(session_id)
        refused = self._refused(facts, preset, asked.risk, roots)
        if refused is not None or asked.people > 1 or not is_decidable(asked.subject):
            return refused
        return _allowed(preset, asked.risk, rule)

    def _refused(
        self, facts: Payload, preset: Preset, rated: Risk, roots: tuple[Path, ...]
    ) -> Verdict | None:
        if words := self._sandbox.refuses(facts, roots):
            return Verdict("deny", RuleNote("sandbox", words), self._sandbox.mode)
        if preset is Preset.READ_ONLY and rated != "low":
            note = _of_preset(preset, "the preset read-only refuses what does more than read")
            return Verdict("deny", note, preset)
        return None


def read_preset(name: object) -> Preset:
    """Read a preset's name; raises InvalidParams."""
    try:
        return Preset(str(name))
    except ValueError:
        known = ", ".join(Preset)
        raise InvalidParams(f"there is no preset {str(name)[:80]!r}: one of {known}") from None


def _of_preset(preset: Preset, words: str) -> RuleNote:
    return RuleNote(f"preset-{preset}", words)


def _allowed(preset: Preset, rated: Risk, rule: Rule | None) -> Verdict | None:
    if rule is not None and preset is not Preset.STRICT:
        return Verdict("allow", rule.note)
    by_risk = preset in (Preset.AUTO, Preset.READ_ONLY) and rated == "low"
    if preset is Preset.FULL or by_risk:
        return Verdict("allow", _of_preset(preset, f"the preset {preset} allows this"))
    return None
