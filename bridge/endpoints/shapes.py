"""The JSON bodies of the REST API, as OpenAPI shows them; times are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bridge.protocol.signing import SIZE_LIMIT

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]

Jws = Annotated[str, Field(min_length=1, max_length=SIZE_LIMIT)]


class Shape(BaseModel):
    """A body whose names are camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Attachment(Shape):
    """Whether an agent is reachable, why, and since when."""

    state: str
    reason: str
    since: str | None = None
    last_seen: str | None = None


class Guarantee(Shape):
    """One thing that is promised of an agent, and whether it holds."""

    what: str = Field(description="undo, receipt, asks, scope, sandbox")
    holds: str = Field(description="always; asked: as far as the agent keeps to it; never")
    text: str


class Agent(Shape):
    """An agent and the machine it runs on."""

    id: str
    name: str
    title: str = ""
    version: str = ""
    host: str = ""
    os: str = ""
    roots: list[str] = []
    modes: list[str] = []
    capabilities: dict[str, Any] = {}
    alive: bool = True
    login: str = ""
    signed: str = Field(default="off", description="required: only paired devices may answer")
    devices: list[str] = Field(default=[], description="the ids of the paired devices")
    sandbox: dict[str, Any] = Field(default={}, description="{mode, enforced, by, why}")
    approvals: dict[str, list[str]] = Field(
        default={}, description="presets: {offered, remote: those that clients may set}"
    )
    relay_rules: bool = Field(default=False, description="whether a relay's rule may allow")
    guarantees: list[Guarantee] = []
    epoch: int
    attachment: Attachment


class Agents(Shape):
    """The agents of the tenant."""

    agents: list[Agent]


class Session(Shape):
    """One conversation with an agent."""

    session_id: str
    agent: str
    title: str = ""
    cwd: str = ""
    state: str
    state_reason: str | None = None
    modes: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    config_options: list[Any] | None = None
    usage: dict[str, Any] | None = None
    approval: str | None = Field(default=None, description="the preset that holds in it")
    cursor: str
    created_at: str
    updated_at: str
    open: list[str]
    attachment: Attachment


class Sessions(Shape):
    """The sessions of the tenant, the newest first."""

    sessions: list[Session]


class LogPage(Shape):
    """A page of a session's log, the oldest entry first."""

    entries: list[dict[str, Any]]
    first: str | None = Field(default=None, description="the oldest entry that the relay holds")
    last: str = Field(description="the newest entry that the relay holds; 0:0 when there is none")
    more: bool = Field(description="whether there is more in the direction that was asked for")


class Piece(Shape):
    """A part of an entry's whole text; the parts joined are the entry."""

    at: str = Field(description="the entry's cursor")
    offset: int = Field(description="where the part begins, in bytes")
    size: int = Field(description="how long the whole is, in bytes")
    text: str
    next: int | None = Field(default=None, description="where the following part begins")


class By(Shape):
    """Who answered."""

    subject: str
    tenant: str = ""
    device: str = ""
    door: str = ""


class DecisionMade(Shape):
    """The answer that was recorded first."""

    answer: dict[str, Any]
    by: By
    at: str
    decision_id: str


class RoundTrip(Shape):
    """A question of an agent and what became of it."""

    id: str
    session_id: str
    agent: str
    kind: str
    subject: str = Field(description="JSON text: exactly what will run")
    hash: str
    option_ids: list[str] = []
    risk: str
    state: str
    epoch: int = Field(description="of the connector process that asked")
    asked_at: str
    expires_at: str | None = None
    decision: DecisionMade | None = None
    result: str | None = None
    reason: str | None = None
    by: By | None = None
    answer: dict[str, Any] | None = None
    closed_at: str | None = None
    tool_call_id: str | None = None
    escalated_at: str | None = None
    needs: dict[str, Any] | None = Field(
        default=None, description="of an approval now: {people?, passkey?, rule?: {id, words}}"
    )
    half: dict[str, Any] | None = Field(
        default=None, description="the first of two approvals: {answer, by, at}"
    )


class RoundTrips(Shape):
    """Questions, the newest first."""

    round_trips: list[RoundTrip]


