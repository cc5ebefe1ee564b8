"""The commands of who runs a relay: tokens, links, keys, the audit, and what works."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING

from bridge.command_line import (
    FAULT,
    WRONG_USE,
    fault,
    sentence_of,
    settings_of,
    user_name,
    wrong_use,
)

if TYPE_CHECKING:
    from bridge.protocol.acp import Role
    from bridge.settings import Settings
    from bridge.tokens import Tokens


def token(chosen: argparse.Namespace) -> int:
    """Print a token."""
    if (why := _misuse(chosen)) is not None:
        return wrong_use(why)
    settings = settings_of()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.acp import Role
    from bridge.protocol.errors import BridgeError, StoreUnavailable
    from bridge.tokens import Tokens

    try:
        tokens = Tokens(settings.keys_folder)
        role = Role.parse(chosen.role or "viewer")
        print(
            asyncio.run(_with_refresh(settings, tokens, chosen, role))
            if chosen.refresh
            else tokens.issue(chosen.kind, chosen.subject, chosen.tenant, role, chosen.ttl)
        )
    except StoreUnavailable as error:
        return fault(str(error))
    except BridgeError as error:
        return wrong_use(str(error))
    except OSError as error:
        return fault(sentence_of(error))
    return 0


def _misuse(chosen: argparse.Namespace) -> str | None:
    if chosen.kind == "agent" and chosen.role is not None:
        return "--role is a person's: an agent has none"
    if chosen.refresh and chosen.ttl is not None:
        return "--ttl is for a token without --refresh: those live for minutes"
    return None


async def _with_refresh(
    settings: Settings, tokens: Tokens, chosen: argparse.Namespace, role: Role
) -> str:
    from bridge.audit import Audit
    from bridge.families import Families
    from bridge.redis import Store
    from bridge.running import running_store_url
    from bridge.token_register import TokenRegister

    store = Store.open(running_store_url(settings))
    try:
        audit, register = Audit(store, tokens), TokenRegister(store, lambda _: None)
        families = Families(store, tokens, register, audit)
        grant = await families.make(chosen.kind, chosen.subject, chosen.tenant, role)
        await audit.seal_all()
    finally:
        await store.aclose()
    return json.dumps(
        {
            "token": grant.token,
            "refreshToken": grant.refresh_token,
            "expiresIn": grant.expires_in,
        }
    )


def link(chosen: argparse.Namespace) -> int:
    """Print a sign-in link."""
    settings = settings_of()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.errors import BridgeError, InvalidParams
    from bridge.running import Running

    note = Running(settings.state_dir).read()
    url = settings.public_url or (note.url if note else settings.reachable_at(settings.port))
    try:
        secret = asyncio.run(_make_link(settings, chosen))
    except InvalidParams as error:
        return wrong_use(str(error))
    except BridgeError as error:
        return fault(str(error))
    from bridge.serving import sign_in_url

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
            tenant=chosen.tenant,
            subject=chosen.subject or user_name(),
            role=Role.parse(chosen.role),
        )
    finally:
        await store.aclose()


def keys(chosen: argparse.Namespace) -> int:
    """List, rotate or retire the signing keys."""
    if (chosen.action == "retire") != (chosen.key is not None):
        return wrong_use("name a key to retire, and only then: chimera-relay keys retire 1")
    settings = settings_of()
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
        return wrong_use(str(error))
    except OSError as error:
        return fault(sentence_of(error))
    return 0


def audit(chosen: argparse.Namespace) -> int:
    """Check or print the audit."""
    settings = settings_of()
    if settings is None:
        return WRONG_USE
    from bridge.audit_report import export, verify
    from bridge.protocol.errors import BridgeError, InvalidParams

    try:
        fine = asyncio.run(
            (verify if chosen.action == "verify" else export)(settings, chosen.tenant, sys.stdout)
        )
    except InvalidParams as error:
        return wrong_use(str(error))
    except BridgeError as error:
        return fault(str(error))
    except OSError as error:
        return fault(sentence_of(error))
    return 0 if fine else FAULT


def doctor(_chosen: argparse.Namespace) -> int:
    """Say what works."""
    settings = settings_of()
    if settings is None:
        return FAULT
    from bridge.doctor import examine

    findings = asyncio.run(examine(settings))
    for finding in findings:
        print(finding)
    return FAULT if any(not finding.fine for finding in findings) else 0


def tokens(chosen: argparse.Namespace) -> int:
    """List the tokens in use, or revoke one."""
    if (chosen.action == "revoke") != (chosen.token is not None):
        return wrong_use("name a token to revoke, and only then: chimera-relay tokens revoke ID")
    settings = settings_of()
    if settings is None:
        return WRONG_USE
    from bridge.protocol.errors import BridgeError
    from bridge.redis import Store
    from bridge.running import running_store_url
    from bridge.token_register import TokenRegister, id_of

    async def work() -> None:
        store = Store.open(running_store_url(settings))
        try:
            register = TokenRegister(store, lambda _: None)
            if chosen.action == "revoke":
                id_ = id_of(chosen.token)
                await register.revoke_by_id(id_)
                print(f"{id_} is taken no more; what lives from it ends within a second")
                return
            for one in await register.of_tenant(chosen.tenant):
                state = "revoked" if "revokedAt" in one else f"until {one['expiresAt']}"
                last = f"last used {one['lastUsed']}"
                print(f"{one['id']}  {one['kind']}  {one['subject']}  {state}  {last}")
        finally:
            await store.aclose()

    try:
        asyncio.run(work())
    except BridgeError as error:
        return fault(str(error))
    return 0
