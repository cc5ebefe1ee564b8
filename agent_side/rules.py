"""The rules of a machine's owner: what was always or never to be answered, in one file.

A rule decides the next question of an equal scope at once. Every change is on disk before it
counts; the owner's commands change the same file while the connector runs.
"""

from __future__ import annotations

import logging
import secrets
import time
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from agent_side.folder import alone, write_safely
from agent_side.scope import Scope
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.round_trip import RuleNote

FILE = "rules.json"
DAY_MS = 86_400_000
DAYS = 30  # how long a rule holds unless somebody says otherwise

Verb: TypeAlias = Literal["allow", "deny"]

logger = logging.getLogger(__name__)


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One rule; times are Unix milliseconds."""

    id: str
    key: str  # of its scope
    words: str
    verb: Verb
    by: Origin
    made_at: int
    ends_at: int | None = None

    @property
    def sentence(self) -> str:
        """What it does, in words."""
        until = f", until {timestamp(self.ends_at)}" if self.ends_at else ""
        return f"{'always' if self.verb == 'allow' else 'never'} {self.words}{until}"

    @property
    def note(self) -> RuleNote:
        """What the log tells of it."""
        return RuleNote(self.id, self.sentence)


class RulesUnreadable(OSError):
    """The file is there and holds no rules: nothing may be allowed by it."""


class Rules:
    """The rules of one connector."""

    def __init__(self, folder: Path) -> None:
        """Name the connector's folder; nothing is read yet."""
        self._path = folder / FILE
        self._seen: tuple[int, int, int] | None = None
        self._rules: tuple[Rule, ...] = ()

    def all(self) -> tuple[Rule, ...]:
        """Give those that hold now, the oldest first; raises RulesUnreadable."""
        now = _now()
        return tuple(r for r in self._read() if r.ends_at is None or now < r.ends_at)

    def find(self, key: str) -> Rule | None:
        """Give the rule for a scope; none while the file cannot be read."""
        try:
            return next((rule for rule in self.all() if rule.key == key), None)
        except RulesUnreadable as error:
            logger.warning("no rule is applied: %s", error)
            return None

    def add(self, scope: Scope, verb: Verb, by: Origin, days: int = DAYS) -> Rule:
        """Make a rule in place of any for the same scope; 0 days: without end. Raises OSError."""
        now = _now()
        ends_at = now + days * DAY_MS if days else None
        rule = Rule(f"r-{secrets.token_hex(4)}", scope.key, scope.words, verb, by, now, ends_at)
        with alone(self._path):
            self._write((*(one for one in self.all() if one.key != scope.key), rule))
        return rule

    def remove(self, id_: str) -> Rule | None:
        """Take a rule out; gives it if it was there. Raises OSError."""
        with alone(self._path):
            found = next((rule for rule in self.all() if rule.id == id_), None)
            if found is not None:
                self._write(tuple(rule for rule in self.all() if rule.id != id_))
        return found

    def _read(self) -> tuple[Rule, ...]:
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if seen != self._seen:
                self._rules = msgspec.json.decode(self._path.read_bytes(), type=tuple[Rule, ...])
                self._seen = seen
        except FileNotFoundError:
            self._seen, self._rules = None, ()
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RulesUnreadable(f"{self._path} holds no rules: {error}") from None
        return self._rules

    def _write(self, rules: tuple[Rule, ...]) -> None:
        write_safely(self._path, rules)
        self._path.chmod(0o600)


def _now() -> int:
    return time.time_ns() // 1_000_000
