"""What rules would have done with the questions of the last day; nothing is changed."""

from __future__ import annotations

from collections import Counter

from bridge.protocol.entry import timestamp
from bridge.protocol.jsonrpc import Payload
from bridge.round_trips import RoundTripRecord, RoundTrips
from bridge.rule_match import Rule, first

HOURS = 24  # that a closed question is kept with its subject
SEARCHED = 1000  # the newest questions


async def of(round_trips: RoundTrips, tenant: str, rules: list[Rule]) -> Payload:
    """Give each question that a rule is about, with what became of it in fact."""
    records = await round_trips.list(tenant, open_only=False, limit=SEARCHED)
    places = await round_trips.places(tenant, {record.agent for record in records})
    found = [(one, first(rules, one.facts(*places[one.agent]))) for one in records]
    shown = [_shown(record, rule) for record, rule in found if rule is not None]
    counts = Counter(str(one["action"]) for one in shown)
    return {"questions": shown, "counts": dict(counts), "of": len(records), "hours": HOURS}


def _shown(record: RoundTripRecord, rule: Rule) -> Payload:
    return {
        "id": record.id,
        "sessionId": record.session_id,
        "agent": record.agent,
        "title": record.title,
        "risk": record.risk,
        "askedAt": timestamp(record.asked_at),
        "rule": rule.id,
        "action": rule.action.value,
        "words": rule.words,
        "was": _was(record),
    }


def _was(record: RoundTripRecord) -> str:
    """Say what became of a question: allowed, denied, how it ended otherwise, or open."""
    answer = record.answer or (record.decision.answer if record.decision else None)
    chosen = str((answer or {}).get("optionId", (answer or {}).get("action", "")))
    kind = record.option_kinds.get(chosen, chosen)
    if kind.startswith(("allow", "accept")):
        return "allowed"
    if kind.startswith(("reject", "decline")):
        return "denied"
    return record.reason or record.state.value
