"""The agent this connector runs: started when needed, started again after it died."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from agent_side.agents.process import (
    AgentCommand,
    AgentError,
    AgentGone,
    AgentProcess,
    AgentStartError,
    Outcome,
)
from bridge.protocol import acp, jsonrpc
from bridge.protocol.errors import AuthRequired, BridgeError
from bridge.protocol.jsonrpc import Payload

AUTH_REQUIRED = AuthRequired.code

Answered = TypeVar("Answered", bound=Outcome)

logger = logging.getLogger(__name__)


class Agent:
    """One agent over the lives of its processes; callbacks come in the order of its lines."""

    def __init__(
        self,
        command: AgentCommand,
        *,
        on_request: Callable[[jsonrpc.Request], None],
        on_notification: Callable[[jsonrpc.Notification], None],
        on_exit: Callable[[str], None],
        on_changed: Callable[[], None],
    ) -> None:
        """Keep the command; ``on_exit`` hears why, ``on_changed`` that its card is another."""
        self.command = command
        self.run = 0  # counts its processes
        self.login = ""  # the line to run while it is not logged in
        self.initialized: Payload = {}  # its answer to initialize
        self._process: AgentProcess | None = None
        self._on_request = on_request
        self._on_notification = on_notification
        self._on_exit = on_exit
        self._on_changed = on_changed
        self._starter: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def alive(self) -> bool:
        """Whether its process runs and has answered initialize."""
        return self._process is not None and self._process.alive

    def knows(self, run: int) -> bool:
        """Whether the process that runs is the one of that number."""
        return self.alive and self.run == run

    @property
    def title(self) -> str:
        """What people call it."""
        info = self.initialized.get("agentInfo")
        named = info.get("title") or info.get("name") if isinstance(info, dict) else None
        return str(named or self.command.title)

    @property
    def version(self) -> str:
        """Its version, empty when it does not say."""
        info = self.initialized.get("agentInfo")
        return str(info.get("version", "")) if isinstance(info, dict) else ""

    @property
    def capabilities(self) -> Payload:
        """What it can do, as it said itself."""
        found = self.initialized.get("agentCapabilities")
        return found if isinstance(found, dict) else {}

    @property
    def load_method(self) -> str | None:
        """The method by which it takes up an older session; None when it cannot."""
        if self.capabilities.get("loadSession") is True:
            return acp.LOAD
        further = self.capabilities.get("sessionCapabilities")
        if isinstance(further, dict) and further.get("resume") is not None:
            return acp.RESUME
        return None

    # Life.

    async def ensure(self) -> None:
        """Have it running; raises AgentStartError."""
        if self._stopped:
            raise AgentStartError(f"{self.title} has been stopped")
        if self.alive:
            return
        if self._starter is None or self._starter.done():
            self._starter = asyncio.ensure_future(self._start())
        try:
            await asyncio.shield(self._starter)
        except asyncio.CancelledError:
            if self._stopped:
                raise AgentStartError(f"{self.title} has been stopped") from None
            raise

    async def stop(self) -> None:
        """End it for good, also while it starts."""
        self._stopped = True
        if self._starter is not None and not self._starter.done():
            self._starter.cancel()
            await asyncio.wait([self._starter])
        await self.end()

    async def end(self) -> None:
        """End the process that runs now; it is started again when it is needed."""
        if self._process is not None:
            await self._process.stop()

    async def _start(self) -> None:
        process = AgentProcess(
            self.command,
            on_request=self._on_request,
            on_notification=self._on_notification,
            on_exit=self._exited,
        )
        self.initialized = await process.start()
        self._process = process
        self.run += 1
        self._on_changed()

    def _exited(self, code: int | None, tail: str) -> None:
        how = "ended" if code is None else f"ended with code {code}"
        last = tail.strip().splitlines()[-1:]
        why = f"{self.title} {how}" + (f": {last[0]}" if last else "")
        if not self._stopped:
            logger.warning("%s; it is started again when it is needed", why)
        self._on_exit(why)
        self._on_changed()

    # Speaking.

    def start_call(self, method: str, params: Payload, on_done: Callable[[Outcome], None]) -> None:
        """Send a request; ``on_done`` is called in line order."""
        if self._process is None:
            gone = AgentGone(f"{self.title} is not running")
            asyncio.get_running_loop().call_soon(on_done, gone)
            return
        self._process.start_call(method, params, on_done)

    def begin(self, method: str, params: Payload) -> asyncio.Future[msgspec.Raw]:
        """Send a request now; the future gives its result or raises BridgeError or AgentError."""
        answered: asyncio.Future[msgspec.Raw] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if answered.done():
                return
            if isinstance(outcome, Exception):
                answered.set_exception(self.explained(outcome))
            else:
                answered.set_result(outcome)

        self.start_call(method, params, done)
        return answered

    def notify(self, method: str, params: Payload) -> None:
        """Send a notification; nothing happens when it is not running."""
        if self._process is not None:
            self._process.notify(method, params)

    def respond(self, id_: jsonrpc.Id, result: Payload) -> None:
        """Answer one of its requests."""
        if self._process is not None:
            self._process.respond(id_, result)

    def fail(self, id_: jsonrpc.Id, error: BridgeError) -> None:
        """Answer one of its requests with an error."""
        if self._process is not None:
            self._process.fail(id_, error)

    # Being logged in.

    def explained(self, error: Answered) -> Answered | AuthRequired:
        """Give an error that says how to log in when that is what is missing."""
        if not isinstance(error, AgentError) or error.code != AUTH_REQUIRED:
            return error
        self.needs_login(self.command.login_hint or self._offered_login())
        return AuthRequired(
            f"{self.title} is not logged in: run `{self.login}` on its machine", login=self.login
        )

    def needs_login(self, line: str) -> None:
        """Note the line to run, or that it is logged in (empty)."""
        if line != self.login:
            self.login = line
            self._on_changed()

    def _offered_login(self) -> str:
        methods: Any = self.initialized.get("authMethods")
        for method in methods if isinstance(methods, list) else []:
            if isinstance(method, dict) and (method.get("description") or method.get("name")):
                return str(method.get("description") or method.get("name"))
        return " ".join(self.command.argv)
