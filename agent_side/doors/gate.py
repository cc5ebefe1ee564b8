"""Who may call the HTTP door: by token, and never a web page of another origin."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class HttpPlace:
    """Where the HTTP door listens, and what it wants to be shown."""

    host: str = "127.0.0.1"
    port: int = 5173
    token: str = field(default="", repr=False)
    ide_schema: bool = True

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def url(self) -> str:
        """Its address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


class Gate:
    """The tokens of one door: the owner's, and one per session that opens nothing else."""

    def __init__(self, place: HttpPlace) -> None:
        """Begin with the owner's token alone, where there is one."""
        self._place = place
        self._of_session: dict[str, str] = {}

    def issue(self, session_id: str) -> str:
        """Give a session a fresh token; an earlier one opens nothing from now on."""
        token = self._of_session[session_id] = secrets.token_urlsafe(32)
        return token

    def forget(self, session_id: str) -> None:
        """Take a session's token no more."""
        self._of_session.pop(session_id, None)

    def is_owner(self, authorization: str) -> bool:
        """Whether the owner calls; everybody on this machine where no token was set."""
        return not self._place.token or _shows(authorization, self._place.token)

    def may_enter(self, authorization: str, session_id: str) -> bool:
        """Whether somebody may work in a session."""
        own = self._of_session.get(session_id)
        return self.is_owner(authorization) or (own is not None and _shows(authorization, own))

    def is_ours(self, host: str, origin: str | None) -> bool:
        """Whether a request was meant for this door, and by no page of another origin.

        A name that a page rebinds to this machine is another host than ours.
        """
        name = urlsplit(f"//{host}").hostname or ""
        known = name in LOOPBACK_NAMES if self._place.loopback else self._is_address(name)
        return known and (origin is None or origin == f"http://{host}")

    def _is_address(self, name: str) -> bool:
        if name == self._place.host or name in LOOPBACK_NAMES:
            return True
        try:
            ipaddress.ip_address(name)  # an address cannot be rebound
        except ValueError:
            return False
        return True


def _shows(authorization: str, token: str) -> bool:
    scheme, _, shown = authorization.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.encode(), token.encode())
