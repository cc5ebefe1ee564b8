"""The tool calls of a session that have not ended, as the agent has described them so far."""

from __future__ import annotations

from bridge.protocol.jsonrpc import Payload

CARDS_KEPT = 500  # per session; an agent that never closes its cards must not fill the memory
OPEN_STATES = frozenset({"pending", "in_progress"})
KEPT = ("title", "kind", "status", "rawInput", "content", "locations", "name")


class ToolCards:
    """Merges ``tool_call`` and ``tool_call_update`` by their id until the call ends."""

    def __init__(self) -> None:
        """Begin without a card."""
        self._cards: dict[str, Payload] = {}

    def take(self, update: Payload) -> None:
        """Take an update of a session; other kinds change nothing."""
        kind, id_ = update.get("sessionUpdate"), update.get("toolCallId")
        if kind not in ("tool_call", "tool_call_update") or not isinstance(id_, str):
            return
        card = self._cards.pop(id_, {"status": "pending"} if kind == "tool_call" else {})
        card.update({k: update[k] for k in KEPT if update.get(k) is not None})
        if card.get("status", "pending") in OPEN_STATES:
            self._cards[id_] = card
            while len(self._cards) > CARDS_KEPT:
                del self._cards[next(iter(self._cards))]

    def get(self, tool_call_id: object) -> Payload:
        """Give what is known of a tool call; empty when nothing is."""
        return self._cards.get(tool_call_id, {}) if isinstance(tool_call_id, str) else {}

    def close_all(self) -> list[str]:
        """Forget all; give the ids of the calls that the agent had begun and left open."""
        left = [id_ for id_, card in self._cards.items() if card.get("status") in OPEN_STATES]
        self._cards.clear()
        return left
