"""How people sign in: one-time links, the page's cookie, and one-use tickets for websockets.

All three are random secrets of which the store holds only the hash.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

import msgspec

from bridge import keys
from bridge.identity import Identity
from bridge.protocol.acp import Role
from bridge.protocol.errors import AuthRequired
from bridge.tokens import check_subject, check_tenant

if TYPE_CHECKING:
    from bridge.redis import Store

LINK_SECONDS = 600  # time to walk to the phone
LOGIN_SECONDS = 30 * 86_400  # since the last use
TICKET_SECONDS = 30  # between asking for it and opening the websocket
SECRET_BYTES = 32

_LINK_SPENT = (
    "this sign-in link was used already or is older than 10 minutes: "
    "print another one with chimera-relay link"
)


class Login(msgspec.Struct, frozen=True, rename="camel"):
    """A person who signed in with a browser, as the store keeps it."""

    tenant: str
    subject: str
    role: str
    device: str = ""


class _Ticket(msgspec.Struct, frozen=True, rename="camel"):
    login: Login
    token_id: str
    origin: str
    expires_at: int | None = None


_read_login = msgspec.json.Decoder(Login).decode
_read_ticket = msgspec.json.Decoder(_Ticket).decode


class Logins:
    """Makes and spends links, logins and tickets; raises StoreUnavailable when Redis is away."""

    def __init__(self, store: Store) -> None:
        """Keep them in this store."""
        self._store = store
        self._commands = store.commands

    async def make_link(self, *, tenant: str, subject: str, role: Role) -> str:
        """Give the secret of a link that signs this person in once, within ten minutes."""
        login = Login(check_tenant(tenant), check_subject(subject), str(role))
        secret = secrets.token_urlsafe(SECRET_BYTES)
        key, encoded = keys.link(_digest(secret)), msgspec.json.encode(login)
        async with self._store.operation():
            await self._commands.set(key, encoded, ex=LINK_SECONDS)
        return secret

    async def sign_in(self, link_secret: str, device: str) -> tuple[str, Identity]:
        """Spend a link: give the cookie's secret and who it signs in; raises AuthRequired."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        async with self._store.operation():
            login = await self._spend(link_secret, secret)
            if login is None:
                raise AuthRequired(_LINK_SPENT, reason="link_spent")
            login = msgspec.structs.replace(login, device=device)
            key, encoded = keys.cookie(_digest(secret)), msgspec.json.encode(login)
            await self._commands.set(key, encoded, ex=LOGIN_SECONDS)
        return secret, _identity(login, token_id_of(secret))

    async def find(self, secret: str) -> Identity | None:
        """Give who a cookie speaks for and lengthen its life; None when it is not signed in."""
        async with self._store.operation():
            stored = await self._commands.getex(keys.cookie(_digest(secret)), ex=LOGIN_SECONDS)
        return None if stored is None else _identity(_read_login(stored), token_id_of(secret))

    async def of_id(self, token_id: str) -> Identity | None:
        """Give who a login speaks for, without lengthening its life; None when it has ended."""
        digest = token_id.removeprefix("login-")
        async with self._store.operation():
            stored = await self._commands.get(keys.cookie(digest))
        return None if stored is None else _identity(_read_login(stored), token_id)

    async def end(self, secret: str) -> str:
        """Sign a cookie out; gives the token id its connections live from."""
        async with self._store.operation():
            await self._commands.delete(keys.cookie(_digest(secret)))
        return token_id_of(secret)

    async def end_by_id(self, token_id: str) -> None:
        """Sign out the login with this id; another kind of id changes nothing."""
        digest = token_id.removeprefix("login-")
        if len(digest) == len(_digest("")) and token_id != digest:
            async with self._store.operation():
                await self._commands.delete(keys.cookie(digest))

    async def make_ticket(self, identity: Identity, origin: str) -> str:
        """Give a secret that opens one websocket from this origin within 30 seconds."""
        login = Login(identity.tenant, identity.subject, str(identity.role), identity.device)
        ticket = _Ticket(login, identity.token_id, origin, identity.expires_at)
        secret = secrets.token_urlsafe(SECRET_BYTES)
        key, encoded = keys.ticket(_digest(secret)), msgspec.json.encode(ticket)
        async with self._store.operation():
            await self._commands.set(key, encoded, ex=TICKET_SECONDS)
        return secret

    async def take_ticket(self, secret: str, origin: str | None) -> Identity | None:
        """Spend a ticket; None when it is spent, old or another origin's."""
        async with self._store.operation():
            stored = await self._commands.getdel(keys.ticket(_digest(secret)))
        if stored is None:
            return None
        ticket = _read_ticket(stored)
        if ticket.origin != origin:
            return None
        return _identity(ticket.login, ticket.token_id, ticket.expires_at)

    async def _spend(self, link_secret: str, secret: str) -> Login | None:
        """Give a link's login to the first that asks, also when its reply was lost and it repeats.

        GETDEL would answer such a repeat with nothing, and the person would stay outside.
        """
        link, mine = keys.link(_digest(link_secret)), _digest(secret).encode()
        stored = await self._commands.get(link)
        if stored is None:
            return None
        taken = keys.link(_digest(f"taken {link_secret}"))
        taker = await self._commands.set(taken, mine, ex=LINK_SECONDS, nx=True, get=True)
        if taker not in (None, mine):
            return None
        await self._commands.delete(link)
        return _read_login(stored)


def token_id_of(secret: str) -> str:
    """Give the id of a login, by which nobody can sign in."""
    return f"login-{_digest(secret)}"


def _identity(login: Login, token_id: str, expires_at: int | None = None) -> Identity:
    return Identity(
        kind="person",
        tenant=login.tenant,
        subject=login.subject,
        role=Role.parse(login.role),
        token_id=token_id,
        device=login.device,
        door="page",
        expires_at=expires_at,
    )


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
