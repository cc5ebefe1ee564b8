"""Real processes: a relay that tests share, one that a test may break, agents with scripts."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from fakes.agent import FakeAgent
from fakes.dashboard import FakeDashboard
from fakes.editor import FakeEditor
from fakes.site import ATTACHED, Program, Site

NUMBERS = itertools.count(1)


class Stage:
    """What a test holds: one scripted agent at a relay, and the people who come."""

    def __init__(self, site: Site, folder, script) -> None:
        self.site, self.name = site, f"agent-{next(NUMBERS)}"
        self.agent = FakeAgent(folder / self.name, **script)
        self.connector: Program | None = None
        self.stack = AsyncExitStack()

    async def connect(self, **how) -> None:
        self.connector = await self.site.connect(self.name, self.agent, **how)

    async def editor(self) -> FakeEditor:
        """Have an editor start the connector, wait until both know each other and the relay."""
        editor = await self.site.editor(self.name, self.agent)
        await self.stack.enter_async_context(editor)
        await editor.hello()
        await editor.told(ATTACHED)
        return editor

    async def enter(
        self, subject: str = "alice", *, role: str = "operator", **bridge
    ) -> FakeDashboard:
        """Have somebody come with a dashboard."""
        dashboard = await self.site.dashboard(subject, role=role)
        dashboard.bridge = bridge
        return await self.stack.enter_async_context(dashboard)

    async def opened(self, subject: str = "alice", **bridge) -> tuple[FakeDashboard, str]:
        """Have somebody come and open a session."""
        dashboard = await self.enter(subject, **bridge)
        return dashboard, await dashboard.open(self.name, self.site.work)

    async def joined(self, session: str, subject: str, **more) -> FakeDashboard:
        """Have somebody come to a session that is there."""
        dashboard = await self.enter(subject, **more)
        await dashboard.load(session)
        return dashboard


@pytest.fixture(scope="session")
async def shared_site(tmp_path_factory) -> AsyncIterator[Site]:
    async with Site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
async def own_site(tmp_path) -> AsyncIterator[Site]:
    async with Site(tmp_path / "site") as site:
        yield site


@pytest.fixture
async def stage(shared_site, tmp_path):
    """Make a stage at the shared relay: ``await stage(turns=[...])``."""
    async with staging(shared_site, tmp_path) as make:
        yield make


@pytest.fixture
async def own_stage(own_site, tmp_path):
    """Make a stage at a relay of the test's own."""
    async with staging(own_site, tmp_path) as make:
        yield make


class staging:  # noqa: N801 (a context, as contextlib's)
    """Stages are cleared when the test is over: people leave, then connectors end."""

    def __init__(self, site: Site, folder) -> None:
        self.site, self.folder, self.made = site, folder, []

    async def __aenter__(self):
        async def make(*, connect: bool = True, **script) -> Stage:
            stage = Stage(self.site, self.folder, script)
            self.made.append(stage)
            if connect:
                await stage.connect()
            return stage

        return make

    async def __aexit__(self, *_: object) -> None:
        for stage in self.made:
            await stage.stack.aclose()
            if stage.connector is not None:
                await stage.connector.end()
