"""A whole relay on a real port, in the test's own loop, and clients with tokens of its own."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from bridge.protocol.acp import Role
from bridge.relay import Relay
from bridge.server import RelayServer, listen, serve
from bridge.settings import Settings


class Served:
    """A relay that runs."""

    def __init__(
        self, server: RelayServer, settings: Settings, port: int, task: asyncio.Task[None]
    ) -> None:
        self.server = server
        self._task = task
        self.relay: Relay = server.relay
        self.settings = settings
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    async def stopped(self) -> None:
        """Wait until the relay has ended by itself."""
        await asyncio.wait({self._task})

    def token(self, role=Role.ADMIN, *, tenant="acme", subject="alice", kind="person") -> str:
        return self.relay.tokens.issue(kind, subject, tenant, role)

    def client(self, role: Role | None = Role.ADMIN, *, tenant="acme", **headers):
        """An HTTP client; with a role it shows a token."""
        if role is not None:
            headers["Authorization"] = f"Bearer {self.token(role, tenant=tenant)}"
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=10)

    async def link(self, role=Role.ADMIN, *, tenant="acme", subject="alice") -> str:
        return await self.relay.logins.make_link(tenant=tenant, subject=subject, role=role)

    @contextlib.asynccontextmanager
    async def signed_in(self, role=Role.ADMIN, *, tenant="acme"):
        """A browser's worth of a client: signed in by a link, with the page's Origin."""
        async with self.client(None, Origin=self.url) as browser:
            secret = await self.link(role, tenant=tenant)
            answer = await browser.post("/api/sign-in", json={"secret": secret})
            assert answer.status_code == 200, answer.text
            yield browser


@contextlib.asynccontextmanager
async def serving(redis_url: str | None, **settings) -> AsyncIterator[Served]:
    """Run a relay; without a Redis it starts its own in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        chosen = Settings(redis_url=redis_url, **{"state_dir": Path(folder), "port": 0, **settings})
        listener = listen(chosen.host, chosen.port)
        port = listener.getsockname()[1]
        started: asyncio.Future[RelayServer] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(chosen, listener, started.set_result))
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        try:
            yield Served(started.result(), chosen, port, task)
        finally:
            started.result().should_exit = True
            await task
