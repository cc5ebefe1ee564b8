"""Facts of ACP v1 that both programs need: method names, roles, limits.

Source: the Agent Client Protocol, version 1 (agentclientprotocol.com, ``schema/v1/schema.json``).
"""

from __future__ import annotations

from enum import IntEnum

PROTOCOL_VERSION = 1
INITIALIZE = "initialize"
AUTHENTICATE = "authenticate"
NEW = "session/new"
LOAD = "session/load"
RESUME = "session/resume"
LIST = "session/list"
CLOSE = "session/close"
PROMPT = "session/prompt"
CANCEL = "session/cancel"
SET_MODE = "session/set_mode"
SET_MODEL = "session/set_model"
SET_CONFIG_OPTION = "session/set_config_option"
CANCEL_REQUEST = "$/cancel_request"
DECIDE = "_bridge/decide"
SET_APPROVAL = "_bridge/set_approval"
UNDO = "_bridge/undo"
UNDO_PREVIEW = "_bridge/undo_preview"
RECEIPTS = "_bridge/receipts"  # at the local doors; elsewhere they are read in the log
HISTORY = "_bridge/history"
ENTRY = "_bridge/entry"
STATUS = "_bridge/status"
STATUS_ALIASES = frozenset({STATUS, "session/bridgeStatus", "_ferret/bridgeStatus"})
OURS = ("_bridge/", "uplink/")  # from an agent such methods are forged


class Role(IntEnum):
    """What a subject may do in a tenant; each includes the ones before it."""

    VIEWER = 1
    APPROVER = 2
    OPERATOR = 3
    ADMIN = 4

    @classmethod
    def parse(cls, name: str) -> Role:
        """Read a role's name; raises KeyError."""
        return cls[name.upper()]

    def __str__(self) -> str:
        """Write the role's name in lower case."""
        return self.name.lower()


NEEDED_ROLE = {
    INITIALIZE: Role.VIEWER,
    LIST: Role.VIEWER,
    LOAD: Role.VIEWER,
    RESUME: Role.VIEWER,
    CLOSE: Role.VIEWER,
    "_bridge/agents": Role.VIEWER,
    "_bridge/sessions": Role.VIEWER,
    "_bridge/round_trips": Role.VIEWER,
    "_bridge/watch": Role.VIEWER,
    HISTORY: Role.VIEWER,
    ENTRY: Role.VIEWER,
    "_bridge/visible": Role.VIEWER,
    "_bridge/token": Role.VIEWER,
    **dict.fromkeys(STATUS_ALIASES, Role.VIEWER),
    DECIDE: Role.APPROVER,
    NEW: Role.OPERATOR,
    PROMPT: Role.OPERATOR,
    CANCEL: Role.OPERATOR,
    SET_MODE: Role.OPERATOR,
    SET_CONFIG_OPTION: Role.OPERATOR,
    SET_APPROVAL: Role.OPERATOR,
    UNDO: Role.OPERATOR,
    UNDO_PREVIEW: Role.OPERATOR,
}
MAIL_METHODS = frozenset(
    {PROMPT, CANCEL, SET_MODE, SET_CONFIG_OPTION, SET_APPROVAL} | {NEW, DECIDE, UNDO, UNDO_PREVIEW}
)
SESSION_STATES = frozenset({"idle", "running", "waiting", "stalled", "ended"})
