"""The prompts of one local client that run or wait; they are cancelled when it leaves."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable

from agent_side.connector import Connector
from agent_side.turn import TurnEnd
from bridge.protocol.entry import Origin
from bridge.protocol.errors import BridgeError
from bridge.protocol.jsonrpc import Payload


class Prompts:
    """What one client has asked and not been told the end of."""

    def __init__(self, connector: Connector, origin: Origin) -> None:
        """Begin without a prompt."""
        self.own: set[str] = set()  # mail ids of all its prompts, which are not echoed to it
        self._connector = connector
        self._origin = origin
        self._open: dict[str, str] = {}  # mail id → session
        self._quiet = asyncio.Event()  # set while it waits for no prompt
        self._quiet.set()

    def submit(
        self, session_id: str, prompt: list[Payload], on_ended: Callable[[TurnEnd], None]
    ) -> str:
        """Run a prompt when its turn comes and give its mail id; raises BridgeError."""
        mail_id = f"{self._origin.door}-{secrets.token_hex(12)}"

        def ended(end: TurnEnd) -> None:
            self._forget(mail_id)
            on_ended(end)

        self.own.add(mail_id)
        self._open[mail_id] = session_id
        self._quiet.clear()
        try:
            self._connector.prompt(session_id, prompt, self._origin, mail_id, ended)
        except BridgeError:
            self._forget(mail_id)
            raise
        return mail_id

    def withdraw(self, mail_id: str) -> None:
        """Cancel one of them, and no other work."""
        if (session_id := self._open.get(mail_id)) is not None:
            self._connector.withdraw_prompt(session_id, mail_id, self._origin)

    async def leave(self, seconds: float) -> None:
        """Cancel them all, and no other work; wait for their ends."""
        for mail_id in list(self._open):
            self.withdraw(mail_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._quiet.wait(), seconds)

    def _forget(self, mail_id: str) -> None:
        self._open.pop(mail_id, None)
        if not self._open:
            self._quiet.set()
