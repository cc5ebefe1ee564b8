"""Receipts and undos as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from agent_side.doors.visible import one_line
from bridge.protocol.jsonrpc import Payload

SHOWN_FILES = 20
_ANSWERS = ("granted", "refused")
_SIGNS = {"created": "+", "removed": "-", "changed": "~"}
_DOES = {
    "create": "would be created again",
    "remove": "would be removed",
    "restore": "would be as before",
}


def summary(receipt: Payload) -> str:
    """Say a receipt in one line."""
    parts = [_files(receipt.get("files"))]
    parts += [f"{len(found)} {name}" for name in _ANSWERS if (found := receipt.get(name))]
    if commands := receipt.get("commands"):
        parts.append(_count(len(commands), "command"))
    unseen = {one["code"]: one["text"] for one in receipt.get("unseen") or ()}
    if "unasked_changes" in unseen:
        parts.append(one_line(unseen["unasked_changes"].split(":")[0]))
    return ", ".join(parts)


def _files(files: Payload | None) -> str:
    if files is None:
        return "which files changed is not known"
    count, lines = sum(files[kind] for kind in _SIGNS), files["lines"]
    return f"{_count(count, 'file')} changed (+{lines['added']} -{lines['removed']})"


def full(receipt: Payload) -> Iterator[str]:
    """Say all of a receipt."""
    yield f"{receipt['turn']}: {summary(receipt)}"
    files = receipt.get("files") or {}
    for file in (files.get("list") or ())[:SHOWN_FILES]:
        asked = "" if file["asked"] else ", not asked about"
        yield f"  {_SIGNS[file['change']]} {one_line(file['path'])}{asked}"
    for name in _ANSWERS:
        for one in receipt.get(name) or ():
            yield f"  {name}: {one_line(one['title'])} ({_who(one)})"
    for command in receipt.get("commands") or ():
        asked = "" if command["asked"] else ", not asked about"
        yield f"  ran: {one_line(command['command'])} ({command['status']}{asked})"
    if cost := receipt.get("cost"):
        yield f"  cost: {cost.get('amount')} {cost.get('currency', '')}".rstrip()
    for one in receipt.get("unseen") or ():
        yield f"  not seen: {one_line(one['text'])}"


def preview(found: Payload) -> Iterator[str]:
    """Say what an undo would change."""
    if not found["possible"]:
        yield f"it cannot be undone: {found['text']}"
        return
    for change in found["changes"][:SHOWN_FILES]:
        later = ", though it was edited after the turn" if change["edited"] else ""
        yield f"  {one_line(change['path'])} {_DOES[change['does']]}{later}"
    more = found["more"] + max(0, len(found["changes"]) - SHOWN_FILES)
    if more:
        yield f"  and {more:,} more"
    for one in found["left"]:
        yield f"  {one_line(one['path'])} stays: {one['text']}"
    if not found["changes"]:
        yield "nothing would change"


def undone(found: Payload) -> str:
    """Say what an undo did."""
    done = (
        f"{found['create']} created again, {found['remove']} removed, {found['restore']} restored"
    )
    return f"undone: {done}; this too can be undone: {found['undo']}"


def _who(one: Payload) -> str:
    if rule := one.get("rule"):
        return f"by the rule {rule.get('words', rule) if isinstance(rule, dict) else rule}"
    by = one.get("by")
    return f"by {by['subject']} at the {by.get('door')}" if by else str(one["reason"])


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
