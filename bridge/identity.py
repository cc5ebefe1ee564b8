"""Who a connection speaks for: from a token, a one-use ticket or the page's cookie."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import unquote_plus

from starlette.requests import HTTPConnection

from bridge.protocol.acp import Role
from bridge.protocol.entry import Origin
from bridge.protocol.errors import AuthRequired, InvalidRequest, NotAllowed, TokenInvalid

if TYPE_CHECKING:
    from bridge.changes import Change
    from bridge.relay import Relay

Kind: TypeAlias = Literal["person", "agent"]
SUBPROTOCOLS: dict[Kind, str] = {"person": "acp.v1", "agent": "chimera.uplink.v1"}
BEARER_SUBPROTOCOL = "bearer."
SECURE_COOKIE = "__Host-bridge"
LOOPBACK_COOKIE = "bridge_local"  # browsers take no Secure cookie over plain http
OPENING_SECONDS = 60.0  # at the most, between the check of a token and the watch over it
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_TOKEN = re.compile(r"eyJ[\w-]{5,}\.[\w-]*\.")  # how every JWT begins
_TOKEN_NAMES = frozenset({"token", "access_token", "bearer", "jwt", "auth", "authorization"})


@dataclass(frozen=True, slots=True)
class Identity:
    """A subject with its tenant and role, as authentication found it."""

    kind: Kind
    tenant: str
    subject: str
    role: Role
    token_id: str
    device: str = ""
    door: str = ""  # page, acp, rest, uplink
    expires_at: int | None = None  # Unix milliseconds
    made_at: int | None = None  # Unix milliseconds
    lasts_until: int | None = None  # so long refresh tokens give others in its place
    key: str = ""  # the thumbprint of the key that it proved to have

    @property
    def origin(self) -> Origin:
        """Who causes what this identity sends down."""
        return Origin(self.subject, self.tenant, self.device, self.door)

    def require(self, role: Role) -> None:
        """Raise NotAllowed unless the role suffices."""
        if self.role < role:
            raise NotAllowed(
                f"not allowed: this needs the role {role}, {self.subject} is {self.role} "
                f"in {self.tenant}",
                role=str(self.role),
                needed=str(role),
            )


class Identities:
    """The open connections of this process by the login or token they live from."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with none; ``clock`` gives seconds."""
        self._watchers: dict[str, list[Callable[[], None]]] = {}
        self._ended: dict[str, float] = {}  # lately, and when; the oldest first
        self._clock = clock

    def watch(self, token_id: str, on_closed: Callable[[], None]) -> Callable[[], None]:
        """Call back once when the login or token ends; the result stops watching.

        One that ended while the connection was being opened calls back in the next loop turn.
        """
        self._watchers.setdefault(token_id, []).append(on_closed)
        if token_id in self._ended:
            asyncio.get_running_loop().call_soon(self.closed, token_id)
        return partial(self._stop, token_id, on_closed)

    def closed(self, token_id: str) -> int:
        """End every connection that lives from it; gives how many there were."""
        now = self._clock()
        self._ended = {id_: at for id_, at in self._ended.items() if now - at < OPENING_SECONDS}
        self._ended[token_id] = now
        watchers = self._watchers.pop(token_id, [])
        for on_closed in watchers:
            on_closed()
        return len(watchers)

    def heed(self, change: Change) -> None:
        """End what lives from logins that ended at any process, by a sign-out or with a device."""
        for token_id in change.logins:
            self.closed(token_id)

    def _stop(self, token_id: str, on_closed: Callable[[], None]) -> None:
        watchers = self._watchers.get(token_id, [])
        if on_closed in watchers:
            watchers.remove(on_closed)
        if not watchers:
            self._watchers.pop(token_id, None)


async def identify(
    relay: Relay, connection: HTTPConnection, *, kind: Kind
) -> tuple[Identity, str | None]:
    """Find who a request speaks for and the websocket subprotocol to accept.

    Raises AuthRequired, TokenInvalid (401) or NotAllowed (403), before any 101.
    """
    refuse_token_in_url(connection)
    subprotocol = _subprotocol(connection, kind)
    token = _bearer(connection)
    if token is not None:
        return await _by_token(relay, connection, token, kind), subprotocol
    if kind == "person":
        found = await _by_ticket(relay, connection) or await _by_cookie(relay, connection)
        if found is not None:
            return found, subprotocol
    raise AuthRequired(
        "not signed in: open a sign-in link (chimera-relay link) or send a token in the "
        "Authorization header"
        if kind == "person"
        else "no token: make one with chimera-relay token --kind agent, and send it in the "
        "Authorization header"
    )


