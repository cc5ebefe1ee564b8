"""The store on a real, empty Redis, and a node's inbox running on it."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest

from bridge.inbox import Inbox
from bridge.redis import Store


@pytest.fixture
async def store(redis_url: str) -> AsyncIterator[Store]:
    """A store on an empty Redis."""
    async with opened(redis_url) as fresh:
        yield fresh


@pytest.fixture
async def inbox(store: Store) -> AsyncIterator[Inbox]:
    """A node's inbox, running."""
    async with running(Inbox(store, f"node-{secrets.token_hex(4)}")) as started:
        yield started


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Store]:
    fresh = Store.open(url)
    try:
        yield fresh
    finally:
        await fresh.aclose()


@contextlib.asynccontextmanager
async def running(subject):
    """Run an Inbox or a Log beside the test; its failure is the test's."""
    task = asyncio.create_task(subject.run())
    try:
        yield subject
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
