"""The commands ``chimera-bridge undo`` and ``receipts``, and their end in the connector.

The command sends its wish, then one line of parameters, and gets one line back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent_side import receipt_list, receipt_text
from agent_side.faults import FAULT, ExitReason
from agent_side.pair import running
from agent_side.side_door import Closed, Talk, knock
from bridge.protocol.errors import BridgeError, NotFound
from bridge.protocol.jsonrpc import Payload

if TYPE_CHECKING:
    from agent_side.connector import Connector

WISHES = frozenset({"undo", "receipts"})
NEWEST = 10  # receipts, where nobody says which


@dataclass(frozen=True)
class UndoWish:
    """What a person typed."""

    name: str | None = None  # of the connector
    session: str = ""  # empty: the one whose turn it is, or the newest
    turn: str = ""  # empty: the last
    preview: bool = False
    force: bool = False
    as_json: bool = False


# The command.


async def undo(state: Path, wish: UndoWish, say: Callable[[str], None]) -> ExitReason:
    """Undo a turn, or show what that would change."""
    params = {"turn": wish.turn, "preview": wish.preview, "force": wish.force}
    answer = await _asked(state, wish, "undo", params)
    if isinstance(answer, ExitReason):
        return answer
    text = receipt_text.preview(answer) if wish.preview else [receipt_text.undone(answer)]
    _print([answer] if wish.as_json else text, say)
    return ExitReason(0, "undone")


async def receipts(state: Path, wish: UndoWish, say: Callable[[str], None]) -> ExitReason:
    """Print the newest receipts."""
    answer = await _asked(state, wish, "receipts", {"turn": wish.turn})
    if isinstance(answer, ExitReason):
        return answer
    found = answer["receipts"]
    if wish.as_json:
        _print([{"receipts": found}], say)
    elif not found:
        say("no receipt was written yet")
    for receipt in () if wish.as_json else found:
        _print(receipt_text.full(receipt), say)
    return ExitReason(0, "listed")


async def _asked(state: Path, wish: UndoWish, what: str, params: Payload) -> Payload | ExitReason:
    names = [wish.name] if wish.name else running(state)
    if len(names) != 1:
        which = f"choose one of {', '.join(names)} with --name" if names else "start one first"
        return ExitReason(2 if names else FAULT, f"{len(names)} connectors run here: {which}")
    try:
        async with knock(state / names[0], what) as talk:
            talk.say({"session": wish.session, **params})
            answer = await talk.heard()
    except Closed as error:
        return ExitReason(FAULT, str(error))
    if answer is None or "error" in answer:
        return ExitReason(FAULT, str((answer or {}).get("error", "the connector ended")))
    return answer


def _print(lines: Iterable[Payload | str], say: Callable[[str], None]) -> None:
    for line in lines:
        say(line if isinstance(line, str) else json.dumps(line, indent=2, ensure_ascii=False))


# The connector's end.


async def serve(connector: Connector, talk: Talk, what: str) -> None:
    """Answer one wish from the side door."""
    params = await talk.heard() or {}
    try:
        talk.say(await _answer(connector, what, params))
    except BridgeError as error:
        talk.say({"error": error.message, "data": error.data})


async def _answer(connector: Connector, what: str, params: Payload) -> Payload:
    turn = str(params.get("turn") or "")
    session = str(params.get("session") or "")
    if what == "receipts":
        found = _read(connector, session, undos=False)
        return {"receipts": [one for one in found if turn in {"", one["turn"]}][-NEWEST:]}
    session, turn = _which(_read(connector, session, undos=True), turn)
    if params.get("preview") is True:
        return await connector.way_back.preview(session, turn)
    from agent_side.connector import local_origin

    by, force = local_origin("terminal"), params.get("force") is True
    return await connector.way_back.undo(session, turn, by, force=force)


def _read(connector: Connector, session: str, *, undos: bool) -> list[Payload]:
    """Give what stands in the log of a session, or of all, the oldest first."""
    found: list[Payload] = []
    for id_ in [session] if session else list(connector.sessions):
        found += receipt_list.read(connector.entries(id_), undos=undos)
    return sorted(found, key=lambda one: str(one["at"]))


def _which(found: list[Payload], turn: str) -> tuple[str, str]:
    """Give the session and the id of what is to be undone: a turn, an undo, or the last turn."""
    undone = {one["turn"] for one in found if one["undo"] is not True}
    for one in reversed(found):
        if turn in {one["undo"], one["turn"]}:
            return one["sessionId"], turn
        if not turn and one["undo"] is True and one["turn"] not in undone:
            return one["sessionId"], one["turn"]
    raise NotFound(f"there is no turn {turn[:80]!r}" if turn else "there is no turn to undo")
