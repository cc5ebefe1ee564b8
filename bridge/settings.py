"""The relay's settings: environment variables named ``BRIDGE_*``, each checked at start."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bridge.address import Address
from bridge.protocol.errors import StoreUnavailable
from bridge.protocol.uplink import FRAME_LIMIT

PREFIX = "BRIDGE_"
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})


class SettingsInvalid(Exception):
    """A setting has a value that cannot be used; the message names it."""


def _state_home() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "chimera-bridge" / "relay"


class Settings(BaseSettings):
    """Everything about a relay process that its operator may choose."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8787
    """The port to listen on; 0 takes a free one."""
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    """How many relay processes serve the address, with one that watches over them."""
    state_dir: Path = Field(default_factory=_state_home)
    """The folder of the signing keys and of the store that comes with the relay."""
    keys_dir: Path | None = None
    """The folder of the signing keys alone, where several relays share them."""
    redis_url: SecretStr | None = None
    """The address of Redis or Valkey; without it the relay starts a store of its own."""
    redis_wait_replicas: Annotated[int, Field(ge=0, le=16)] = 0
    """How many replicas must confirm a write before it is acknowledged."""
    redis_wait_ms: Annotated[int, Field(ge=10, le=1500)] = 1000
    """How many milliseconds they have for it; what they do not confirm is sent again."""
    public_url: str | None = None
    """The address people and agents reach the relay at, when a proxy stands in front."""
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = ()
    """Further origins whose pages may use a sign-in of this relay, separated by commas."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    tls_cert: Path | None = None
    """The certificate chain (PEM) to serve https and wss with."""
    tls_key: Path | None = None
    """The certificate's private key (PEM)."""
    log_format: Literal["plain", "json"] = "plain"
    """How log lines are written to stderr."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important log lines to write."""
    log_entries: Annotated[int, Field(ge=100)] = 20_000
    """How many entries of a session the relay keeps."""
    log_bytes: Annotated[int, Field(ge=1 << 20)] = 32 << 20
    """How many bytes of a session's entries the relay keeps."""
    log_age_seconds: Annotated[int, Field(ge=60)] = 14 * 86_400
    """How long the relay keeps a session nobody writes to."""
    uplink_frame_bytes: Annotated[int, Field(ge=64 << 10)] = FRAME_LIMIT
    """The largest message a connector may send."""
    acp_frame_bytes: Annotated[int, Field(ge=64 << 10)] = 8 << 20
    """The largest message a dashboard may send: a prompt with its images."""
    http_body_bytes: Annotated[int, Field(ge=1 << 10)] = 8 << 20
    """The largest body of an HTTP request."""
    subscriber_bytes: Annotated[int, Field(ge=64 << 10)] = 4 << 20
    """How many bytes may wait for one dashboard before it has to catch up from the log."""
    max_sockets: Annotated[int, Field(ge=1)] = 50_000
    """How many websockets one relay process holds."""
    max_sockets_per_address: Annotated[int, Field(ge=1)] = 10_000
    """How many of them may come from one address; an office behind one needs many."""
    max_sockets_per_subject: Annotated[int, Field(ge=1)] = 1_000
    """How many of them may be of one person or agent's token."""
    max_new_sockets_per_second: Annotated[int, Field(ge=0)] = 500
    """How many websockets one relay process opens in a second; 0 opens all that come."""
    max_sessions_per_dashboard: Annotated[int, Field(ge=1)] = 1_000
    """How many sessions one dashboard may be attached to."""
    sign_ins_per_minute: Annotated[int, Field(ge=0)] = 60
    """How many sign-in tries one address may make in a minute; 0: any number."""
    calls_per_minute: Annotated[int, Field(ge=0)] = 6_000
    """How many API calls one person may make in a minute; 0: any number."""
    decisions_per_minute: Annotated[int, Field(ge=0)] = 1_200
    """How many answers one person may give in a minute; 0: any number."""
    mail_per_minute: Annotated[int, Field(ge=0)] = 1_200
    """How many prompts and other messages one person may send in a minute; 0: any number."""
    limit_shared_factor: Annotated[int, Field(ge=1)] = 20
    """How many times as much a tenant, and one address with many people, may."""
    push_contact: str = ""
    """Who runs the relay (mailto: or https:), for push services; without it a made-up mailto:."""
    push_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Further push services (host or host:port) that browsers may name, separated by commas."""
    max_event_streams: Annotated[int, Field(ge=1)] = 1_000
    """How many event streams one relay process holds."""

    @field_validator("allowed_origins", "trusted_proxies", "push_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("allowed_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if origin != origin_of(origin):
                raise ValueError("each must be an origin such as https://bridge.example.org")
        return value

    @field_validator("push_contact")
    @classmethod
    def _check_push_contact(cls, value: str) -> str:
        if value and not re.fullmatch(r"mailto:[^@\s]+@[^@\s]+|https://[^\s/]+\S*", value):
            raise ValueError("write mailto:you@example.org, or an https: address")
        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ValueError("it must be an address such as https://bridge.example.org")
        origin_of(value)  # raises for a port that is none
        if parts.path not in ("", "/"):
            raise ValueError("the relay must have a host name of its own, without a path")
        return value.rstrip("/")

    @field_validator("redis_url")
    @classmethod
    def _check_redis_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            try:
                Address.parse(value.get_secret_value())
            except StoreUnavailable as error:  # its text holds no secret
                raise ValueError(error.message.removeprefix("BRIDGE_REDIS_URL ")) from None
        return value

    @field_validator("tls_cert", "tls_key")
    @classmethod
    def _check_readable(cls, value: Path | None) -> Path | None:
        if value is not None and not os.access(value, os.R_OK):
            raise ValueError("the file is not there or cannot be read")
        return value

    @model_validator(mode="after")
    def _check_tls_pair(self) -> Settings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("BRIDGE_TLS_CERT and BRIDGE_TLS_KEY are needed together")
        if self.tls_cert is not None:
            try:
                ssl.create_default_context().load_cert_chain(self.tls_cert, self.tls_key)
            except (ssl.SSLError, OSError) as error:
                raise ValueError(
                    f"BRIDGE_TLS_CERT and BRIDGE_TLS_KEY are no certificate and its key: {error}"
                ) from None
        return self

    @property
    def scheme(self) -> str:
        """The scheme this process itself speaks."""
        return "https" if self.tls_cert else "http"

    @property
    def keys_folder(self) -> Path:
        """The folder of the signing keys."""
        return self.keys_dir or self.state_dir / "keys"

    @property
    def store_folder(self) -> Path:
        """The folder of the embedded store."""
        return self.state_dir / "valkey"

    def address(self, port: int) -> str:
        """Give the URL of a port this process listens on."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{port}"

    def reachable_at(self, port: int) -> str:
        """Give the URL a person opens: the public one, else one that works on this machine."""
        if self.public_url:
            return self.public_url
        if self.host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
            return f"{self.scheme}://127.0.0.1:{port}"
        return self.address(port)


def load(environ: Mapping[str, str], **given: Any) -> Settings:
    """Read the settings, what is given before the environment; raises SettingsInvalid."""
    unknown = unknown_settings(environ)
    if unknown:
        raise SettingsInvalid("; ".join(unknown))
    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise SettingsInvalid("; ".join(_sentence(one) for one in error.errors())) from None


def unknown_settings(environ: Mapping[str, str]) -> list[str]:
    """Say of each ``BRIDGE_*`` variable that is no setting what it may have meant."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    sentences = []
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            sentences.append(f"{name} is no setting of the relay{hint}")
    return sentences


def origin_of(url: str) -> str:
    """Give a URL's origin as a browser writes it: scheme, host, and a port unless usual."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    port = "" if parts.port in (None, usual) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _sentence(error: Any) -> str:
    message: str = error["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:] if not message.startswith(PREFIX) else message
    if not error["loc"]:
        return message
    field = str(error["loc"][0])
    if field == "redis_url":  # may hold a password
        return f"{PREFIX}{field.upper()}: {message}"
    return f"{PREFIX}{field.upper()} is {str(error['input'])[:80]!r}: {message}"
