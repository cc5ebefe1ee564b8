"""The files that an editor has open, read from it: unsaved changes count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from bridge.protocol import jsonrpc
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Id

READ = "fs/read_text_file"
READ_SECONDS = 10.0  # for an editor to give the files of one prompt; then the links stay links


class EditorFiles:
    """What is asked of one editor; ``write`` takes each message for it."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        """Begin with an editor that offers no files."""
        self.offered = False
        self._write = write
        self._numbers = count(1)
        self._asked: dict[Id, tuple[str, asyncio.Future[str | None]]] = {}
        self._left: set[str] = set()  # sessions whose prompts were cancelled while files were read

    async def read(self, session_id: str, paths: list[str]) -> dict[str, str] | None:
        """Give the texts that the editor has, by path; None when the prompt was cancelled."""
        self._left.discard(session_id)
        asked = {path: self._ask(session_id, path) for path in paths}
        await asyncio.wait(asked.values(), timeout=READ_SECONDS)
        if session_id in self._left:
            return None
        found = {path: text.result() for path, text in asked.items() if text.done()}
        return {path: text for path, text in found.items() if text is not None}

    def take(self, response: jsonrpc.Response) -> bool:
        """Take a file; False when the response answers something else."""
        if response.id is None or response.id not in self._asked:
            return False
        _, text = self._asked.pop(response.id)
        if not text.done():
            text.set_result(_content(response))
        return True

    def leave(self, session_id: str | None = None) -> None:
        """Wait no more for the files of a session, or (None) for any."""
        for asked_in, text in list(self._asked.values()):
            if session_id in (None, asked_in):
                self._left.add(asked_in)
                if not text.done():
                    text.set_result(None)

    def _ask(self, session_id: str, path: str) -> asyncio.Future[str | None]:
        id_ = f"read-{next(self._numbers)}"
        text: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[id_] = (session_id, text)
        self._write(jsonrpc.request(id_, READ, {"sessionId": session_id, "path": path}))
        return text


def _content(response: jsonrpc.Response) -> str | None:
    if response.result is None:
        return None
    try:
        content = jsonrpc.payload(response.result).get("content")
    except InvalidParams:
        return None
    return content if isinstance(content, str) else None
