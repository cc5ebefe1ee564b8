"""Who a connection speaks for: tokens, tickets, cookies, and the pages that may use one."""

import asyncio

import pytest
from starlette.requests import HTTPConnection

from bridge.identity import OPENING_SECONDS, Identities, identify
from bridge.origins import Origins
from bridge.protocol.acp import Role
from bridge.protocol.errors import AuthRequired, InvalidRequest, NotAllowed, TokenInvalid
from bridge.relay import open_relay
from bridge.settings import Settings

HOST = "127.0.0.1:8787"


@pytest.fixture(scope="module")
async def relay(redis_server, tmp_path_factory):
    """A relay process without its socket."""
    folder = tmp_path_factory.mktemp("relay")
    public = "https://relay.example"
    settings = Settings(redis_url=redis_server, state_dir=folder, public_url=public)
    async with open_relay(settings) as opened:
        yield opened


def issue(relay, role=Role.ADMIN, *, kind="person", subject="alice"):
    return relay.tokens.issue(kind, subject, "acme", role)


def websocket(*headers, query="", subprotocols=(), scheme="ws", host=HOST):
    return connection("websocket", headers, query, scheme, host, subprotocols=list(subprotocols))


def http(*headers, method="GET", query="", scheme="http", host=HOST):
    return connection("http", headers, query, scheme, host, method=method)


def connection(kind, headers, query, scheme, host, **more):
    named = [("host", host), *headers]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in named]
    scope = {"type": kind, "scheme": scheme, "path": "/acp", "headers": encoded}
    return HTTPConnection({**scope, "query_string": query.encode(), **more})


async def cookie(relay, role=Role.OPERATOR):
    link = await relay.logins.make_link(tenant="acme", subject="alice", role=role)
    secret, _ = await relay.logins.sign_in(link, "Mac")
    return secret


# Tokens.


async def test_a_token_in_the_header_names_its_subject(relay):
    token = issue(relay, Role.APPROVER)
    identity, subprotocol = await identify(
        relay, websocket(("authorization", f"Bearer {token}")), kind="person"
    )
    assert (identity.subject, identity.role, identity.door) == ("alice", Role.APPROVER, "acp")
    assert subprotocol is None
    identity, _ = await identify(relay, http(("authorization", f"bearer {token}")), kind="person")
    assert identity.door == "rest"


async def test_a_token_may_come_as_a_subprotocol_and_only_the_other_one_is_answered(relay):
    offered = ("acp.v1", f"bearer.{issue(relay)}")
    identity, subprotocol = await identify(relay, websocket(subprotocols=offered), kind="person")
    assert (identity.subject, subprotocol) == ("alice", "acp.v1")
    agent = f"bearer.{issue(relay, kind='agent', subject='build-03')}"
    identity, subprotocol = await identify(
        relay, websocket(subprotocols=("chimera.uplink.v1", agent)), kind="agent"
    )
    assert (identity.subject, identity.door) == ("build-03", "uplink")
    assert subprotocol == "chimera.uplink.v1"


async def test_a_persons_token_opens_no_agents_door(relay):
    with pytest.raises(TokenInvalid, match="wants a token for an agent"):
        await identify(relay, websocket(("authorization", f"Bearer {issue(relay)}")), kind="agent")


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a b", "Token x", "Bearer \xff"]
)
async def test_a_header_without_a_token_is_refused(relay, header):
    with pytest.raises(TokenInvalid):
        await identify(relay, http(("authorization", header)), kind="person")


async def test_two_tokens_are_refused_rather_than_one_chosen(relay):
    one = ("authorization", f"Bearer {issue(relay)}")
    for both in (
        websocket(one, one),
        websocket(one, subprotocols=[f"bearer.{issue(relay)}"]),
        websocket(subprotocols=["bearer.a", "bearer.b"]),
    ):
        with pytest.raises(InvalidRequest, match="more than one token"):
            await identify(relay, both, kind="person")


@pytest.mark.attack("S07", "a good token in the address")
@pytest.mark.parametrize(
    "query",
    [
        "token={}",
        "access_token={}",
        "%74oken={}",
        "x=1&bearer={}",
        "anything={}",
        "{}",
        "ticket={}",
    ],
)
async def test_a_token_in_the_address_is_refused_even_if_it_is_good(relay, query):
    token = issue(relay)
    good = ("authorization", f"Bearer {token}")
    for asked in (websocket(good, query=query.format(token)), http(query=query.format(token))):
        with pytest.raises(InvalidRequest, match="must not be in the address"):
            await identify(relay, asked, kind="person")


async def test_without_anything_the_way_in_is_named(relay):
    with pytest.raises(AuthRequired, match="chimera-relay link"):
        await identify(relay, http(), kind="person")
    with pytest.raises(AuthRequired, match="chimera-relay token --kind agent"):
        await identify(relay, websocket(), kind="agent")


# Cookies and the pages that may use them.


async def test_the_page_opens_its_websocket_with_its_cookie(relay):
    secret = await cookie(relay)
    for scheme, host, origin, name in (
        ("ws", HOST, f"http://{HOST}", "bridge_local"),
        ("ws", "localhost:8787", "http://localhost:8787", "bridge_local"),
        ("ws", "[::1]:8787", "http://[::1]:8787", "bridge_local"),
        ("wss", HOST, f"https://{HOST}", "__Host-bridge"),
        ("ws", "relay.example", "https://relay.example", "__Host-bridge"),
    ):
        asked = websocket(
            ("cookie", f"{name}={secret}"), ("origin", origin), scheme=scheme, host=host
        )
        identity, _ = await identify(relay, asked, kind="person")
        assert (identity.subject, identity.door, identity.device) == ("alice", "page", "Mac")