class Decide(Shape):
    """One person's answer to a question."""

    hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] = Field(
        description="the SHA-256 of the subject that was shown"
    )
    answer: dict[str, Any] = Field(description='{"optionId": …} or {"action": …, "content": …}')
    decision_id: Id = Field(description="made by the sender; the same one gives the same outcome")
    jws: Jws | None = Field(default=None, description="the same, signed by a paired device")


class Decided(Shape):
    """What became of an answer; recorded is a proposal, the connector closes the question."""

    state: Literal["recorded", "needs_another", "late", "closed", "refused"]
    by: By | None = None
    reason: str | None = None
    answer: dict[str, Any] | None = None
    at: str


class SendMail(Shape):
    """A message for the agent of a session."""

    mail_id: Id = Field(description="made by the sender; the same one is delivered once")
    method: Literal[
        "session/prompt",
        "session/cancel",
        "session/set_mode",
        "session/set_config_option",
        "_bridge/set_approval",
        "_bridge/undo",
        "_bridge/undo_preview",
    ]
    params: dict[str, Any] = {}
    signature: Jws | None = Field(default=None, description="of a paired device, for this message")


class MailSent(Shape):
    """A message that is stored and on its way."""

    mail_id: str
    n: int


class MailOutcome(Shape):
    """Whether a message was done; queued also when it is not known here."""

    state: Literal["queued", "done"]
    result: Any = None
    error: dict[str, Any] | None = None


class RelayCard(Shape):
    """The relay process that answered."""

    version: str
    node: str


class Me(Shape):
    """Who is asking, as the relay sees it."""

    subject: str
    tenant: str
    role: str
    device: str
    kind: str
    relay: RelayCard


class SignIn(Shape):
    """The secret of a one-time link."""

    secret: Annotated[str, Field(min_length=1, max_length=256)]
    device: Annotated[str, Field(max_length=64)] = Field(
        default="", description="how to call this browser; else what its User-Agent says"
    )


class Ticket(Shape):
    """What opens one websocket of this page within 30 seconds."""

    ticket: str
    expires_in: int = Field(description="seconds")


class Code(Shape):
    """The code that a machine shows."""

    code: Annotated[str, Field(min_length=1, max_length=20)]


class PairingOffer(Shape):
    """What a device would join."""

    offer: str = Field(description="JSON text, made by the machine")
    mac: str = Field(description="its HMAC with the secret of the QR code")
    expires_at: str


class PairingAnswer(Code):
    """A device that wants to be paired."""

    answer: Annotated[str, Field(max_length=4096)] = Field(description="JSON text")
    proof: Annotated[str, Field(max_length=128)] | None = Field(
        default=None, description="its HMAC with the secret of the QR code, if one was scanned"
    )


class PairingOutcome(Shape):
    """How far a pairing is."""

    step: str
    number: str | None = Field(default=None, description="for the words that people compare")
    mac: str | None = Field(default=None, description="the machine's proof that it took the device")


class Machine(Shape):
    """A machine that takes a device's signature."""

    agent: str
    name: str
    host: str = ""


class Device(Shape):
    """A paired device."""

    id: str
    name: str
    subject: str
    fingerprint: str
    machines: list[Machine]
    paired_at: str | None = None
    last_seen: str | None = None
    revoked_at: str | None = None


class Devices(Shape):
    """Devices, the last seen first."""

    devices: list[Device]


class ErrorDetail(BaseModel):
    """What went wrong: a JSON-RPC code, a sentence, and a word that stays the same."""

    model_config = ConfigDict(extra="allow")

    code: int
    message: str
    reason: str


class Failure(BaseModel):
    """The body of every failed request."""

    error: ErrorDetail


AWAY = {"model": Failure, "description": "the connector that keeps it is away"}
Answers = dict[int | str, dict[str, Any]]
ANY_FAILURE: Answers = {"default": {"model": Failure, "description": "any other failure"}}


class AuditRecord(Shape):
    """One thing that was done; what a kind of event does not have is left out."""

    model_config = ConfigDict(extra="allow")

    id: str
    at: str
    event: str


class AuditPage(Shape):
    """Records, the newest first; with `next` there may be more."""

    records: list[AuditRecord]
    next: str | None = None


class AuditFigures(Shape):
    """How questions ended: `held` is all of them, the rest is how; unanswered ones are in none."""

    held: int
    approved: int
    denied: int
    by_rule: int
    expired: int
    median_seconds_to_decide: float | None
