"""What the endpoints of a relay process share, opened and closed by its lifespan."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from typing import Protocol
from urllib.parse import urlsplit

from bridge.agents import Agents
from bridge.audit import Audit
from bridge.buckets import Buckets
from bridge.bulletin import Bulletin
from bridge.change_feed import ChangeFeed
from bridge.dashboards import Dashboards
from bridge.devices import Devices
from bridge.embedded import EmbeddedValkey
from bridge.families import Families
from bridge.health import Health
from bridge.history import History
from bridge.hub import Hub, HubLimits
from bridge.identity import Identities
from bridge.inbox import Inbox
from bridge.journals import Journals
from bridge.limits import Admission, SocketLimits
from bridge.log import Log, LogLimits
from bridge.login import Logins
from bridge.mail import Mailbox
from bridge.metrics import Metrics
from bridge.nodes import Nodes
from bridge.notifier import Notifier
from bridge.origins import Origins
from bridge.pairing import Pairings
from bridge.presence import Presence
from bridge.proofs import Proofs
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store
from bridge.round_trips import RoundTrips
from bridge.rules import Rules
from bridge.sessions import Sessions
from bridge.settings import Settings
from bridge.signatures import Signatures
from bridge.subscriptions import Subscriptions
from bridge.tasks import Tasks
from bridge.token_register import TokenRegister
from bridge.tokens import Tokens
from bridge.transcript import Transcripts
from bridge.uplinks import Uplinks
from bridge.warden import Warden
from bridge.web_push import WebPush

LEAVE_SECONDS = 0.8  # to say in the store that this process ends

logger = logging.getLogger(__name__)


class Stream(Protocol):
    """A response that does not end by itself."""

    def end(self) -> None:
        """End it."""


@dataclass(frozen=True, slots=True)
class Relay:
    """One relay process: its settings, its store and what stands on it."""

    settings: Settings
    node: str  # random, one per process
    store: Store
    health: Health
    inbox: Inbox
    log: Log
    hub: Hub
    journals: Journals
    history: History
    transcripts: Transcripts
    sessions: Sessions
    agents: Agents
    round_trips: RoundTrips
    rules: Rules
    warden: Warden
    mailbox: Mailbox
    audit: Audit
    changes: ChangeFeed
    presence: Presence
    nodes: Nodes
    uplinks: Uplinks
    dashboards: Dashboards
    bulletin: Bulletin
    tokens: Tokens
    token_register: TokenRegister
    proofs: Proofs
    families: Families
    buckets: Buckets
    logins: Logins
    identities: Identities
    devices: Devices
    pairings: Pairings
    signatures: Signatures
    push: WebPush
    subscriptions: Subscriptions
    notifier: Notifier
    origins: Origins
    metrics: Metrics
    admission: Admission
    tasks: Tasks
    streams: set[Stream]  # event streams that are open
    version: str = field(default_factory=lambda: metadata.version("chimera-bridge"))


@asynccontextmanager
async def open_relay(settings: Settings) -> AsyncIterator[Relay]:
    """Open everything, run the background tasks, close it all; raises StoreUnavailable, OSError."""
    tokens = Tokens(settings.keys_folder)
    with ExitStack() as stack:
        embedded, url = _start_store(settings, stack)
        node = secrets.token_hex(8)
        replicas, wait_ms = settings.redis_wait_replicas, settings.redis_wait_ms
        store = Store.open(url, replicas, wait_ms, node=node)
        try:
            await store.check()
            relay = _assemble(settings, tokens, store, node)
            relay.inbox.recovered.update({relay.uplinks.recovered, relay.dashboards.recovered})
            relay.health.recovered.update(relay.inbox.recovered)
            relay.health.changed.add(relay.bulletin.tell_health)
            relay.changes.hearers.update({relay.notifier.heed, relay.warden.heed})
            relay.tasks.start("health", relay.health.run())
            relay.tasks.start("inbox", relay.inbox.run())
            relay.tasks.start("log", relay.log.run())
            relay.tasks.start("uplinks", relay.uplinks.run())
            relay.tasks.start("revoked tokens", relay.token_register.run())
            relay.tasks.start("nodes", relay.nodes.run())
            relay.tasks.start("bulletin", relay.bulletin.run())
            relay.tasks.start("audit", relay.audit.run())
            relay.tasks.start("warden", relay.warden.run())
            if embedded is not None:
                relay.tasks.start("embedded store", embedded.keep())
            facts = {"node": relay.node, "store": store.address}
            logger.info("relay %s runs", relay.version, extra=facts)
            try:
                yield relay
            finally:
                relay.hub.close()
                with suppress(StoreUnavailable):
                    await relay.uplinks.release()
                    await relay.bulletin.tell_presence()
                    await relay.audit.seal_all()
                await relay.tasks.end()
                await relay.push.aclose()
        finally:
            await store.aclose()


def _start_store(settings: Settings, stack: ExitStack) -> tuple[EmbeddedValkey | None, str]:
    if settings.redis_url is not None:
        return None, settings.redis_url.get_secret_value()
    # Started from the main thread: the kernel ends it with the thread that started it.
    embedded = EmbeddedValkey(settings.store_folder)
    url = embedded.start()
    stack.callback(embedded.stop)
    return embedded, url


def _assemble(settings: Settings, tokens: Tokens, store: Store, node: str) -> Relay:
    streams: set[Stream] = set()
    admission = Admission(_socket_limits(settings))
    limits = LogLimits(settings.log_entries, settings.log_bytes, settings.log_age_seconds)
    inbox = Inbox(store, node)
    log = Log(store, inbox, limits)
    agents = Agents(store, inbox, age_seconds=settings.log_age_seconds)
    sessions = Sessions(store, inbox, age_seconds=settings.log_age_seconds)
    audit, presence = Audit(store, tokens), Presence(store, inbox)
    round_trips = RoundTrips(store, inbox, on_record=audit.written)
    rules = Rules(store, inbox, on_record=audit.written)
    dashboards, uplinks, tasks = Dashboards(), Uplinks(), Tasks()
    journals = Journals(store, inbox, agents, uplinks, tasks)
    health = Health(store)
    logins, identities = Logins(store), Identities()
    nodes = Nodes(store, inbox, agents)
    token_register = TokenRegister(store, identities.closed)
    devices = Devices(store, inbox, agents, logins, audit)
    push = WebPush(settings.keys_folder, _contact(settings), settings.push_hosts)
    subscriptions = Subscriptions(store, logins)
    return Relay(
        settings=settings,
        node=node,
        store=store,
        health=health,
        inbox=inbox,
        log=log,
        hub=Hub(log, inbox, HubLimits(buffered_bytes=settings.subscriber_bytes)),
        journals=journals,
        history=History(log, journals),
        transcripts=Transcripts(log),
        sessions=sessions,
        agents=agents,
        round_trips=round_trips,
        rules=rules,
        warden=Warden(store, rules, round_trips, uplinks),
        mailbox=Mailbox(store, inbox),
        audit=audit,
        changes=ChangeFeed(store, inbox, identities.heed),
        presence=presence,
        nodes=nodes,
        uplinks=uplinks,
        dashboards=dashboards,
        bulletin=Bulletin(
            dashboards,
            agents=agents,
            nodes=nodes,
            sessions=sessions,
            round_trips=round_trips,
            presence=presence,
            health=health,
        ),
        tokens=tokens,
        token_register=token_register,
        proofs=Proofs(store, audit),
        buckets=Buckets(store, health, settings),
        families=Families(store, tokens, token_register, audit),
        logins=logins,
        identities=identities,
        devices=devices,
        pairings=Pairings(store, inbox, devices),
        signatures=Signatures(store, agents, round_trips, devices),
        push=push,
        subscriptions=subscriptions,
        notifier=Notifier(
            subscriptions,
            push,
            agents=agents,
            sessions=sessions,
            round_trips=round_trips,
            tasks=tasks,
        ),
        origins=Origins(settings),
        metrics=_metrics(streams, store, health, admission),
        admission=admission,
        streams=streams,
        tasks=tasks,
    )


def _contact(settings: Settings) -> str:
    """Say who runs this: push services ask for somebody to write to."""
    if settings.push_contact:
        return settings.push_contact
    host = urlsplit(settings.public_url or "").hostname or socket.gethostname()
    return f"mailto:chimera-bridge@{host if '.' in host else f'{host}.local'}"


def _socket_limits(settings: Settings) -> SocketLimits:
    return SocketLimits(
        total=settings.max_sockets,
        per_address=settings.max_sockets_per_address,
        per_subject=settings.max_sockets_per_subject,
        per_second=settings.max_new_sockets_per_second,
    )


def _metrics(streams: set[Stream], store: Store, health: Health, admission: Admission) -> Metrics:
    metrics = Metrics()
    metrics.counter("http_requests_total", "HTTP requests by route and status")
    metrics.counter("refused_total", "requests refused before they were served, by reason")
    metrics.counter("sign_ins_total", "sign-ins with a link, by result")
    metrics.counter("mail_total", "messages sent down to agents over REST, by method")
    metrics.counter("decisions_total", "answers to questions over REST, by what became of them")
    metrics.gauge("store_up", "1 while the store takes writes", lambda: health.trouble is None)
    metrics.gauge("store_outages", "times that it did not, since the start", lambda: health.outages)
    metrics.gauge("store_outage_seconds", "how long it has not by now", lambda: health.seconds)
    metrics.gauge("store_failures", "operations of the store that failed", lambda: store.failures)
    metrics.gauge("event_streams", "event streams that are open", lambda: len(streams))
    metrics.gauge("sockets", "websockets that are open", lambda: admission.taken)
    metrics.gauge(
        "sockets_refused",
        "websockets refused since the start, by which bound",
        lambda: {(("bound", bound),): n for bound, n in admission.refused.items()},
    )
    return metrics
