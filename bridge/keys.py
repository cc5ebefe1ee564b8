"""Every key name in Redis, the form of what goes into one, and how long it lives.

A tenant's keys carry the hash tag ``{tenant}``, so that one script may touch several of them on a
Redis Cluster. A node's inbox and the sign-in keys carry none and are never used in such a script.

==================================  ============================================================
``b:{t}:log:<session>``             stream ``<epoch>-<seq>``; session life (below)
``b:{t}:meta:<session>``            hash: owner, last cursor, card; session life
``b:{t}:chunks:<session>``          list ``id count bytes time`` for trimming; session life
``b:{t}:asked:<session>``           hash: round-trip id → open or decided; session life
``b:{t}:watch:<log:x|mail:x|…>``    hash: node → end of its watch lease; two leases
``b:{t}:rt:<id>``                   hash, a round-trip; pinned until closed, then 24 hours
``b:{t}:open``                      zset of round-trips not closed; pinned, its members go away
``b:{t}:closed``                    zset of those closed in the last 24 hours; 24 hours
``b:{t}:claim:<agent>``             hash: who writes for the agent, its card; agent life
``b:{t}:mail:<agent>``              stream ``<n>-0``, cut where acknowledged; agent life
``b:{t}:mailed:<agent>``            zset: the last 10,000 mail ids → n; agent life
``b:{t}:done:<mail>``               string: what became of a mail; 10 minutes
``b:{t}:sessions``                  zset by last write; pinned, pruned when read
``b:{t}:sessions:<agent>``          zset, those of one agent; agent life
``b:{t}:agents``                    zset by last connection; pinned, pruned when read
``b:{t}:presence:<session>``        hash: node → end of life and watchers; a minute, renewed
``b:{t}:changes``                   stream of notices, about 1,000; 24 hours
``b:{t}:audit``                     stream of who did what; cut at 400 days of age
``b:{t}:seals``                     stream of the audit's seals; cut at 400 days of age
``b:{t}:audited:<id>``              string: an audit record was written; 10 minutes
``b:{t}:rules``                     hash: the admins' rules, version; pinned: a setting
``b:{t}:post:<node>``               stream of what processes ask each other, 128; 60 seconds
``b:{t}:device:<id>``               hash: whose it is, when seen, its logins; 400 days
``b:{t}:devices``                   zset of devices by last sight; pinned, pruned when read
``b:{t}:pairing:<code>``            hash: an offer and what is answered; a few minutes
``b:{t}:guesses``                   string: wrong codes in the last minutes; 4 minutes
``b:{t}:push``                      hash: who wants to be notified, and where; pinned
``b:{t}:buzzed:<what>``             set of who was notified of it; 24 hours
``b:inbox:<node>``                  stream of wake-ups; 60 seconds
``b:{t}:fence``                     written before replicas are waited for; a minute
``b:probe:<n>``                     written by the check of each master; a minute
``b:link|cookie|ticket:<sha256>``   signing in; each as long as what it stands for
``b:proof:<sha256>``                string: a proof that was used; 4 minutes
``b:{t}:bound:<token>``             string: the key a token is bound to; as long as the token
``b:{t}:family:<id>``               hash of a sign-in by refresh tokens; as long as it
``b:{t}:bucket:<what>``             hash: what one or all may still ask for; a minute
``b:bucket:<sha256>``               the same of an address
``b:{t}:tokens``                    hash of tokens in use; 400 days, its fields go away
``b:revoked``                       zset of revoked tokens by their end; pinned, pruned when read
``b:revocations``                   string: counts the changes of b:revoked; pinned
==================================  ============================================================

Session life: the log's age limit, counted from the last write or, while its agent is claimed, from
the last renewal; an open question pins it. Agent life: 30 days (or the log's age if longer) from
the last renewal.
"""

from __future__ import annotations

import re

from bridge.protocol.errors import InvalidParams

AGENT_SECONDS = 30 * 24 * 3600  # as long as a connector's token

