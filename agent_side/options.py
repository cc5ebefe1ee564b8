"""Which of an agent's options a plain word means; where it is not plain, none.

Kinds repeat and their order varies, so a kind counts only when one option alone has it.
"""

from __future__ import annotations

from typing import Any, Literal

from bridge.protocol.jsonrpc import Payload


def option_for(params: Payload, verb: Literal["allow", "deny"]) -> str | None:
    """Give the one option that says it for this time; None when there is none, or several."""
    kind = "allow_once" if verb == "allow" else "reject_once"
    fitting = [id_ for id_, its_kind in kinds_of(params).items() if its_kind == kind]
    return fitting[0] if len(fitting) == 1 else None


def kinds_of(params: Payload) -> dict[str, str]:
    """Give the kind of each option of a permission request."""
    options: Any = params.get("options")
    return {
        str(option.get("optionId")): str(option.get("kind", ""))
        for option in (options if isinstance(options, list) else [])
        if isinstance(option, dict)
    }