async def renewed(relay: Relay, who: Identity, token: str) -> Identity:
    """Give the identity of a fresh token for an open connection; raises TokenInvalid, NotAllowed.

    It must be of the same subject and, for an agent, of the same key.
    """
    fresh = relay.tokens.verify(token, who.kind, door=who.door)
    await relay.token_register.check(fresh)
    if (fresh.tenant, fresh.subject) != (who.tenant, who.subject):
        raise NotAllowed("the new token is of another subject")
    if who.kind == "agent":
        await relay.proofs.join(fresh, who.key)
        fresh = replace(fresh, key=who.key)
    relay.token_register.note(fresh)
    return fresh


def refuse_token_in_url(connection: HTTPConnection) -> None:
    """Raise InvalidRequest when the query string carries a token: URLs end up in logs."""
    query = connection.scope.get("query_string", b"").decode("latin-1")
    if not query:
        return
    names = {unquote_plus(part.partition("=")[0]).lower() for part in query.split("&")}
    if names & _TOKEN_NAMES or _TOKEN.search(unquote_plus(query)):
        raise InvalidRequest(
            "a token must not be in the address: send it in the Authorization header, or as "
            "the websocket subprotocol bearer.<token>"
        )


def address_of(connection: HTTPConnection) -> str:
    """Give the address a request came from; a trusted proxy's word counts."""
    return connection.client.host if connection.client else ""


def proof_of(connection: HTTPConnection) -> str | None:
    """Give the DPoP proof that came with a request; raises InvalidRequest when there are more."""
    proofs = connection.headers.getlist("dpop")
    if len(proofs) > 1:
        raise InvalidRequest("more than one DPoP proof was sent: send one")
    return proofs[0] if proofs else None


def cookie_of(connection: HTTPConnection) -> str | None:
    """Give the sign-in cookie that counts for this connection."""
    from bridge.origins import loopback_origin

    secure = connection.cookies.get(SECURE_COOKIE)
    if secure is not None:
        return secure
    return connection.cookies.get(LOOPBACK_COOKIE) if loopback_origin(connection) else None


def require_own_origin(relay: Relay, connection: HTTPConnection) -> None:
    """Raise NotAllowed when a foreign page may have caused a request that carries a cookie."""
    asks_only = connection.scope["type"] == "http" and connection.scope["method"] in SAFE_METHODS
    if asks_only and "origin" not in connection.headers:
        if connection.headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
            return
    elif relay.origins.accepts(connection):
        return
    raise NotAllowed(
        "this page may not use the sign-in: its origin is not the relay's own; set "
        "BRIDGE_PUBLIC_URL to the address people open, or add it to BRIDGE_ALLOWED_ORIGINS",
        reason="origin_not_allowed",
    )


def _subprotocol(connection: HTTPConnection, kind: Kind) -> str | None:
    wanted = SUBPROTOCOLS[kind]
    return wanted if wanted in connection.scope.get("subprotocols", ()) else None


def _bearer(connection: HTTPConnection) -> str | None:
    headers = connection.headers.getlist("authorization")
    offered = [
        one.removeprefix(BEARER_SUBPROTOCOL)
        for one in connection.scope.get("subprotocols", ())
        if one.startswith(BEARER_SUBPROTOCOL)
    ]
    if len(headers) + len(offered) > 1:
        raise InvalidRequest("more than one token was sent: send one")
    if offered:
        return str(offered[0])
    if not headers:
        return None
    scheme, _, token = headers[0].partition(" ")
    if scheme.lower() != "bearer":
        raise TokenInvalid("invalid token: write the header as Authorization: Bearer <token>")
    return token.strip()


def _door(connection: HTTPConnection, kind: Kind) -> str:
    if kind == "agent":
        return "uplink"
    return "acp" if connection.scope["type"] == "websocket" else "rest"


async def _by_token(relay: Relay, connection: HTTPConnection, token: str, kind: Kind) -> Identity:
    found = relay.tokens.verify(token, kind, door=_door(connection, kind))
    await relay.token_register.check(found)
    if kind == "agent":
        urls = relay.origins.addresses_of(connection)
        key = await relay.proofs.check(found, token, proof_of(connection), urls)
        found = replace(found, key=key)
    relay.token_register.note(found)
    return found


async def _by_ticket(relay: Relay, connection: HTTPConnection) -> Identity | None:
    ticket = connection.query_params.get("ticket")
    if ticket is None:
        return None
    found = await relay.logins.take_ticket(ticket, connection.headers.get("origin"))
    if found is None:
        raise NotAllowed(
            "this ticket was used already, is older than 30 seconds or belongs to another "
            "page: ask for a new one",
            reason="ticket_invalid",
        )
    return found


async def _by_cookie(relay: Relay, connection: HTTPConnection) -> Identity | None:
    secret = cookie_of(connection)
    if secret is None:
        return None
    require_own_origin(relay, connection)
    return await relay.logins.find(secret)
