"""What connector and relay say on the uplink, and the numbering both keep.

Login: the connector sends ``uplink/hello``; the relay claims its agents and answers with what it
has stored of each session. Steady state: the connector sends log entries, the relay stores them
and sends ``uplink/ack``; the relay sends ``uplink/mail``, the connector answers
``uplink/mail_journaled`` (on disk) and ``uplink/mail_done``. After ten seconds without a byte
either side sends ``uplink/ping``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridge.protocol.cursor import START, Cursor
from bridge.protocol.entry import Origin
from bridge.protocol.pairing import Step

SUBPROTOCOL = "chimera.uplink.v1"
HELLO = "uplink/hello"  # connector → relay, request
ACK = "uplink/ack"  # relay → connector: stored up to a cursor
SESSION = "uplink/session"  # connector → relay: a session's card
MAIL = "uplink/mail"  # relay → connector
MAIL_JOURNALED = "uplink/mail_journaled"  # connector → relay: on disk up to a number
MAIL_DONE = "uplink/mail_done"  # connector → relay: done, with what the sender gets
HISTORY = "uplink/history"  # relay → connector, request: a page of the journal
PRESENCE = "uplink/presence"  # relay → connector: who is watching
AGENT = "uplink/agent"  # connector → relay: the agent's card changed
TOKEN = "uplink/token"  # noqa: S105  connector → relay, request: a fresh token
GOODBYE = "uplink/goodbye"  # connector → relay: it ends, with the reason
PAIR = "uplink/pair"  # connector → relay: a device may find this invitation
PAIRED = "uplink/paired"  # connector → relay: how far a pairing is on the machine
PAIRING = "uplink/pairing"  # relay → connector: a pairing is open, or a device answered
DEVICE_REVOKED = "uplink/device_revoked"  # relay → connector: forget its key
PING = "uplink/ping"
PONG = "uplink/pong"

PING_AFTER_SECONDS = 10.0  # home routers drop idle TCP after about a minute
DEAD_AFTER_SECONDS = 10.0  # after an unanswered ping
WINDOW_ENTRIES = 2048  # sent and not acknowledged; small, so that a backlog cannot hide a dead link
WINDOW_BYTES = 4 << 20
FRAME_LIMIT = 16 << 20  # bytes of one uplink message


class DeviceCard(msgspec.Struct, frozen=True):
    """A device whose signatures a connector takes."""

    id: str
    key: str
    name: str
    subject: str


class Guarantee(msgspec.Struct, frozen=True):
    """One thing that is promised of an agent, and whether it holds."""

    what: str  # undo, receipt, asks, scope, sandbox
    holds: str  # always, asked: as far as the agent keeps to it, never
    text: str


class AgentCard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An agent as its connector describes it."""

    id: str
    name: str
    title: str = ""
    version: str = ""
    roots: list[str] = []  # folders in which remote clients may open sessions
    capabilities: dict[str, Any] = {}  # the agent's own, as it gave them
    modes: list[str] = []
    alive: bool = True  # whether the agent process runs
    login: str = ""  # the line to run when the agent is not logged in
    signed: str = "off"  # required: answers and mail without a signature are refused
    devices: list[DeviceCard] = []  # those whose signatures are taken
    sandbox: dict[str, Any] = {}  # {mode, enforced, by, why}: what its process may do
    approvals: dict[str, list[str]] = {}  # presets: {offered, remote: those settable from afar}
    relay_rules: bool = False  # whether a rule of the relay may allow something
    guarantees: list[Guarantee] = []


