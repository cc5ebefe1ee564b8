"""Which pages may act with a cookie: an exact list of origins (RFC 6454)."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from bridge.settings import LOOPBACK_HOSTS, Settings, origin_of


class Origins:
    """The relay's own origins and those its operator added."""

    def __init__(self, settings: Settings) -> None:
        """Take the public address and the further origins of the settings."""
        public = [origin_of(settings.public_url)] if settings.public_url else []
        self._public = frozenset(public)
        self._allowed = frozenset([*public, *settings.allowed_origins])

    def accepts(self, connection: HTTPConnection) -> bool:
        """Whether the request names an origin, and it is one of ours."""
        found = connection.headers.getlist("origin")
        if len(found) != 1:
            return False
        return found[0] in self._allowed or found[0] == loopback_origin(connection)

    def addresses_of(self, connection: HTTPConnection) -> frozenset[str]:
        """Give the addresses that a request may have been meant for, without its query.

        Where the operator named no public address, the name by which we were called is believed,
        and a proxy that we know nothing of may have taken the encryption off.
        """
        own, origins = loopback_origin(connection), self._allowed
        if own is not None:
            origins |= {origin_of(own)}
        hosts = connection.headers.getlist("host")
        if not self._public and len(hosts) == 1 and host_of(f"//{hosts[0]}"):
            origins |= {origin_of(f"{scheme}://{hosts[0].lower()}") for scheme in ("http", "https")}
        return frozenset(f"{one}{connection.scope['path']}" for one in origins)


def loopback_origin(connection: HTTPConnection) -> str | None:
    """Give the request's own origin when it was made on this machine by a loopback name.

    Any other Host could be a foreign name that was pointed at us (DNS rebinding).
    """
    hosts = connection.headers.getlist("host")
    if len(hosts) != 1 or host_of(f"//{hosts[0]}") not in LOOPBACK_HOSTS:
        return None
    scheme = "https" if connection.scope["scheme"] in ("https", "wss") else "http"
    return f"{scheme}://{hosts[0].lower()}"


def host_of(url: str) -> str | None:
    """Give a URL's host, or None when it has none or is not well formed."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    plain = parts.path in ("", "/") and not parts.query and "@" not in parts.netloc
    return parts.hostname if plain else None


def is_secure(origin: str) -> bool:
    """Whether a page of this origin came over https."""
    return origin.startswith("https://")


def is_loopback(origin: str) -> bool:
    """Whether a page of this origin came from this machine itself."""
    return host_of(origin) in LOOPBACK_HOSTS
