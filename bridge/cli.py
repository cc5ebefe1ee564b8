"""The command ``chimera-relay``: serve, token, link, keys, audit, doctor."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import logging
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from bridge.relay import Relay
    from bridge.server import RelayServer
    from bridge.settings import Settings

ROLES = ("viewer", "approver", "operator", "admin")
FAULT = 1
WRONG_USE = 2  # as argparse has it
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TTL = re.compile(r"(\d{1,9})([smhd])")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; gives the process's exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # whoever read our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAULT


def seconds(text: str) -> int:
    """Read a lifetime such as 90s, 15m, 8h or 30d."""
    match = _TTL.fullmatch(text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no lifetime: write 90s, 15m, 8h or 30d")
    return int(match[1]) * _UNITS[match[2]]


def _parser() -> argparse.ArgumentParser:
    parser = _Command(
        prog="chimera-relay",
        description="The relay between coding agents and the people who answer them. "
        "Settings are environment variables named BRIDGE_*; see docs/settings.md.",
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_serve(commands)
    _add_token(commands)
    _add_link(commands)
    _add_keys(commands)
    _add_audit(commands)
    doctor = commands.add_parser("doctor", help="check settings, keys, store, port and page")
    doctor.set_defaults(run=_doctor)
    return parser


class _Command(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib import metadata

        print(f"chimera-relay {metadata.version('chimera-bridge')}")
        parser.exit()


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser("serve", help="run the relay")
    serve.set_defaults(run=_serve)
    serve.add_argument("--host", help="the address to listen on (BRIDGE_HOST, else 127.0.0.1)")
    serve.add_argument("--port", help="the port, 0 for a free one (BRIDGE_PORT, else 8787)")
    serve.add_argument("--workers", metavar="N", help="relay processes (BRIDGE_WORKERS, else 1)")
    serve.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM")
    serve.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    serve.add_argument("--link", action="store_true", help="print a sign-in link at start")


def _add_token(commands: Any) -> None:
    token = commands.add_parser("token", help="print a token for a person or an agent")
    token.set_defaults(run=_token)
    token.add_argument("--kind", required=True, choices=("person", "agent"))
    token.add_argument("--subject", required=True, help="who it speaks for: alice, build-03")
    _add_whose(token, role_for="a person's role (default: viewer)", role=None)
    token.add_argument(
        "--ttl",
        type=seconds,
        metavar="TIME",
        help="its life: 90s, 15m, 8h, 30d (default: 15m for a person, 30d for an agent)",
    )


def _add_link(commands: Any) -> None:
    link = commands.add_parser(
        "link", help="print a link that signs a browser in once, within ten minutes"
    )
    link.set_defaults(run=_link)
    link.add_argument("--subject", default=None, help="who signs in (default: this user)")
    _add_whose(link, role_for="their role (default: admin)", role="admin")


def _add_keys(commands: Any) -> None:
    keys = commands.add_parser("keys", help="list, rotate or retire the signing keys")
    keys.set_defaults(run=_keys)
    keys.add_argument(
        "action",
        choices=("list", "rotate", "retire"),
        help="rotate: a new key signs from now on; retire: what an older key signed ends",
    )
    keys.add_argument("key", nargs="?", help="the number of the key to retire")


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser("audit", help="check or print the record of who did what")
    audit.set_defaults(run=_audit)
    audit.add_argument(
        "action",
        choices=("verify", "export"),
        help="verify: is any record changed, removed or added; export: print all as JSON lines",
    )
    audit.add_argument("--tenant", default="default", help="whose (default: default)")


def _add_whose(parser: argparse.ArgumentParser, *, role_for: str, role: str | None) -> None:
    parser.add_argument("--tenant", default="default", help="whose data (default: default)")
    parser.add_argument("--role", choices=ROLES, default=role, help=role_for)


# The commands; each gives its exit code.


def _serve(chosen: argparse.Namespace) -> int:
    settings = _settings(
        host=chosen.host,
        port=chosen.port,
        workers=chosen.workers,
        tls_cert=chosen.tls_cert,
        tls_key=chosen.tls_key,
    )
    if settings is None:
        return WRONG_USE
    if settings.workers > 1 and sys.platform == "win32":
        return _wrong_use("several relay processes need Linux or macOS: start it without --workers")
    from bridge import logs
    from bridge.protocol.errors import BridgeError
    from bridge.server import PortUnavailable, listen

    logs.configure(settings.log_format, settings.log_level)
    if settings.workers > 1:
        return _supervise(settings, link=chosen.link)
    try:
        with listen(settings.host, settings.port) as listener:
            port = int(listener.getsockname()[1])
            _run(_serving(settings, listener, port, link=chosen.link))
    except (BridgeError, PortUnavailable, RuntimeError) as error:
        return _fault(str(error))
    except OSError as error:
        return _fault(_sentence(error))
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
        return _fault(str(error))
    except OSError as error:
        return _fault(_sentence(error))
    return 0


def _work(settings: Settings, listener: Any, parent: int, tell: Callable[[], None]) -> int:
    """Be one of several relay processes; gives the exit code."""
    from bridge.protocol.errors import BridgeError
    from bridge.server import serve

    try:
        _run(serve(settings, listener, lambda _server: tell(), parent=parent))
    except (BridgeError, RuntimeError, OSError) as error:
        return _fault(str(error))
    return 0


async def _print_own_link(settings: Settings, store_url: str, port: int) -> None:
    from bridge.login import Logins
    from bridge.protocol.acp import Role
    from bridge.redis import Store

    store = Store.open(store_url)
    try:
        secret = await Logins(store).make_link(tenant="default", subject=_user(), role=Role.ADMIN)
    finally:
        await store.aclose()
    url = settings.reachable_at(port)
    print(f"sign in within ten minutes: {sign_in_url(url, secret)}", flush=True)


async def _serving(settings: Settings, listener: Any, port: int, *, link: bool) -> None:
    from bridge.running import Running
    from bridge.server import serve

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
        await serve(settings, listener, started)
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

    secret = await relay.logins.make_link(tenant="default", subject=_user(), role=Role.ADMIN)
    print(f"sign in within ten minutes: {sign_in_url(url, secret)}", flush=True)


def sign_in_url(url: str, secret: str) -> str:
    """Give the address that signs a browser in; the secret is in the part that is never sent."""
    return f"{url}/#signin={secret}"


def _token(chosen: argparse.Namespace) -> int:
    if chosen.kind == "agent" and chosen.role is not None:
        return _wrong_use("--role is a person's: an agent has none")
    settings = _settings()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.acp import Role
    from bridge.protocol.errors import BridgeError
    from bridge.tokens import Tokens

    try:
        tokens = Tokens(settings.keys_folder)
        role = Role.parse(chosen.role or "viewer")
        print(tokens.issue(chosen.kind, chosen.subject, chosen.tenant, role, chosen.ttl))
    except BridgeError as error:
        return _wrong_use(str(error))
    except OSError as error:
        return _fault(_sentence(error))
    return 0


def _link(chosen: argparse.Namespace) -> int:
    settings = _settings()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.errors import BridgeError, InvalidParams
    from bridge.running import Running

    note = Running(settings.state_dir).read()
    url = settings.public_url or (note.url if note else settings.reachable_at(settings.port))
    try:
        secret = asyncio.run(_make_link(settings, chosen))
    except InvalidParams as error:
        return _wrong_use(str(error))
    except BridgeError as error:
        return _fault(str(error))
    print(sign_in_url(url, secret))
    return 0


async def _make_link(settings: Settings, chosen: argparse.Namespace) -> str:
    from bridge.login import Logins
    from bridge.protocol.acp import Role
    from bridge.redis import Store
    from bridge.running import running_store_url

    store = Store.open(running_store_url(settings))
    try:
        return await Logins(store).make_link(
            tenant=chosen.tenant, subject=chosen.subject or _user(), role=Role.parse(chosen.role)
        )
    finally:
        await store.aclose()


def _keys(chosen: argparse.Namespace) -> int:
    if (chosen.action == "retire") != (chosen.key is not None):
        return _wrong_use("name a key to retire, and only then: chimera-relay keys retire 1")
    settings = _settings()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.errors import InvalidParams
    from bridge.signing_keys import SigningKeys

    try:
        keys = SigningKeys(settings.keys_folder)
        if chosen.action == "rotate":
            print(f"key {keys.rotate()} signs from now on; older tokens are still taken")
        elif chosen.action == "retire":
            keys.retire(chosen.key)
            print(f"key {chosen.key} is deleted; what it signed is no longer taken")
        else:
            newest, _ = keys.newest
            for kid in sorted(keys.publics(), key=int):
                print(f"{kid}{' (signs)' if kid == newest else ''}")
    except InvalidParams as error:
        return _wrong_use(str(error))
    except OSError as error:
        return _fault(_sentence(error))
    return 0


def _audit(chosen: argparse.Namespace) -> int:
    settings = _settings()
    if settings is None:
        return WRONG_USE
    from bridge.audit_report import export, verify
    from bridge.protocol.errors import BridgeError, InvalidParams

    try:
        fine = asyncio.run(
            (verify if chosen.action == "verify" else export)(settings, chosen.tenant, sys.stdout)
        )
    except InvalidParams as error:
        return _wrong_use(str(error))
    except BridgeError as error:
        return _fault(str(error))
    except OSError as error:
        return _fault(_sentence(error))
    return 0 if fine else FAULT


def _doctor(_chosen: argparse.Namespace) -> int:
    settings = _settings()
    if settings is None:
        return FAULT
    from bridge.doctor import examine

    findings = asyncio.run(examine(settings))
    for finding in findings:
        print(finding)
    return FAULT if any(not finding.fine for finding in findings) else 0


def _settings(**given: Any) -> Settings | None:
    from bridge.settings import SettingsInvalid, load

    try:
        return load(os.environ, **given)
    except SettingsInvalid as error:
        print(f"chimera-relay: {error}", file=sys.stderr)
        return None


def _run(work: Any) -> None:
    if sys.platform == "win32":
        asyncio.run(work)
        return
    import uvloop

    uvloop.run(work)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "admin"


def _sentence(error: OSError) -> str:
    if error.filename is None:
        return str(error)
    return f"cannot use {error.filename}: {error.strerror}; BRIDGE_STATE_DIR names another folder"


def _wrong_use(sentence: str) -> int:
    print(f"chimera-relay: {sentence}", file=sys.stderr)
    return WRONG_USE


def _fault(sentence: str) -> int:
    print(f"chimera-relay: {sentence}", file=sys.stderr)
    return FAULT


if __name__ == "__main__":
    sys.exit(main())