class SessionCard(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A session as its connector describes it; the higher counter wins."""

    session_id: str
    agent: str
    counter: int
    seq: int = 0
    title: str = ""
    cwd: str = ""
    state: str = "idle"  # idle, running, waiting, stalled, ended
    state_reason: str = ""  # why it is stalled: cancel_unacknowledged, silent
    modes: dict[str, Any] | None = None  # as session/new gave them, currentModeId kept true
    models: dict[str, Any] | None = None
    config_options: list[Any] | None = None
    usage: dict[str, Any] | None = None
    approval: str = ""  # the preset by which questions are decided without a person


class ConnectorCard(msgspec.Struct, frozen=True, omit_defaults=True):
    """The connector's process and machine."""

    version: str
    host: str = ""
    os: str = ""


class MailPosition(msgspec.Struct, frozen=True):
    """The number of the last mail that is on the connector's disk."""

    journaled: int = 0


class Hello(msgspec.Struct, frozen=True, omit_defaults=True):
    """The connector's first message, once per connection."""

    epoch: int
    writer: str  # a random id of the connector process
    connector: ConnectorCard
    agents: list[AgentCard]
    sessions: list[SessionCard] = []
    open: list[str] = []  # round-trips that wait
    mail: MailPosition = MailPosition()
    signed: str = "off"


class Stored(msgspec.Struct, frozen=True, rename="camel"):
    """How far the relay has a session's log; ``0:0`` when it has nothing."""

    session_id: str
    epoch: int
    seq: int
    resend: bool = False  # what came after it was refused: send it again from there

    @property
    def cursor(self) -> Cursor:
        """The last stored entry."""
        return Cursor(self.epoch, self.seq)


class HelloResult(msgspec.Struct, frozen=True):
    """The relay's answer to hello."""

    relay: dict[str, str]  # version, node
    limits: dict[str, int]  # frameBytes, windowEntries, windowBytes
    sessions: list[Stored]
    closed: list[str]  # of the named round-trips, those that are closed here
    time: int  # the store's clock, Unix milliseconds


class Mail(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A message on its way down to an agent."""

    n: int  # counts up per agent
    mail_id: str  # made by the sender
    origin: Origin
    message: dict[str, Any]  # {"method", "params"}: one of policy's allow-list
    not_after: int | None = None  # Unix milliseconds
    signature: str | None = None


class MailJournaled(msgspec.Struct, frozen=True, rename="camel"):
    """Up to where a connector has its mail on disk."""

    up_to: int


class MailDone(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What became of a mail: either a result or a JSON-RPC error object."""

    mail_id: str
    result: Any = None
    error: dict[str, Any] | None = None
    after: str | None = None  # of a prompt: the cursor of the entry that ends its turn


class Watcher(msgspec.Struct, frozen=True):
    """One person watching a session."""

    subject: str
    role: str
    device: str = ""
    visible: bool = True


class Presence(msgspec.Struct, frozen=True, rename="camel"):
    """Who watches a session."""

    session_id: str
    watching: list[Watcher]


class Invited(msgspec.Struct, frozen=True):
    """An invitation as the relay gets it: everything but the secret."""

    code: str
    agent: str
    offer: str
    mac: str


class PairingNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a connector learns of its pairing."""

    code: str
    agent: str
    step: Step
    answer: str | None = None
    proof: str | None = None


class PairingEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a pairing is, as the machine says: compare, or an end."""

    code: str
    agent: str
    step: Step
    number: str | None = None  # shown when words are compared
    mac: str | None = None  # proof that the machine took the device


class DeviceRevoked(msgspec.Struct, frozen=True):
    """A device was shut out at the relay."""

    device: str


class Arrivals:
    """The relay's check that one session's entries come without a hole and never back in epoch."""

    def __init__(self, stored: Cursor = START) -> None:
        """Expect what follows the cursor that is stored."""
        self.last = stored

    def accept(self, cursor: Cursor, prev: Cursor | None = None) -> bool | None:
        """Say True for the next entry, False for a repeat, None for a hole before it."""
        if cursor <= self.last:
            return False
        if cursor.epoch == self.last.epoch:
            follows = cursor.seq == self.last.seq + 1
        else:
            # below: a crash of the connector's machine lost a tail that is stored here
            follows = cursor.seq == 1 and (prev is None or prev <= self.last)
        if not follows:
            return None
        self.last = cursor
        return True