_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_TENANT = re.compile(r"[a-z0-9-]{1,63}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_KEY = re.compile(
    r"b:\{[a-z0-9-]{1,63}\}:(?P<kind>open|closed|sessions|agents|changes|audit|seals|fence"
    r"|devices|guesses|push|tokens)"
    r"|b:\{[a-z0-9-]{1,63}\}:(?P<named>log|meta|chunks|asked|rt|claim|mail|mailed|done|presence|sessions|post|audited"
    r"|told"
    r"|device|pairing|buzzed|bound|family|bucket)"
    r":[A-Za-z0-9_.-]{1,64}"
    r"|b:\{[a-z0-9-]{1,63}\}:(?P<watch>watch):(changes|(log|mail|post):[A-Za-z0-9_.-]{1,64})"
    r"|b:(?P<node>inbox):[A-Za-z0-9_.-]{1,64}"
    r"|b:(?P<secret>link|cookie|ticket|proof|bucket):[0-9a-f]{64}"
    r"|b:(?P<global>revoked|revocations)"
    r"|b:(?P<probe>probe):[0-9]{1,5}",
    re.ASCII,
)
PINNABLE = frozenset(
    {"log", "meta", "chunks", "asked", "rt", "open", "sessions", "agents", "devices", "push"}
    | {"revoked", "revocations"}
)  # the kinds that may be without an end, for the reason in the table above


def check_id(id_: str, what: str) -> str:
    """Give the id back if it may be part of a key; raises InvalidParams."""
    if not isinstance(id_, str) or _ID.fullmatch(id_) is None:
        raise InvalidParams(f"invalid {what} {id_!r:.80}: 1 to 64 of A-Z a-z 0-9 _ . -")
    return id_


def check_tenant(tenant: str) -> str:
    """Give the tenant back if it may be part of a key; raises InvalidParams."""
    if not isinstance(tenant, str) or _TENANT.fullmatch(tenant) is None:
        raise InvalidParams(f"invalid tenant {tenant!r:.80}: 1 to 63 of a-z 0-9 -")
    return tenant


def kind_of(key: str) -> str | None:
    """Name the kind of a key, or None if it is none of ours."""
    match = _KEY.fullmatch(key)
    return None if match is None else next(kind for kind in match.groupdict().values() if kind)


# A session.


def log(tenant: str, session: str) -> str:
    """Name the stream of a session's entries."""
    return _named(tenant, "log", session, "session id")


def meta(tenant: str, session: str) -> str:
    """Name the hash with a session's owner, last cursor and card."""
    return _named(tenant, "meta", session, "session id")


def chunks(tenant: str, session: str) -> str:
    """Name the list by which a session's log is trimmed."""
    return _named(tenant, "chunks", session, "session id")


def asked(tenant: str, session: str) -> str:
    """Name the hash of a session's round-trips that are not closed."""
    return _named(tenant, "asked", session, "session id")


def presence(tenant: str, session: str) -> str:
    """Name the hash of who watches a session."""
    return _named(tenant, "presence", session, "session id")


def sessions(tenant: str) -> str:
    """Name the index of a tenant's sessions."""
    return f"b:{{{check_tenant(tenant)}}}:sessions"


def sessions_of(tenant: str, agent: str) -> str:
    """Name the index of one agent's sessions."""
    return _named(tenant, "sessions", agent, "agent id")


# Round-trips.


def round_trip(tenant: str, id_: str) -> str:
    """Name a round-trip's record."""
    return _named(tenant, "rt", id_, "round-trip id")


def open_round_trips(tenant: str) -> str:
    """Name the index of round-trips that are not closed."""
    return f"b:{{{check_tenant(tenant)}}}:open"


def closed_round_trips(tenant: str) -> str:
    """Name the index of round-trips closed lately."""
    return f"b:{{{check_tenant(tenant)}}}:closed"


def audit(tenant: str) -> str:
    """Name the stream of who did what."""
    return f"b:{{{check_tenant(tenant)}}}:audit"


def seals(tenant: str) -> str:
    """Name the stream of the audit's seals."""
    return f"b:{{{check_tenant(tenant)}}}:seals"


def audited(tenant: str, record_id: str) -> str:
    """Name the memory of an audit record that was written."""
    return _named(tenant, "audited", record_id, "record id")


def told(tenant: str, notice_id: str) -> str:
    """Name the memory of a notice that was written."""
    return _named(tenant, "told", notice_id, "notice id")


# Agents and their mail.


def claim(tenant: str, agent: str) -> str:
    """Name the hash that says who writes for an agent, and what the agent is."""
    return _named(tenant, "claim", agent, "agent id")


def agents(tenant: str) -> str:
    """Name the index of a tenant's agents."""
    return f"b:{{{check_tenant(tenant)}}}:agents"


