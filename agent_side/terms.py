"""On which terms a connector's questions are asked, as its owner's settings say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agent_side.approvals import Approvals, Preset
from agent_side.risk import Risk
from agent_side.rules import Rules
from agent_side.sandbox import SandboxState
from agent_side.settings import ConnectorSettings
from agent_side.signatures import Signatures
from agent_side.unanswered import Unanswered


@dataclass(frozen=True)
class Terms:
    """What holds for every question."""

    approvals: Approvals
    roots: tuple[Path, ...]  # folders in which a sandboxed agent may write
    unanswered: tuple[Unanswered, ...]
    is_signed: Callable[[], bool]  # whether an answer from afar needs a signature now
    secrets_in: Callable[[bytes], list[str]]  # names the kinds of secret in a text
    takes_relay_rules: Callable[[], bool]  # whether a rule of the relay may allow


def terms_of(
    settings: ConnectorSettings, rules: Rules, sandbox: SandboxState, signatures: Signatures
) -> Terms:
    """Give the terms that hold for a connector's whole life."""
    approvals = Approvals(
        rules,
        sandbox,
        preset=Preset(settings.approval),
        two_people=cast("Risk | None", settings.two_people or None),
    )
    return Terms(
        approvals,
        settings.allowed_roots,
        settings.ends,
        is_signed=lambda: signatures.required,
        secrets_in=settings.redaction.kinds,
        takes_relay_rules=lambda: signatures.relay_rules,
    )
