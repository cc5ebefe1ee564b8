"""The rules of a tenant's admins: an ordered list, changed as one step with its audit.

What restricts holds at the relay. What allows is a proposal, as every decision is: the connector
takes it only where its owner allowed rules of the relay.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from bridge import keys
from bridge.changes import Change, notice
from bridge.inbox import Inbox
from bridge.protocol.entry import Origin, timestamp
from bridge.protocol.errors import InvalidParams, NotFound, Overloaded
from bridge.protocol.jsonrpc import Payload
from bridge.redis import Argument, Store
from bridge.rule_match import TIMED, WAIT_SECONDS, Action, Match, Rule

MOST = 200  # rules of a tenant; each question is matched against all of them
TRIES = 5  # to change a list that others change at the same time
NOTE_LENGTH = 500

_decode = msgspec.json.Decoder(list[Rule]).decode


class RuleList(msgspec.Struct, frozen=True):
    """The rules of a tenant, the first of which that matches decides."""

    version: str = ""  # another with each change; '' before the first
    rules: list[Rule] = []

    def as_json(self) -> Payload:
        """Give the wire shape."""
        return {"version": self.version, "rules": [rule_json(rule) for rule in self.rules]}


class Rules:
    """The rules of all tenants."""

    def __init__(
        self, store: Store, inbox: Inbox, *, on_record: Callable[[str], None] = lambda _tenant: None
    ) -> None:
        """Keep them in ``store``; told of tenants with new audit."""
        self._store = store
        self._inbox = inbox
        self._on_record = on_record

    async def of(self, tenant: str) -> RuleList:
        """Give a tenant's rules."""
        name = keys.rules(tenant)
        async with self._store.operation():
            return read(await self._store.commands.hmget(name, *FIELDS))

    async def add(self, tenant: str, wish: Rule, position: int | None = None) -> Rule:
        """Put a rule at a place in the list, else at its end; raises InvalidParams."""
        check(wish)

        def put(rules: list[Rule]) -> list[Rule]:
            at = len(rules) if position is None else position
            return [*rules[:at], wish, *rules[at:]]

        await self._change(tenant, "rule_added", wish, wish.by, put)
        return wish

    async def remove(self, tenant: str, id_: str, by: Origin) -> None:
        """Take a rule out; raises NotFound."""
        found = next((rule for rule in (await self.of(tenant)).rules if rule.id == id_), None)
        if found is None:
            raise NotFound(f"unknown rule {id_!r:.80}")
        await self._change(
            tenant, "rule_removed", found, by, lambda rules: [r for r in rules if r.id != id_]
        )

    async def _change(
        self,
        tenant: str,
        event: str,
        rule: Rule,
        by: Origin,
        change: Callable[[list[Rule]], list[Rule]],
    ) -> None:
        changes = keys.changes(tenant)
        names = [keys.rules(tenant), keys.audit(tenant), changes, keys.watch(changes)]
        for _ in range(TRIES):
            held = await self.of(tenant)
            rules = change(held.rules)
            if len(rules) > MOST:
                raise InvalidParams(f"a tenant has at most {MOST} rules: remove some first")
            arguments: list[Argument] = [
                held.version,
                secrets.token_hex(8),
                msgspec.json.encode(rules),
                notice(Change("rules", rule.id, state=event)),
                event,
                rule.id,
                rule.words,
                msgspec.json.encode(by),
            ]
            done, nodes = await self._store.run("rules", names, arguments, replicated=True)
            if done:
                await self._inbox.wake(nodes, changes)
                self._on_record(tenant)
                return
        raise Overloaded("the rules are being changed by others; try again")


FIELDS = ("version", "rules")


def read(fields: list[bytes | None]) -> RuleList:
    """Read what the store holds of a tenant's rules, from the fields that FIELDS names."""
    version, rules = fields
    return RuleList(version.decode(), _decode(rules or b"[]")) if version else RuleList()


def made(fields: Payload, by: Origin, now: int) -> Rule:
    """Make a rule of what an admin sent; raises InvalidParams."""
    given: dict[str, Any] = {
        "id": f"r-{secrets.token_hex(4)}",
        "match": fields.get("match") or {},
        "action": fields.get("action"),
        "seconds": fields.get("seconds") or 0,
        "note": fields.get("note") or "",
        "by": msgspec.to_builtins(by),
        "at": now,
    }
    try:
        return check(msgspec.convert(given, Rule))
    except msgspec.ValidationError as error:
        raise InvalidParams(f"invalid rule: {error}") from None


def check(rule: Rule) -> Rule:
    """Give a rule back if it makes sense; raises InvalidParams."""
    if (rule.action in TIMED) != (0 < rule.seconds <= WAIT_SECONDS):
        raise InvalidParams(f"{rule.action} needs seconds above 0, others none of them")
    if rule.action is Action.ALLOW and rule.match == Match():
        raise InvalidParams("a rule that allows everything is none: say what it is about")
    if len(rule.note) > NOTE_LENGTH:
        raise InvalidParams(f"a note has at most {NOTE_LENGTH} characters")
    return rule


def rule_json(rule: Rule) -> Payload:
    """Give a rule's wire shape."""
    shown: Payload = msgspec.to_builtins(rule)
    return {**shown, "match": msgspec.to_builtins(rule.match), "words": rule.words} | {
        "at": timestamp(rule.at)
    }