FOREIGN = [
    None,
    "",
    "null",
    "https://evil.example",
    "http://relay.example",
    "https://relay.example:8443",
    "https://relay.example.evil",
    "https://relay.example.",
    "https://evil/relay.example",
    "https://relay.example/",
    "https://relay.example@evil.example",
    "https://evil.example#https://relay.example",
    "https://xrelay.example",
    "https://sub.relay.example",
    "https://RELAY.EXAMPLE",
    f"https://{HOST}",
    "http://127.0.0.1",
    "http://127.0.0.1:9999",
    "http://localhost:8787",
    f"http://{HOST}.evil.example",
    f"http://{HOST}/",
    "http://127.1:8787",
    "file://",
    "ws://relay.example",
    "https://relay.example, https://relay.example",
]


@pytest.mark.attack("S14", "a cookie with a foreign origin, or none")
@pytest.mark.parametrize("origin", FOREIGN, ids=repr)
async def test_a_cookie_with_a_foreign_origin_is_refused(relay, origin):
    secret = await cookie(relay)
    for name in ("__Host-bridge", "bridge_local"):
        headers = [("cookie", f"{name}={secret}")]
        headers += [] if origin is None else [("origin", origin)]
        for asked in (websocket(*headers), http(*headers, method="POST")):
            with pytest.raises(NotAllowed, match="BRIDGE_PUBLIC_URL"):
                await identify(relay, asked, kind="person")


async def test_a_foreign_name_that_points_at_loopback_is_refused(relay):
    secret = await cookie(relay)
    for host in ("evil.example:8787", "127.0.0.1.evil.example", "x/abc?bar=", "a@127.0.0.1:8787"):
        asked = websocket(
            ("cookie", f"bridge_local={secret}"), ("origin", f"http://{host}"), host=host
        )
        with pytest.raises((NotAllowed, AuthRequired)):
            await identify(relay, asked, kind="person")


async def test_two_origins_are_refused(relay):
    secret = await cookie(relay)
    own = ("origin", f"http://{HOST}")
    with pytest.raises(NotAllowed):
        await identify(
            relay, websocket(("cookie", f"bridge_local={secret}"), own, own), kind="person"
        )


async def test_reading_needs_no_origin_but_never_serves_another_site(relay):
    local = ("cookie", f"bridge_local={await cookie(relay)}")
    for headers in ((), (("sec-fetch-site", "same-origin"),), (("sec-fetch-site", "none"),)):
        identity, _ = await identify(relay, http(local, *headers), kind="person")
        assert identity.subject == "alice"
    for site in ("cross-site", "same-site"):
        with pytest.raises(NotAllowed):
            await identify(relay, http(local, ("sec-fetch-site", site)), kind="person")


async def test_a_cookie_of_plain_http_counts_on_loopback_alone(relay):
    local = ("cookie", f"bridge_local={await cookie(relay)}")
    with pytest.raises(AuthRequired):
        await identify(relay, http(local, host="192.168.1.5:8787"), kind="person")


def test_further_origins_may_be_allowed():
    origins = Origins(Settings(allowed_origins=("https://page.example",)))
    assert origins.accepts(websocket(("origin", "https://page.example")))
    assert not origins.accepts(websocket(("origin", "https://page.example:444")))


# Tickets.


async def test_a_ticket_opens_one_websocket(relay):
    secret = await cookie(relay)
    identity = await relay.logins.find(secret)
    ticket = await relay.logins.make_ticket(identity, "https://relay.example")
    asked = websocket(("origin", "https://relay.example"), query=f"ticket={ticket}")
    found, _ = await identify(relay, asked, kind="person")
    assert found == identity
    with pytest.raises(NotAllowed, match="used already"):
        await identify(relay, asked, kind="person")


# Roles and ends.


async def test_a_lesser_role_is_refused_with_both_names(relay):
    identity = relay.tokens.verify(issue(relay, Role.VIEWER), "person")
    identity.require(Role.VIEWER)
    with pytest.raises(NotAllowed, match="needs the role approver, alice is viewer in acme"):
        identity.require(Role.APPROVER)


def test_ending_a_login_ends_its_connections_and_no_others():
    identities, ended = Identities(), []
    identities.watch("a", lambda: ended.append("a1"))
    stop = identities.watch("a", lambda: ended.append("a2"))
    identities.watch("b", lambda: ended.append("b1"))
    stop()
    assert identities.closed("a") == 1
    assert identities.closed("a") == 0
    assert ended == ["a1"]


async def test_what_ended_while_a_connection_was_being_opened_ends_that_too():
    now, ended = [0.0], []
    identities = Identities(lambda: now[0])
    identities.closed("a")
    stop = identities.watch("a", lambda: ended.append("late"))
    identities.watch("b", lambda: ended.append("other"))
    assert ended == []  # whoever watches is not half made when it is called
    await asyncio.sleep(0)
    assert ended == ["late"]
    stop()


async def test_what_ended_long_ago_is_not_remembered():
    now = [0.0]
    identities = Identities(lambda: now[0])
    identities.closed("a")
    now[0] = OPENING_SECONDS + 1
    identities.closed("b")
    identities.watch("a", lambda: pytest.fail("nothing was remembered of it"))
    await asyncio.sleep(0)