def mail(tenant: str, agent: str) -> str:
    """Name the stream of messages on their way to an agent."""
    return _named(tenant, "mail", agent, "agent id")


def mailed(tenant: str, agent: str) -> str:
    """Name the memory of mail ids that were taken."""
    return _named(tenant, "mailed", agent, "agent id")


def done(tenant: str, mail_id: str) -> str:
    """Name what became of a mail."""
    return _named(tenant, "done", mail_id, "mail id")


# Devices.


def device(tenant: str, id_: str) -> str:
    """Name the hash of what is known of a device."""
    return _named(tenant, "device", id_, "device id")


def devices(tenant: str) -> str:
    """Name the index of a tenant's devices."""
    return f"b:{{{check_tenant(tenant)}}}:devices"


def pairing(tenant: str, code: str) -> str:
    """Name the hash of a pairing that waits for its device."""
    return _named(tenant, "pairing", code, "code")


def guesses(tenant: str) -> str:
    """Name the counter of wrong codes."""
    return f"b:{{{check_tenant(tenant)}}}:guesses"


# Notifications.


def push(tenant: str) -> str:
    """Name the hash of a tenant's push subscriptions."""
    return f"b:{{{check_tenant(tenant)}}}:push"


def buzzed(tenant: str, what: str) -> str:
    """Name the set of those who were notified of a question or a turn."""
    return _named(tenant, "buzzed", what, "id")


# Rules.


def rules(tenant: str) -> str:
    """Name the hash of a tenant's rules and their version."""
    return f"b:{{{check_tenant(tenant)}}}:rules"


# Tokens.

REVOKED = "b:revoked"
REVOCATIONS = "b:revocations"


def tokens(tenant: str) -> str:
    """Name the hash of a tenant's tokens in use."""
    return f"b:{{{check_tenant(tenant)}}}:tokens"


def family(tenant: str, token_id: str) -> str:
    """Name the newest number of a program's refresh tokens."""
    return _named(tenant, "family", token_id, "token id")


def bound(tenant: str, token_id: str) -> str:
    """Name the thumbprint of the key that a token is bound to."""
    return _named(tenant, "bound", token_id, "token id")


def proof(digest: str) -> str:
    """Name the memory of a proof that was used."""
    return _secret("proof", digest)


# Limits.


def bucket(tenant: str, what: str) -> str:
    """Name what somebody, or a whole tenant, may still ask for."""
    return _named(tenant, "bucket", what, "bucket")


def address_bucket(digest: str) -> str:
    """Name what an address may still ask for."""
    return _secret("bucket", digest)


# Wake-ups.


def changes(tenant: str) -> str:
    """Name the stream of a tenant's notices."""
    return f"b:{{{check_tenant(tenant)}}}:changes"


def watch(stream: str) -> str:
    """Name the hash of the nodes that watch a tenant's stream."""
    tagged, rest = stream.split("}:", 1)
    return f"{tagged}}}:watch:{rest}"


def post(tenant: str, node: str) -> str:
    """Name the stream of what other processes ask of a node for a tenant, and answer it."""
    return _named(tenant, "post", node, "node")


def inbox(node: str) -> str:
    """Name the stream of wake-ups of one relay process."""
    return f"b:inbox:{check_id(node, 'node')}"


# Of the store itself.


def fence(key: str) -> str:
    """Name what is written behind others of a tenant, so that replicas can be waited for."""
    return f"{key.partition('}:')[0]}}}:fence"


def probe(n: int) -> str:
    """Name what the check of a master writes."""
    return f"b:probe:{n}"


# Signing in. What is named is the SHA-256 of a secret, never the secret.


def link(digest: str) -> str:
    """Name a one-time sign-in link."""
    return _secret("link", digest)


def cookie(digest: str) -> str:
    """Name a browser's signed-in state."""
    return _secret("cookie", digest)


def ticket(digest: str) -> str:
    """Name a ticket for one websocket."""
    return _secret("ticket", digest)


def _named(tenant: str, kind: str, id_: str, what: str) -> str:
    return f"b:{{{check_tenant(tenant)}}}:{kind}:{check_id(id_, what)}"


def _secret(kind: str, digest: str) -> str:
    if _DIGEST.fullmatch(digest) is None:
        raise InvalidParams(f"a {kind} is named by the SHA-256 of its secret, in hex")
    return f"b:{kind}:{digest}"
