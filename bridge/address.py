"""Where Redis is: the forms of its URL, and what of one may be shown.

==================================================  ==============================================
``redis://[user:password@]host[:port][/db]``        one server; ``rediss://`` over TLS
``unix://[user:password@]/path[?db=n]``             one server on this machine
``redis+cluster://[user:password@]host:port,…``     a Redis Cluster, by some of its nodes
``redis+sentinel://[user:password@]host:port,…/service[/db]``  whom these Sentinels call master
==================================================  ==============================================

``rediss+cluster://`` and ``rediss+sentinel://`` use TLS. Options follow as ``?name=value``.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from bridge.protocol.errors import StoreUnavailable

Form: TypeAlias = Literal["single", "cluster", "sentinel"]

FORMS: Final[dict[str, Form]] = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
}
PORT = 6379
SENTINEL_PORT = 26379
_LOGIN_OPTIONS = frozenset({"username", "password"})
_TLS_OPTIONS = frozenset(
    {
        "ssl_ca_certs",
        "ssl_ca_path",
        "ssl_certfile",
        "ssl_cert_reqs",
        "ssl_check_hostname",
        "ssl_keyfile",
        "ssl_keyfile_password",
    }
)
_SENTINEL_OPTIONS = frozenset({"sentinel_username", "sentinel_password"})
_NO = frozenset({"0", "f", "false", "n", "no"})


class Node(NamedTuple):
    """A server's host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        """Write it as a URL does."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Address(NamedTuple):
    """A Redis URL, read; ``shown`` holds no secret."""

    form: Form
    url: str
    shown: str
    is_tls: bool
    nodes: tuple[Node, ...]  # of a Cluster, or Sentinels
    service: str
    options: dict[str, Any]  # of a connection, by redis-py's names
    sentinel_options: dict[str, Any]

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read a URL; raises StoreUnavailable, whose text holds no secret."""
        scheme, address = url.partition("://")[0], shown(url)
        parts = _split(url)
        form, is_tls = FORMS[scheme], scheme.startswith("rediss")
        given = _options(parts, form, is_tls=is_tls)
        if form == "single":
            return cls(form, url, address, is_tls, (), "", {}, {})
        nodes = _nodes(parts, form)
        path = [unquote(part) for part in parts.path.strip("/").split("/") if part]
        login = _login(parts) | {k: v for k, v in given.items() if k not in _SENTINEL_OPTIONS}
        if form == "cluster":
            if path not in ([], ["0"]):
                raise StoreUnavailable(f"{address} names a database; a Redis Cluster has only 0")
            return cls(form, url, address, is_tls, nodes, "", login, {})
        if not path or len(path) > 2 or (path[1:] and not path[1].isdecimal()):  # noqa: PLR2004
            raise StoreUnavailable(
                f"{address} names no service; write redis+sentinel://host:26379,…/service"
            )
        tls = {name: value for name, value in given.items() if name in _TLS_OPTIONS}
        own = {name.removeprefix("sentinel_"): given[name] for name in _SENTINEL_OPTIONS & {*given}}
        db = {"db": int(path[1])} if path[1:] else {}
        return cls(form, url, address, is_tls, nodes, path[0], login | db, own | tls)


def shown(url: str) -> str:
    """Give a Redis URL without user, password and options; raises StoreUnavailable."""
    parts = _split(url)
    if parts.scheme not in FORMS:
        raise StoreUnavailable(
            f"BRIDGE_REDIS_URL begins with {parts.scheme or 'no scheme'!r}; use redis://, "
            "rediss://, unix://, redis+cluster:// or redis+sentinel:// (docs/settings.md)"
        )
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    if FORMS[parts.scheme] != "single":
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    host, port = parts.hostname or "", parts.port
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if FORMS.get(parts.scheme, "single") == "single":
            _ = parts.port  # raises for one that is no number
    except ValueError:
        raise StoreUnavailable("BRIDGE_REDIS_URL is no URL; write redis://host:port/0") from None
    return parts


def _nodes(parts: SplitResult, form: Form) -> tuple[Node, ...]:
    usual = SENTINEL_PORT if form == "sentinel" else PORT
    nodes = []
    for place in parts.netloc.rpartition("@")[2].split(","):
        try:
            one = urlsplit(f"//{place}")
            nodes.append(Node(one.hostname or "", one.port or usual))
        except ValueError:
            nodes.append(Node("", 0))
    if not all(node.host for node in nodes):
        raise StoreUnavailable(
            f"BRIDGE_REDIS_URL names no servers; write {parts.scheme}://host:port,host:port"
            f"{'/service' if form == 'sentinel' else ''}"
        )
    return tuple(nodes)


def _login(parts: SplitResult) -> dict[str, Any]:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    found = {"username": unquote(user), "password": unquote(password)}
    return {name: value for name, value in found.items() if value}


def _options(parts: SplitResult, form: Form, *, is_tls: bool) -> dict[str, Any]:
    known = _LOGIN_OPTIONS
    if form == "single":
        known |= {"db"}
    if is_tls:
        known |= _TLS_OPTIONS
    if form == "sentinel":
        known |= _SENTINEL_OPTIONS
    given: dict[str, Any] = dict(parse_qsl(parts.query))
    for name in given.keys() - known:
        raise StoreUnavailable(
            f"BRIDGE_REDIS_URL has an option {name[:40]!r} that {parts.scheme}:// does not know; "
            f"it knows {', '.join(sorted(known))}"
        )
    if "ssl_check_hostname" in given:
        given["ssl_check_hostname"] = given["ssl_check_hostname"].lower() not in _NO
    return given
