"""``chimera-bridge attach``: an editor's standard input and output, carried to a relay.

One line is one websocket frame. A lost relay is retried for ever on network faults, with one line
on standard error per change; refused credentials and final close codes end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from agent_side import faults
from agent_side.connect import stopped_by_signals
from agent_side.conversation import Conversation, Wishes
from agent_side.doors.lines import ClientLines, take_stdio
from agent_side.faults import EXPECTED, REFUSED, ExitReason, Fault
from agent_side.settings import SCHEMES, RelayTarget
from agent_side.uplink import Backoff
from bridge.protocol.close_codes import CloseCode

ACP_PATH = "/acp"
OPEN_SECONDS = 10.0
LEAVE_SECONDS = 2.0  # for answers still on their way when the editor's input ends
FRAME_LIMIT = 64 << 20  # bytes


async def attach(target: RelayTarget, wishes: Wishes) -> ExitReason:
    """Carry this process's standard input and output to a relay, until a signal or either's end."""
    attached = Attach(target, take_stdio(), wishes)
    with stopped_by_signals(attached.stop):
        return await attached.run()


class Attach:
    """One editor attached to one relay."""

    def __init__(
        self,
        target: RelayTarget,
        lines: ClientLines,
        wishes: Wishes,
        tell: Callable[[str], None] = lambda sentence: print(sentence, file=sys.stderr, flush=True),  # noqa: T201
    ) -> None:
        """Nothing is opened before ``run``; ``tell`` gets a line for each change."""
        self._target = target
        self._lines = lines
        self._conversation = Conversation(self._to_editor, wishes)
        self._stopped = asyncio.Event()
        self._idle = asyncio.Event()  # set when the editor waits for no answer
        self._tell = tell
        self._told = ""

    async def run(self) -> ExitReason:
        """Carry until the editor leaves or the relay refuses us."""
        await self._lines.open(self._conversation.from_editor, self._conversation.skipped)
        carrying = asyncio.create_task(self._carry())
        left = asyncio.create_task(self._lines.gone.wait())
        stopped = asyncio.create_task(self._stopped.wait())
        tasks = (carrying, left, stopped)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if carrying.done():
                return carrying.result()
            if left.done():
                await self._finish()
            return ExitReason(0, "the editor left")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._lines.close()

    def stop(self, _reason: str) -> None:
        """End at once."""
        self._stopped.set()

    async def _finish(self) -> None:
        """Wait a moment for answers to what was asked before the input ended."""
        self._idle.clear()
        if self._conversation.connected_now and not self._conversation.idle:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), LEAVE_SECONDS)

    def _to_editor(self, message: bytes) -> None:
        self._lines.write(message)
        if self._conversation.idle:
            self._idle.set()

    async def _carry(self) -> ExitReason:
        backoff = Backoff()
        while True:
            ending, why, told = await self._connection(backoff)
            if ending is not None:
                return ending
            self._say(f"{self._target.url}: {why}; trying again")
            await asyncio.sleep(backoff.next(told))

    async def _connection(self, backoff: Backoff) -> tuple[ExitReason | None, str, float]:
        """Carry over one connection; give how all ends, or why this one did and when to return."""
        try:
            socket = await self._open()
            began = time.monotonic()
            try:
                await self._serve(socket)
            finally:
                backoff.lived(time.monotonic() - began)
                if socket.state is State.OPEN:  # closing what is closed raises in asyncio
                    await socket.close()
        except EXPECTED as error:
            fault = faults.read(error, self._target.url)
            self._conversation.lost(fault.detail, too_big=_is_too_big(error))
            told = faults.retry_after(error)
            return _refusal(fault, self._target.url), fault.detail, told
        raise AssertionError("a connection ends by an exception")  # receiving is endless

    async def _serve(self, socket: ClientConnection) -> None:
        """Carry until the connection ends; raises what it ended by."""
        self._say(f"attached to {self._target.url}")
        sending = _Sender(socket)
        try:
            self._conversation.connected(sending.send)
            while True:
                frame = await socket.recv(decode=False)
                self._conversation.from_relay(frame)
        finally:
            await sending.stop()

    def _open(self) -> connect:
        token = self._target.read_token()
        return connect(
            acp_url(self._target.url),
            additional_headers={"Authorization": f"Bearer {token}"} if token else {},
            ssl=tls_context(self._target),
            max_size=FRAME_LIMIT,
            compression=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=LEAVE_SECONDS,
        )

    def _say(self, sentence: str) -> None:
        if sentence != self._told:
            self._tell(sentence)
            self._told = sentence


class _Sender:
    """Sends messages in order without making the caller wait."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()  # bounded by what one editor says
        self._task = asyncio.create_task(self._run())

    def send(self, message: bytes) -> None:
        self._queue.put_nowait(message)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                await self._socket.send(await self._queue.get(), text=True)


def _is_too_big(error: Exception) -> bool:
    closing = error.rcvd if isinstance(error, ConnectionClosed) else None
    return closing is not None and closing.code == CloseCode.TOO_BIG


def acp_url(url: str) -> str:
    """Give the websocket address of the relay's door for ACP clients."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") or ACP_PATH
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, "", ""))


def tls_context(target: RelayTarget) -> ssl.SSLContext | None:
    """Give the TLS settings of a relay's address, with its own authority where one is named."""
    if not acp_url(target.url).startswith("wss:"):
        return None
    context = ssl.create_default_context()
    if target.ca is not None:
        context.load_verify_locations(target.ca)
    return context


def _refusal(fault: Fault, url: str) -> ExitReason | None:
    """Give how all ends by a fault; None when trying again makes sense."""
    if fault.token_refused:
        return ExitReason(
            REFUSED,
            f"{url} does not take the token ({fault.detail}): get one with `chimera-relay token "
            "--kind person` and set CHIMERA_BRIDGE_TOKEN or --token-file",
        )
    return fault.exit
