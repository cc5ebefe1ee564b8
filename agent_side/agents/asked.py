"""What a client asks of an agent that we bring along: each message served, answered or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias


class Refused(Exception):
    """A request we cannot serve, with its JSON-RPC code."""

    def __init__(self, code: int, message: str) -> None:
        """Keep both as the error object."""
        super().__init__(message)
        self.error = {"code": code, "message": message}


class Answers(Protocol):
    """The way out of an agent."""

    def send(self, **message: Any) -> None:
        """Write one message."""

    def take_answer(self, message: dict[str, Any]) -> None:
        """Take the answer to a question of ours."""


Serve: TypeAlias = Callable[[str, dict[str, Any], Any], Any]  # (method, params, id) → result


def take(message: dict[str, Any], wire: Answers, serve: Serve) -> Any:
    """Serve a message and give its result; None when it has none, comes later or is refused."""
    if "method" not in message:
        wire.take_answer(message)
        return None
    id_, params = message.get("id"), message.get("params") or {}
    try:
        result = serve(message["method"], params, id_)
    except Refused as refused:
        if id_ is not None:
            wire.send(id=id_, error=refused.error)
        return None
    if id_ is not None and result is not None:
        wire.send(id=id_, result=result)
    return result
