"""What a connector is told at its start; nothing here reads the environment."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from agent_side.limits import PRESETS, RISKS, SANDBOXES
from agent_side.redaction import Redaction
from agent_side.unanswered import Unanswered, parse

NAME = re.compile(
    r"(?!(\.{1,2}|(devices|trusted)\.(json|lock|new))$)[A-Za-z0-9_.-]{1,64}", re.ASCII
)
TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+", re.ASCII)  # RFC 6750
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
SNAPSHOT_MB = 2048  # of a machine's disk, for snapshots of turns
SIGNED = ("auto", "required", "off")
UPLINK_PATH = "/uplink"
_KNOWN = {
    "signed": SIGNED,
    "approval": PRESETS,
    "remote_approval": ("", *PRESETS),
    "sandbox": SANDBOXES,
    "two_people": ("", *RISKS),
    "relay_rules": ("auto", "on", "off"),
}


class SettingsError(ValueError):
    """A setting that cannot be used; the message names it and says what is taken."""


@dataclass(frozen=True)
class ConnectorSettings:
    """Where a connector keeps its state and what remote clients may do."""

    name: str  # of this connector on this machine; one process at a time has it
    cwd: Path  # where sessions open when nobody says otherwise
    state_dir: Path  # one folder in it per name
    roots: tuple[Path, ...] = ()  # folders for remote sessions; empty: cwd alone
    trusted: tuple[Path, ...] | None = None  # for local sessions; None: cwd and roots
    trust_opened: bool = False  # trust a folder when an editor opens a session in it
    allow_modes: frozenset[str] = frozenset()  # further session modes that remote clients may set
    allow_options: frozenset[str] = frozenset()  # further config options that they may set
    signed: str = "auto"  # whether what comes from afar must be signed: auto, required, off
    redaction: Redaction = field(default_factory=Redaction)  # kept from the relay
    approval: str = "suggest"  # the preset with which sessions begin
    remote_approval: str = ""  # the widest preset that remote clients may set; empty: none
    sandbox: str = "off"  # what the agent's process may write and reach
    two_people: str = ""  # from which risk on an approval from afar takes two; empty: never
    unanswered: str = "wait"  # what becomes of questions that nobody answers
    relay_rules: str = "auto"  # whether rules of the relay may allow: on, off, auto: unsigned only

    snapshot_mb: int = SNAPSHOT_MB  # on disk, of snapshots; 0: no snapshots, no receipts, no undo

    def __post_init__(self) -> None:
        """Refuse a name that is no file name of ours; raises SettingsError."""
        if NAME.fullmatch(self.name) is None:
            raise SettingsError(
                f"invalid name {self.name[:80]!r}: up to 64 letters, digits, '_', '.' and '-'"
            )
        for name, known in _KNOWN.items():
            if getattr(self, name) not in known:
                shown = ", ".join(filter(None, known))
                raise SettingsError(f"{name} is {getattr(self, name)!r}: choose {shown}")
        try:
            parse(self.unanswered)
        except ValueError as error:
            raise SettingsError(f"unanswered: {error}") from None

    @property
    def ends(self) -> tuple[Unanswered, ...]:
        """What becomes of questions that nobody answers."""
        return parse(self.unanswered)

    @property
    def folder(self) -> Path:
        """The state folder of this name."""
        return self.state_dir / self.name

    @property
    def allowed_roots(self) -> tuple[Path, ...]:
        """The folders in which remote clients may open sessions, links resolved."""
        return tuple(root.expanduser().resolve() for root in self.roots or (self.cwd,))


@dataclass(frozen=True)
class RelayTarget:
    """The relay to attach to, and where the token for it comes from."""

    url: str  # as given: ws, wss, http or https, with or without /uplink
    token: str = field(default="", repr=False)
    token_file: Path | None = None  # read again after a refusal: tokens are renewed in place
    insecure: bool = False  # plain ws:// to another machine
    ca: Path | None = None  # a further certificate authority, PEM

    def __post_init__(self) -> None:
        """Check the address; raises SettingsError."""
        parts = _parts_of(self.url)
        if parts is None or parts.scheme not in SCHEMES or not parts.hostname:
            raise SettingsError(
                f"invalid relay address {self.url[:200]!r}: write wss://host[:port], "
                "or ws://127.0.0.1:8787 for a relay on this machine"
            )
        if parts.username or parts.query or parts.fragment:
            raise SettingsError(
                "a relay address carries no credentials: use FERRET_BRIDGE_TOKEN or --token-file"
            )
        if SCHEMES[parts.scheme] == "ws" and not (self.loopback or self.insecure):
            raise SettingsError(
                f"{self.url} would send the token in the clear: use wss://, "
                "or --insecure when the network is yours"
            )
        if self.ca is not None and not self.ca.is_file():
            raise SettingsError(f"the authority {self.ca} is no file: --ca names a PEM file")

    @property
    def uplink_url(self) -> str:
        """The websocket address of the uplink."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/")
        path = path if path.endswith(UPLINK_PATH) else path + UPLINK_PATH
        return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, "", ""))

    @property
    def page_url(self) -> str:
        """The address that a browser opens."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix(UPLINK_PATH)
        scheme = "https" if SCHEMES[parts.scheme] == "wss" else "http"
        return urlunsplit((scheme, parts.netloc, path, "", ""))

    @property
    def encrypted(self) -> bool:
        """Whether the uplink runs over TLS."""
        return self.uplink_url.startswith("wss:")

    @property
    def loopback(self) -> bool:
        """Whether the relay is on this machine by its address."""
        host = urlsplit(self.url).hostname or ""
        if host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def read_token(self) -> str:
        """Give the token, from its file when there is one; raises SettingsError."""
        held = self.token if self.token_file is None else self._read_file(self.token_file)
        token = held.strip()
        if token and TOKEN.fullmatch(token) is None:  # not shown: most of it may be a secret
            where = self.token_file or "the environment"
            raise SettingsError(
                f"what {where} holds is no token: that is one word, without blanks or line breaks"
            )
        return token

    @staticmethod
    def _read_file(file: Path) -> str:
        try:
            return file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise SettingsError(f"the token file {file} cannot be read: {why}") from None


def _parts_of(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read only now: it may be no number, or too high
    except ValueError:
        return None
    return parts
