"""Further editors at one connector: each comes in a process of its own, over the side door."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_side.doors.lines import ClientLines
from agent_side.doors.socket_lines import SocketLines
from agent_side.faults import REPLACED, ExitReason
from agent_side.folder import StateFolder
from agent_side.side_door import Closed, Talk, knock

if TYPE_CHECKING:
    from agent_side.connector import Connector

AT_MOST = 8  # editors of one connector, the one that started it included
HELD_SECONDS = 10.0  # for a connector that is just ending to let its folder go
LOOK_SECONDS = 0.1
ANSWER_SECONDS = 5.0  # for a connector to say that it serves
WISH = "serve"


class Visitors:
    """Who has come to one connector."""

    def __init__(self) -> None:
        """Begin with none."""
        self._count = 0
        self._none = asyncio.Event()
        self._none.set()

    async def serve(self, connector: Connector, talk: Talk) -> None:
        """Serve an editor until it leaves, or tell it that there are too many."""
        from agent_side.doors.stdio import serve_lines  # which imports the connector

        if self._count >= AT_MOST - 1:
            talk.say({"error": f"{AT_MOST} editors are served here already: close one first"})
            return
        self._count += 1
        self._none.clear()
        try:
            talk.say({"serving": True})
            await serve_lines(connector, talk.lines())
        finally:
            self._count -= 1
            if not self._count:
                self._none.set()

    async def all_left(self) -> None:
        """Wait until nobody is here."""
        await self._none.wait()


async def visit(folder: Path, lines: ClientLines | None) -> ExitReason | None:
    """Have an editor served by the connector that holds a folder; None when none holds it.

    Without an editor the folder is only waited for: a connector may be just ending.
    """
    until = time.monotonic() + HELD_SECONDS
    while StateFolder(folder).is_held() and time.monotonic() < until:
        try:
            return await _visit(folder, lines)
        except Closed:
            await asyncio.sleep(LOOK_SECONDS)
    return None


async def _visit(folder: Path, lines: ClientLines | None) -> ExitReason | None:
    async with knock(folder, WISH if lines is not None else "nothing") as talk:
        told = await _first_word(talk)
        if told is None:
            raise Closed(f"the connector of {folder} has just ended, or stands still")
        if lines is None:
            return None
        if "error" in told:
            return ExitReason(REPLACED, str(told["error"]))
        return await _carry(lines, talk.lines())


async def _first_word(talk: Talk) -> dict[str, Any] | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await talk.heard()
    except TimeoutError:
        return None


async def _carry(lines: ClientLines, there: SocketLines) -> ExitReason:
    """Carry lines both ways until either side leaves."""
    await there.open(lines.write, lambda: None)
    await lines.open(there.write, lambda: None)
    left = asyncio.create_task(lines.gone.wait())
    ended = asyncio.create_task(there.gone.wait())
    try:
        await asyncio.wait((left, ended), return_when=asyncio.FIRST_COMPLETED)
        if left.done():
            there.finish()
            await ended
            return ExitReason(0, "the editor left")
        return ExitReason(REPLACED, "the connector that served this editor has ended: start again")
    finally:
        for task in (left, ended):
            task.cancel()
        await there.close()
        await lines.close()
