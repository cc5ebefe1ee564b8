"""What keeps a relay from running on this machine, one line each with the remedy."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bridge import fitness
from bridge.endpoints.page import STATIC, built_files
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store
from bridge.running import Running, running_store_url
from bridge.server import PortUnavailable, listen
from bridge.settings import Settings
from bridge.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    fine: bool
    sentence: str

    def __str__(self) -> str:
        """Write the line a person reads."""
        return f"{'ok   ' if self.fine else 'FAILS'} {self.what}: {self.sentence}"


async def examine(settings: Settings) -> list[Finding]:
    """Look at everything a relay with these settings needs."""
    return [
        Finding("settings", True, f"state in {settings.state_dir}"),
        *[await _look(what, check, settings) for what, check in _CHECKS],
    ]


async def _look(
    what: str, check: Callable[[Settings], Awaitable[str]], settings: Settings
) -> Finding:
    try:
        return Finding(what, fine=True, sentence=await check(settings))
    except (StoreUnavailable, PortUnavailable, OSError) as error:
        return Finding(what, fine=False, sentence=str(error))


async def _keys(settings: Settings) -> str:
    folder = settings.keys_folder
    keys = Tokens(folder).public_keys()
    for path in folder.glob("*.pem"):
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise PermissionError(f"others can read {path}: run chmod 600 {path}")
    return f"{len(keys)} in {folder}"


async def _store(settings: Settings) -> str:
    if settings.redis_url is None and Running(settings.state_dir).read() is None:
        from bridge.embedded import EmbeddedValkey

        embedded = EmbeddedValkey(settings.store_folder)
        url = embedded.start()
        try:
            return await _check(url, settings)
        finally:
            embedded.stop()
    return await _check(running_store_url(settings), settings)


async def _check(url: str, settings: Settings) -> str:
    store = Store.open(url, settings.redis_wait_replicas, settings.redis_wait_ms)
    try:
        await store.check()
        return f"{store.address} answers and takes writes: {await fitness.describe(store)}"
    finally:
        await store.aclose()


async def _port(settings: Settings) -> str:
    try:
        listen(settings.host, settings.port).close()
    except PortUnavailable:
        note = Running(settings.state_dir).read()
        if note is None:
            raise
        return f"the relay of this state folder runs at {note.url} (process {note.pid})"
    return f"{settings.port} is free on {settings.host}"


async def _page(_settings: Settings) -> str:
    if "index.html" not in built_files(STATIC):
        raise FileNotFoundError("not built: run ./dev setup in a checkout, or install the wheel")
    return "built"


_CHECKS = (("keys", _keys), ("store", _store), ("port", _port), ("page", _page))
