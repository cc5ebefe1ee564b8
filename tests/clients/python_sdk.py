"""A client made with the official Python SDK, as its examples make them."""

from __future__ import annotations

import asyncio
from typing import Any

from acp.schema import AllowedOutcome, RequestPermissionResponse


class SdkEditor:
    """Keeps what it is told; answers every question with one option, or never with None."""

    def __init__(self, option: str | None) -> None:
        self.option = option
        self.updates: list[Any] = []
        self.questions: list[Any] = []
        self.asked = asyncio.Event()
        self.resolved = asyncio.Event()  # told that somebody else was faster

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        meta = (update.field_meta or {}).get("chimera.bridge", {})
        if "resolved" in meta:
            self.resolved.set()

    async def request_permission(
        self, options: Any, session_id: str, tool_call: Any, **_: Any
    ) -> RequestPermissionResponse:
        self.questions.append(tool_call)
        self.asked.set()
        if self.option is None:
            await asyncio.Event().wait()
        outcome = AllowedOutcome(outcome="selected", option_id=self.option)
        return RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def text(self) -> str:
        chunks = [u for u in self.updates if u.session_update == "agent_message_chunk"]
        return "".join(chunk.content.text for chunk in chunks)
