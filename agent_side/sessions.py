"""One conversation: its public id, what is known of it, and what the agent says in it."""

from __future__ import annotations

import os
import time
import unicodedata
import uuid
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from agent_side.agent_text import Cleaned
from agent_side.doings import Doings
from agent_side.journal import SessionFacts
from agent_side.log import Draft, Log
from agent_side.tool_cards import ToolCards
from bridge.protocol import acp, chunk, entry, jsonrpc
from bridge.protocol.chunk import Chunk
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import AgentUnavailable
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import SessionCard

TITLE_LENGTH = 80  # characters, of the first prompt until the agent gives a title
UNSEEN = frozenset({"Cc", "Cf", "Cs"})  # categories: controls, direction marks, lone surrogates
REPLAYED = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"}
    | {"tool_call", "tool_call_update", "plan"}
)
CHUNKS = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})


class StallReason(StrEnum):
    """Why nothing comes of a running turn; a closed list."""

    CANCEL_UNACKNOWLEDGED = "cancel_unacknowledged"
    SILENT = "silent"


class _Kind(msgspec.Struct):
    kind: str = msgspec.field(default="", name="sessionUpdate")


_kind = msgspec.json.Decoder(_Kind).decode


def new_session_id() -> str:
    """Mint a public session id: a UUID of version 7, which sorts by time."""
    stamp = (time.time_ns() // 1_000_000) << 80
    number = stamp | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | (0x7 << 76)
    number = number & ~(0x3 << 62) | (0x2 << 62)
    return str(uuid.UUID(int=number))


class Session:
    """A session as its log and its card show it; what it says is written through the log."""

    def __init__(
        self, facts: SessionFacts, log: Log, on_changed: Callable[[Session], None]
    ) -> None:
        """Keep what is known; ``on_changed`` hears that the card is another now."""
        self.facts = facts
        self.cards = ToolCards()
        self.doings = Doings()  # of the turn that runs, or ran last
        self.run = 0  # of the agent's processes, the one that knows this session; 0: none
        self.loading = False  # the agent replays what the log has already
        self.prompting = False
        self.questions = 0  # open ones
        self.approval = ""  # the preset by which questions are decided without a person
        self.stalled = ""  # why nothing comes of the running turn; empty: something does
        self._heard_at = 0.0
        self._log = log
        self._on_changed = on_changed

    @property
    def id(self) -> str:
        """The public id."""
        return self.facts.session_id

    @property
    def agent_id(self) -> str:
        """The agent's own id for it; never leaves the connector."""
        return self.facts.agent_session_id

    @property
    def mode(self) -> str | None:
        """The mode it was in when the agent last said so."""
        mode = (self.facts.modes or {}).get("currentModeId")
        return mode if isinstance(mode, str) else None

    @property
    def cwd(self) -> Path:
        """The folder it works in."""
        return Path(self.facts.cwd)

    @property
    def title(self) -> str:
        """What it is about."""
        return self.facts.title

    @property
    def state(self) -> str:
        """One word of acp.SESSION_STATES."""
        if self.facts.ended:
            return "ended"
        if self.questions:
            return "waiting"
        if self.stalled:
            return "stalled"
        return "running" if self.prompting else "idle"

    def card(self, agent_id: str, seq: int, *, in_full: bool = True) -> SessionCard:
        """Describe it for the relay."""
        facts = self.facts
        return SessionCard(
            session_id=facts.session_id,
            agent=agent_id,
            counter=facts.counter,
            seq=seq,
            title=facts.title,
            cwd=facts.cwd,
            state=self.state,
            state_reason=self.stalled if self.state == "stalled" else "",
            modes=facts.modes if in_full else None,
            models=facts.models if in_full else None,
            config_options=facts.config_options if in_full else None,
            usage=facts.usage,
            approval=self.approval,
        )

    def opened_result(self) -> Payload:
        """Give what session/load answers: modes, models and config options as they are now."""
        facts = self.facts
        found = {
            "modes": facts.modes,
            "models": facts.models,
            "configOptions": facts.config_options,
        }
        return {k: v for k, v in found.items() if v is not None}

    def offered_modes(self) -> list[str]:
        """Give the ids of the modes that the agent offers in it."""
        modes = _objects((self.facts.modes or {}).get("availableModes"))
        return [mode["id"] for mode in modes if isinstance(mode.get("id"), str)]

    def refuse_ended(self) -> None:
        """Raise AgentUnavailable when the session has ended."""
        if self.facts.ended:
            raise AgentUnavailable("the session has ended: its agent does not know it any more")

    def change_to(self, mode: str) -> tuple[str, Payload] | None:
        """Give the method and params that put it into a mode; None when it is, or has none such."""
        modes = self.facts.modes
        if modes is not None:
            if mode not in self.offered_modes() or self.mode == mode:
                return None
            return acp.SET_MODE, {"modeId": mode}
        for option in _objects(self.facts.config_options):
            values = [v.get("value") for v in _objects(option.get("options"))]
            if option.get("category") == "mode" and mode in values:
                if option.get("currentValue") == mode:
                    return None
                return acp.SET_CONFIG_OPTION, {"configId": option.get("id"), "value": mode}
        return None

    def model_option(self) -> str | None:
        """Give the id of the config option that chooses the model, where there is one."""
        for option in _objects(self.facts.config_options):
            if option.get("category") == "model" and isinstance(option.get("id"), str):
                return str(option["id"])
        return None

    # What changes it.

    def say(self, cleaned: Cleaned) -> None:
        """Write an update of the agent, unless it only replays what the log has."""
        self.heard()
        update = cleaned.fields.get("update")
        kind = _kind_of(update)
        if self.loading and kind in REPLAYED:
            return
        if kind not in CHUNKS and isinstance(update, msgspec.Raw):
            self._learn(kind, jsonrpc.value(update))
        draft = Draft(
            method=entry.UPDATE,
            fields=cleaned.fields,
            short_fields=cleaned.short,
            agent_meta=cleaned.meta,
            short_meta=cleaned.short_meta,
        )
        piece = _piece_of(kind, cleaned)
        if piece is None:
            self._log.append(self.id, draft)
        else:
            self._log.say(self.id, draft, piece)

    def heard(self) -> None:
        """Note that the agent did something here."""
        self._heard_at = time.monotonic()
        if self.stalled == StallReason.SILENT:
            self.stall("")

    def silence(self) -> float:
        """Give the seconds since the agent did something here."""
        return time.monotonic() - self._heard_at

    def stall(self, reason: str) -> None:
        """Keep that nothing comes of the running turn, or (empty) that something does."""
        if self.stalled != reason:
            self.stalled = reason
            self.changed()

    def begin_doings(self) -> None:
        """Gather anew what the agent does: a turn begins."""
        self.doings = Doings(used=self.facts.usage)

    def close_cards(self) -> None:
        """Say of each tool call that the agent left open that it has ended."""
        for id_ in self.cards.close_all():
            update = {
                "sessionUpdate": "tool_call_update",
                "toolCallId": id_,
                "status": "failed",
                "_meta": {META_KEY: {"closed": "turn_ended"}},
            }
            self._log.append(self.id, Draft(method=entry.UPDATE, fields={"update": update}))

    def take_settings(self, result: Payload) -> None:
        """Keep modes, models and config options as the agent gave them."""
        facts = self.facts
        if isinstance(modes := result.get("modes"), dict):
            facts.modes = modes
        if isinstance(models := result.get("models"), dict):
            facts.models = models
        if isinstance(options := result.get("configOptions"), list):
            facts.config_options = options
        self.changed()

    def set_mode(self, mode_id: str) -> None:
        """Keep that the agent is in a mode now."""
        if self.facts.modes is not None:
            self.facts.modes = {**self.facts.modes, "currentModeId": mode_id}
        self.changed()

    def set_model(self, model_id: str) -> None:
        """Keep that the agent uses a model now."""
        if self.facts.models is not None:
            self.facts.models = {**self.facts.models, "currentModelId": model_id}
        self.changed()

    def name_after(self, prompt: list[Payload]) -> None:
        """Take the first prompt's text for a title while there is none."""
        if self.facts.title:
            return
        texts = [block.get("text") for block in prompt if isinstance(block.get("text"), str)]
        self.facts.title = _title(" ".join(map(str, texts)))
        self.changed()

    def end(self) -> None:
        """End it for good: the agent does not know it any more."""
        self.facts.ended = True
        self.changed()

    def changed(self) -> None:
        """Say that the card is another one now."""
        self._on_changed(self)

    def _learn(self, kind: str, update: Any) -> None:
        if not isinstance(update, dict):
            return
        if kind in ("tool_call", "tool_call_update"):
            self.cards.take(update)
            self.doings.take(update)
        elif kind == "session_info_update" and isinstance(update.get("title"), str):
            self.facts.title = _title(update["title"])
            self.changed()
        elif kind == "current_mode_update" and isinstance(update.get("currentModeId"), str):
            self.set_mode(update["currentModeId"])
        elif kind == "config_option_update":
            self.take_settings(update)
        elif kind == "usage_update":
            self.facts.usage = {k: update[k] for k in ("used", "size", "cost") if k in update}
            self.changed()


def _piece_of(kind: str, cleaned: Cleaned) -> Chunk | None:
    """Give a piece of text that says nothing else."""
    if kind not in CHUNKS or cleaned.short or cleaned.meta or list(cleaned.fields) != ["update"]:
        return None
    return chunk.read(cleaned.fields["update"])


def _title(text: str) -> str:
    """Give a title of one short line: no character in it turns or hides what stands beside it."""
    kept = (c for c in " ".join(text[:4096].split()) if unicodedata.category(c) not in UNSEEN)
    return "".join(kept)[:TITLE_LENGTH]


def _objects(value: Any) -> list[Payload]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _kind_of(update: Any) -> str:
    if not isinstance(update, msgspec.Raw):
        return ""
    try:
        return _kind(update).kind
    except msgspec.DecodeError:
        return ""
