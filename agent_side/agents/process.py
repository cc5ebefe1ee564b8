"""One ACP agent as a child process, spoken to over its standard input and output.

Everything the agent says is delivered by synchronous callbacks in the order of its lines: requests,
notifications and the results of our own calls alike. So a turn's end is known exactly after the
turn's last update. A line that is not JSON-RPC is noise: counted, never fatal.

Errors:

AgentStartError     the agent cannot be started, with a sentence for people
AgentError          the agent answered a call with an error
└── AgentTimeout    it did not answer in time
AgentGone           the agent ended before it answered
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import shlex
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import msgspec

from agent_side.agents.child import LINE_LIMIT, Child, shown
from agent_side.sandbox import Sandbox
from bridge.protocol import jsonrpc
from bridge.protocol.errors import AgentUnavailable, BridgeError, InvalidRequest, ParseError
from bridge.protocol.jsonrpc import Payload

TAIL_SHOWN = 5  # of them, in a sentence for people
INITIALIZE_SECONDS = 120.0  # a slow disk needs 10 s; some commands download the agent first
GRACE_SECONDS = 3.0  # after the end of its input, and again after SIGTERM
ACP_VERSION = 1

logger = logging.getLogger(__name__)

CLIENT_CAPABILITIES: Payload = {
    "fs": {"readTextFile": False, "writeTextFile": False},
    "terminal": False,
    "session": {"configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
}


@dataclass(frozen=True)
class AgentCommand:
    """What to start: the program, its whole environment, and how it is made to ask."""

    name: str  # the catalogue's name, or the program's for a command of one's own
    title: str  # shown until the agent says its own
    argv: tuple[str, ...]
    env: Mapping[str, str]  # the child's complete environment
    cwd: Path
    ask_mode: str | None  # the session mode in which it asks, set after session/new when offered
    login_hint: str  # the line to run when it is not logged in
    state: tuple[Path, ...] = ()  # its own files and folders, which it must always write
    sandbox: Sandbox = field(default_factory=Sandbox)


class AgentStartError(Exception):
    """The agent does not start; the message says why and what to do."""


class AgentError(Exception):
    """The agent answered a call with an error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        """Keep the agent's own code, message and data."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_object(self) -> Payload:
        """Give the JSON-RPC error object, to pass it on as it came."""
        shown: Payload = {"code": self.code, "message": self.message}
        return shown if self.data is None else {**shown, "data": self.data}


class AgentTimeout(AgentError):
    """The agent did not answer a call in time."""


class AgentGone(AgentUnavailable):
    """The agent ended before it answered."""


Outcome: TypeAlias = msgspec.Raw | AgentError | AgentGone


class AgentProcess:
    """One running agent; every callback is called in the order of the agent's lines.

    When the agent ends, calls still open get AgentGone first, then ``on_exit`` is called once
    with the exit code (negative: the signal; None: unknown) and its last lines on standard error.
    A callback must not raise; if one does, it is logged and the next line is delivered.
    """

    def __init__(
        self,
        command: AgentCommand,
        *,
        on_request: Callable[[jsonrpc.Request], None],
        on_notification: Callable[[jsonrpc.Notification], None],
        on_exit: Callable[[int | None, str], None],
        client_info: Payload | None = None,
    ) -> None:
        """Keep what is needed; nothing runs before ``start``."""
        self.command = command
        self.noise = 0  # lines on standard output that were no JSON-RPC, or too long
        self._on_request = on_request
        self._on_notification = on_notification
        self._on_exit = on_exit
        self._client_info = client_info or _client_info()
        self._child = Child(self._take, self._count_skipped, self._ended)
        self._waiting: dict[jsonrpc.Id, Callable[[Outcome], None]] = {}
        self._last_id = 0
        self._starting = True

    @property
    def pid(self) -> int | None:
        """The process's id, also its group's; None before the start."""
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether the agent runs and can be spoken to."""
        return self._child.alive

    # Life.

    async def start(self) -> Payload:
        """Start the agent and give its answer to initialize; raises AgentStartError."""
        await self._spawn()
        try:
            answer = await self.call("initialize", self._hello(), INITIALIZE_SECONDS)
            result = self._checked(answer)
        except BaseException as error:
            await self.stop()
            if isinstance(error, AgentError | AgentGone | BridgeError):
                raise AgentStartError(self._why_not_started(error)) from None
            raise
        self._starting = False
        return result

    async def stop(self) -> None:
        """End the agent: close its input, then SIGTERM, then SIGKILL to its process group."""
        if not self.alive:
            return
        self._child.close_input()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await self._child.ends_within(GRACE_SECONDS):
                return
            self._child.signal_group(number)
        await self._child.ended.wait()

    # Speaking.

    async def call(self, method: str, params: Payload, timeout: float | None = None) -> msgspec.Raw:
        """Give the result's bytes; raises AgentError, AgentTimeout (seconds) or AgentGone."""
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not answered.done():
                answered.set_result(outcome)

        id_ = self.start_call(method, params, done)
        try:
            async with asyncio.timeout(timeout):
                outcome = await answered
        except TimeoutError:
            raise AgentTimeout(-32603, f"no answer to {method} within {timeout:g} s") from None
        finally:
            self._waiting.pop(id_, None)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def start_call(
        self, method: str, params: Payload, on_done: Callable[[Outcome], None]
    ) -> jsonrpc.Id:
        """Send a request; ``on_done`` is called in line order, never before this returns."""
        self._last_id += 1
        id_ = self._last_id
        if self.alive:
            self._waiting[id_] = on_done
            self._send(jsonrpc.request(id_, method, params))
        else:
            gone = AgentGone(f"{self.command.title} is not running")
            asyncio.get_running_loop().call_soon(on_done, gone)
        return id_

    def notify(self, method: str, params: Payload) -> None:
        """Send a notification; nothing happens when the agent has ended."""
        self._send(jsonrpc.notification(method, params))

    def respond(self, id_: jsonrpc.Id, result: Payload) -> None:
        """Answer one of the agent's requests."""
        self._send(jsonrpc.result(id_, result))

    def fail(self, id_: jsonrpc.Id, error: BridgeError) -> None:
        """Answer one of the agent's requests with an error."""
        self._send(jsonrpc.error(id_, error))

    def _send(self, line: bytes) -> None:
        if not self.alive:
            logger.debug("%s has ended; not sent: %.200r", self.command.name, line)
            return
        # Payloads forwarded as they came may be indented; between tokens any white space does.
        self._child.write(line.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")

    # Listening.

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if rb"\ud" in line or rb"\uD" in line:  # perhaps half a pair, which others choke on
            line = jsonrpc.mend_surrogates(line)
        try:
            message = jsonrpc.parse_lenient(line)
        except (ParseError, InvalidRequest) as error:
            self._take_noise(line, error)
            return
        try:
            self._deliver(message)
        except Exception:
            logger.exception("a message of %s could not be handled", self.command.name)

    def _take_noise(self, line: bytes, error: BridgeError) -> None:
        self.noise += 1
        logger.debug("%s: noise on stdout (%s): %.200r", self.command.name, error, line)
        if self._starting:
            self._child.tail.append(shown(line))
        id_ = error.data.get("id")
        if id_ is not None:
            self.fail(id_, error)

    def _deliver(self, message: jsonrpc.Message) -> None:
        if isinstance(message, jsonrpc.Request):
            self._on_request(message)
        elif isinstance(message, jsonrpc.Notification):
            self._on_notification(message)
        else:
            self._settle(message)

    def _settle(self, response: jsonrpc.Response) -> None:
        on_done = None if response.id is None else self._waiting.pop(response.id, None)
        if on_done is None:
            logger.debug("%s answers nothing we asked: %r", self.command.name, response.id)
        elif response.result is not None:
            on_done(response.result)
        else:
            on_done(_agent_error(response.error or msgspec.Raw(b"null")))

    def _ended(self, code: int | None) -> None:
        gone = AgentGone(f"{self.command.title} {_ended_how(code)}")
        waiting, self._waiting = self._waiting, {}
        for on_done in waiting.values():
            self._guarded(on_done, gone)
        if not self._starting:
            self._guarded(self._on_exit, code, "\n".join(self._child.tail))

    def _guarded(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception:
            logger.exception("the end of %s could not be handled", self.command.name)

    # Starting.

    async def _spawn(self) -> None:
        argv = self.command.argv
        program = shutil.which(argv[0], path=self.command.env.get("PATH"))
        if program is None:
            raise AgentStartError(f"{argv[0]} is not installed, or not on PATH")
        try:
            argv = self.command.sandbox.wrapped((program, *argv[1:]))
            await self._child.spawn(argv, self.command.env, self.command.cwd)
        except OSError as error:
            where = program if self.command.cwd.is_dir() else self.command.cwd
            raise AgentStartError(
                f"{self.command.title} cannot be started: {where}: {error.strerror}"
            ) from None

    def _count_skipped(self, size: int) -> None:
        self.noise += size
        logger.warning(
            "%s sent a line longer than %d MiB; skipped", self.command.name, LINE_LIMIT >> 20
        )

    def _hello(self) -> Payload:
        return {
            "protocolVersion": ACP_VERSION,
            "clientCapabilities": CLIENT_CAPABILITIES,
            "clientInfo": self._client_info,
        }

    def _checked(self, answer: msgspec.Raw) -> Payload:
        result = jsonrpc.payload(answer)
        version = result.get("protocolVersion")
        if version != ACP_VERSION:
            raise AgentError(-32603, f"it speaks ACP version {version}, we speak {ACP_VERSION}")
        return result

    def _why_not_started(self, error: Exception) -> str:
        tail = " / ".join(list(self._child.tail)[-TAIL_SHOWN:])
        said = f"; it said: {tail}" if tail else ""
        command = shlex.join(self.command.argv)
        how = _ended_how(self._child.code) if isinstance(error, AgentGone) else str(error)
        return (
            f"{self.command.title} does not start: it {how.removeprefix('it ')}{said}; "
            f"try it by hand: cd {shlex.quote(str(self.command.cwd))} && {command}"
        )


def _client_info() -> Payload:
    version = importlib.metadata.version("chimera-bridge")
    return {"name": "chimera-bridge", "title": "Chimera Bridge", "version": version}


def _ended_how(code: int | None) -> str:
    if code is None:
        return "ended"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"ended with exit code {code}"


def _agent_error(raw: msgspec.Raw) -> AgentError:
    try:
        shown = jsonrpc.payload(raw)
    except BridgeError:
        return AgentError(-32603, f"an error that is no object: {bytes(raw)[:200]!r}")
    code = shown.get("code")
    return AgentError(
        code if isinstance(code, int) else -32603, str(shown.get("message", "")), shown.get("data")
    )
