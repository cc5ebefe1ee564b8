"""The command ``chimera-relay serve``: one relay process, or several with one that watches them."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bridge.command_line import (
    WRONG_USE,
    fault,
    run,
    sentence_of,
    settings_of,
    user_name,
    wrong_use,
)

if TYPE_CHECKING:
    from bridge.relay import Relay
    from bridge.server import RelayServer
    from bridge.settings import Settings


def serve(chosen: argparse.Namespace) -> int:
    """Serve until told to end; gives the exit code."""
    settings = settings_of(
        host=chosen.host,
        port=chosen.port,
        workers=chosen.workers,
        tls_cert=chosen.tls_cert,
        tls_key=chosen.tls_key,
    )
    if settings is None:
        return WRONG_USE
    if settings.workers > 1 and sys.platform == "win32":
        return wrong_use("several relay processes need Linux or macOS: start it without --workers")
    from bridge import logs
    from bridge.protocol.errors import BridgeError
    from bridge.server import PortUnavailable, listen

    logs.configure(settings.log_format, settings.log_level)
    if settings.workers > 1:
        return _supervise(settings, link=chosen.link)
    try:
        with listen(settings.host, settings.port) as listener:
            port = int(listener.getsockname()[1])
            run(_serving(settings, listener, port, link=chosen.link))
    except (BridgeError, PortUnavailable, RuntimeError) as error:
        return fault(str(error))
    except OSError as error:
        return fault(sentence_of(error))
    return 0


def _supervise(settings: Settings, *, link: bool) -> int:
    """Run several relay processes; gives the exit code."""
    from bridge.protocol.errors import BridgeError
    from bridge.running import Running
    from bridge.server import PortUnavailable
    from bridge.workers import WorkerFailed, Workers

    running = Running(settings.state_dir)
    try:
        workers = Workers(settings, settings.workers, _work)

        def started(store_url: str) -> None:
            from bridge.address import Address

            _warn_of_plain_http(settings)
            running.write(settings.reachable_at(workers.port), Address.parse(store_url).shown)
            print(f"relay listening on {settings.address(workers.port)}", flush=True)
            if link:
                asyncio.run(_print_own_link(settings, store_url, workers.port))

        try:
            workers.run(started)
        finally:
            running.clear()
    except (BridgeError, PortUnavailable, WorkerFailed) as error:
        return fault(str(error))
    except OSError as error:
        return fault(sentence_of(error))
    return 0


def _work(settings: Settings, listener: Any, parent: int, tell: Callable[[], None]) -> int:
    """Be one of several relay processes; gives the exit code."""
    from bridge.protocol.errors import BridgeError
    from bridge.server import serve as serve_relay

    try:
        run(serve_relay(settings, listener, lambda _server: tell(), parent=parent))
    except (BridgeError, RuntimeError, OSError) as error:
        return fault(str(error))
    return 0


async def _print_own_link(settings: Settings, store_url: str, port: int) -> None:
    from bridge.login import Logins
    from bridge.protocol.acp import Role
    from bridge.redis import Store

    store = Store.open(store_url)
    try:
        secret = await Logins(store).make_link(
            tenant="default", subject=user_name(), role=Role.ADMIN
        )
    finally:
        await store.aclose()
    url = settings.reachable_at(port)
    print(f"sign in within ten minutes: {sign_in_url(url, secret)}", flush=True)


async def _serving(settings: Settings, listener: Any, port: int, *, link: bool) -> None:
    from bridge.running import Running
    from bridge.server import serve as serve_relay

    running = Running(settings.state_dir)
    tasks: list[asyncio.Task[None]] = []

    def started(server: RelayServer) -> None:
        relay = server.relay
        _warn_of_plain_http(settings)
        running.write(settings.reachable_at(port), relay.store.address)
        print(f"relay listening on {settings.address(port)}", flush=True)
        if link:
            tasks.append(asyncio.create_task(_print_link(relay, settings.reachable_at(port))))

    try:
        await serve_relay(settings, listener, started)
    finally:
        running.clear()


def _warn_of_plain_http(settings: Settings) -> None:
    from bridge.settings import LOOPBACK_HOSTS

    behind_proxy = (settings.public_url or "").startswith("https://")
    if settings.scheme == "http" and settings.host not in LOOPBACK_HOSTS and not behind_proxy:
        logging.getLogger("bridge").warning(
            "listening on %s without TLS: tokens can be read on the way, and nobody can sign in "
            "from another machine; set BRIDGE_TLS_CERT and BRIDGE_TLS_KEY, or BRIDGE_PUBLIC_URL "
            "to the https address of a proxy",
            settings.host,
        )


async def _print_link(relay: Relay, url: str) -> None:
    from bridge.protocol.acp import Role

    user = user_name()
    secret = await relay.logins.make_link(tenant="default", subject=user, role=Role.ADMIN)
    print(f"sign in within ten minutes: {sign_in_url(url, secret)}", flush=True)


def sign_in_url(url: str, secret: str) -> str:
    """Give the address that signs a browser in; the secret is in the part that is never sent."""
    return f"{url}/#signin={secret}"
