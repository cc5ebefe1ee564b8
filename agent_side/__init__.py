"""The connector: runs beside one agent and offers its sessions to people, near and far.

Programs embed it by ``agent_side.serve``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_side.embedding import serve as serve

__all__ = ["serve"]


def __getattr__(name: str) -> Any:
    """Import what a program asks for only then: the command line's start must be quick."""
    if name != "serve":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agent_side.embedding import serve

    return serve
