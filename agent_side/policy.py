"""What remote clients may make this machine do; the relay can never widen it."""

from __future__ import annotations

import os.path
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent_side.approvals import WIDTH, Preset, read_preset
from agent_side.settings import ConnectorSettings
from bridge.protocol import acp
from bridge.protocol.entry import META_KEY
from bridge.protocol.errors import (
    BridgeError,
    CwdNotAllowed,
    InvalidParams,
    MethodNotFound,
    NotAllowed,
)
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.uplink import Mail

STRICT_MODES = frozenset({"plan", "read-only"})  # in these no agent changes anything unasked
OPEN_CATEGORIES = frozenset({"model", "thought_level"})  # config options that change no rights


class MailExpired(BridgeError):
    """The mail came after the time until which its sender wanted it."""

    code, status, reason = -32012, 409, "mail_expired"


class Policy:
    """The machine's owner's limits for mail."""

    def __init__(self, settings: ConnectorSettings, ask_mode: str | None) -> None:
        """Take the limits from the settings; ``ask_mode`` is the mode in which the agent asks."""
        self._default = settings.cwd
        self._roots = settings.allowed_roots
        self._options = settings.allow_options
        asking = frozenset({ask_mode} if ask_mode else ())
        self._modes = STRICT_MODES | asking | settings.allow_modes
        widest = settings.remote_approval
        self.presets = WIDTH[: WIDTH.index(Preset(widest)) + 1] if widest else []

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders in which remote clients may open sessions."""
        return self._roots

    def modes(self, offered: Iterable[str]) -> list[str]:
        """Give those of the agent's modes that remote clients may set."""
        return [mode for mode in offered if mode in self._modes]

    def check_mail(self, mail: Mail, now: int) -> tuple[str, Payload]:
        """Give a mail's method and params; raises BridgeError when it must not be carried out."""
        if mail.not_after is not None and now > mail.not_after:
            raise MailExpired("this came too late: its sender wanted it earlier, or not at all")
        method, params = mail.message.get("method"), mail.message.get("params", {})
        if method not in acp.MAIL_METHODS:
            raise MethodNotFound(f"{str(method)[:80]!r} cannot be asked of an agent from afar")
        if not isinstance(params, dict):
            raise InvalidParams("params must be an object")
        return str(method), params

    def check_cwd(self, cwd: Any) -> Path:
        """Give the folder of a remote session, links resolved; raises CwdNotAllowed."""
        if cwd is None or cwd == "":
            cwd = str(self._default)
        if not isinstance(cwd, str) or "\0" in cwd or not Path(cwd).is_absolute():
            raise CwdNotAllowed("cwd must be an absolute path")
        folder = Path(os.path.realpath(cwd))
        if not any(folder.is_relative_to(root) for root in self._roots):
            shown = ", ".join(map(str, self._roots))
            raise CwdNotAllowed(f"{cwd} is not open to remote sessions: only {shown}")
        if not folder.is_dir():
            raise CwdNotAllowed(f"{cwd} is no folder on that machine")
        return folder

    def check_mode(self, mode_id: Any) -> str:
        """Give a mode that remote clients may set; raises NotAllowed."""
        if not isinstance(mode_id, str) or mode_id not in self._modes:
            raise NotAllowed(
                f"the mode {str(mode_id)[:80]!r} can be set only on the machine itself"
            )
        return mode_id

    def check_approval(self, preset: Any) -> Preset:
        """Give a preset that remote clients may set; raises NotAllowed or InvalidParams."""
        found = read_preset(preset)
        if found not in self.presets:
            allowed = f"only {', '.join(self.presets)}" if self.presets else "none"
            raise NotAllowed(
                f"the preset {found} can be set only on the machine; from afar {allowed}"
            )
        return found

    def check_option(self, params: Payload, options: list[Any] | None) -> None:
        """Check a config option that a remote client sets; raises NotAllowed or InvalidParams."""
        config_id = params.get("configId")
        option = next(
            (o for o in options or () if isinstance(o, dict) and o.get("id") == config_id), None
        )
        if option is None:
            raise InvalidParams(f"the session has no config option {str(config_id)[:80]!r}")
        if option.get("category") == "mode" or config_id == "mode":
            self.check_mode(params.get("value"))
        elif option.get("category") not in OPEN_CATEGORIES and config_id not in self._options:
            raise NotAllowed(
                f"the option {str(config_id)[:80]!r} can be set only on the machine itself"
            )


def named_agent(params: Payload) -> str | None:
    """Give the agent that a session/new is for, when it says one."""
    meta = params.get("_meta")
    ours = meta.get(META_KEY) if isinstance(meta, dict) else None
    agent = ours.get("agent") if isinstance(ours, dict) else None
    return agent if isinstance(agent, str) else None
