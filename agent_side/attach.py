"""``chimera-bridge attach``: an editor's standard input and output, carried to a relay.

One line is one websocket frame. A lost relay is retried for ever on network faults, with one line
on standard error per change; refused credentials and final close codes end it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from agent_side.connect import stopped_by_signals
from agent_side.conversation import Conversation, Wishes
from agent_side.doors.lines import ClientLines, take_stdio
from agent_side.settings import SCHEMES, RelayTarget, SettingsError
from agent_side.uplink import FAULT, REFUSED, Backoff, ExitReason
from bridge.protocol.close_codes import CloseCode, is_final
from bridge.protocol.errors import BridgeError

ACP_PATH = "/acp"
STEADY_SECONDS = 30.0  # a connection of this age starts the waits anew
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
        loop, backoff = asyncio.get_running_loop(), Backoff()
        while True:
            began = loop.time()
            ending, why = await self._connection()
            if ending is not None:
                return ending
            self._conversation.lost(why)
            self._say(f"{self._target.url}: {why}; trying again")
            if loop.time() - began > STEADY_SECONDS:
                backoff.reset()
            await asyncio.sleep(backoff.next())

    async def _connection(self) -> tuple[ExitReason | None, str]:
        """Carry over one connection; give how all ends, or why this one did."""
        try:
            async with self._open() as socket:
                return await self._serve(socket)
        except InvalidStatus as error:
            return _refusal(error.response.status_code), f"HTTP {error.response.status_code}"
        except SettingsError as error:
            return ExitReason(REFUSED, str(error)), ""
        except ssl.SSLCertVerificationError as error:
            return None, f"its certificate is not trusted: {error.verify_message}"
        except (OSError, TimeoutError, InvalidHandshake) as error:
            return None, str(error) or type(error).__name__

    async def _serve(self, socket: ClientConnection) -> tuple[ExitReason | None, str]:
        self._say(f"attached to {self._target.url}")
        sending = _Sender(socket)
        try:
            self._conversation.connected(sending.send)
            async for frame in socket:
                text = frame.encode() if isinstance(frame, str) else frame
                self._conversation.from_relay(text)
        except ConnectionClosed:
            pass
        except BridgeError as error:
            return None, error.message
        finally:
            await sending.stop()
        return _closed(socket.close_code, socket.close_reason)

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


def _refusal(status: int) -> ExitReason | None:
    if status == 401:  # noqa: PLR2004
        return ExitReason(
            REFUSED, "the relay refused the token: it is missing, expired or not valid"
        )
    if status == 403:  # noqa: PLR2004
        return ExitReason(
            REFUSED, "the relay does not allow this token here: it needs one of a person"
        )
    return None


def _closed(code: int | None, reason: str | None) -> tuple[ExitReason | None, str]:
    said = f"closed with {code} {reason or ''}".strip()
    if code in (CloseCode.TOKEN_INVALID, CloseCode.NOT_ALLOWED):
        return ExitReason(REFUSED, f"the relay refused us: {reason or code}"), said
    # A message that was too big is answered with an error; the conversation goes on.
    if code is not None and is_final(code) and code not in (CloseCode.NORMAL, CloseCode.TOO_BIG):
        return ExitReason(FAULT, f"the relay {said}"), said
    return None, "the connection was lost" if code in (None, 1006) else f"it {said}"
