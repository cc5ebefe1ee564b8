"""Whatever is sent to the relay: the right code for the sender, and nothing for the others."""

import base64
import json
import time
from pathlib import Path

import jwt
import pytest
from e2e.asking import chosen, is_changed
from fakes.editor import CallFailed
from fakes.peers import Refused
from fakes.running import asks
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from bridge.protocol.acp import Role
from bridge.signing_keys import SigningKeys
from bridge.tokens import AUDIENCE, ISSUER, Tokens

PARSE, REQUEST, METHOD, PARAMS, NOT_FOUND = -32700, -32600, -32601, -32602, -32002
DEEP = b"[" * 10_000 + b"]" * 10_000
LIST = b'{"jsonrpc":"2.0","id":%s,"method":"session/list","params":%s}'
LINES = {
    "broken JSON": (b'{"jsonrpc":"2.0","id":1,', PARSE),
    "NaN": (LIST % (b"77", b'{"cwd":NaN}'), PARSE),
    "a lone surrogate": (LIST % (b"77", rb'{"cwd":"\ud800"}'), PARSE),
    "a key twice in the envelope": (b'{"id":1,"id":2,"jsonrpc":"2.0","method":"a"}', REQUEST),
    "a key twice in params": (LIST % (b"77", b'{"cwd":"/","cwd":"/a"}'), REQUEST),
    "nested ten thousand deep": (LIST % (b"77", b'{"cwd":' + DEEP + b"}"), PARSE),
    "a float as id": (LIST % (b"1.5", b"{}"), REQUEST),
    "an id of 10 kB": (LIST % (b'"' + b"i" * 10_000 + b'"', b"{}"), REQUEST),
    "an object as id": (LIST % (b"{}", b"{}"), REQUEST),
    "a list": (b"[]", REQUEST),
    "params that are a list": (LIST % (b"77", b"[]"), REQUEST),
}


@pytest.fixture(scope="module")
async def bystander(shared_site):
    """Somebody who must not notice anything."""
    async with await shared_site.dashboard("bystander", role="viewer") as person:
        yield person
        assert "sessions" in await person.call("session/list")
        assert person.got == []


@pytest.fixture
async def person(shared_site, bystander):
    async with await shared_site.dashboard() as person:
        yield person


async def error_of(person, line):
    """Send a line and give the error that answers it; the connection goes on."""
    person.raw(line)
    await person.call("session/list")
    return person.unasked_answers.pop()["error"]


@pytest.mark.parametrize(("line", "code"), LINES.values(), ids=LINES.keys())
async def test_what_is_no_request_is_answered_with_its_code(person, line, code):
    error = await error_of(person, line)
    assert error["code"] == code
    assert error["message"]


@pytest.mark.parametrize(
    "first",
    [b"{", LIST % (b"77", b"{}"), b'{"jsonrpc":"2.0","method":"initialize","params":{}}', b"[]"],
    ids=["broken JSON", "another request", "a notification", "a list"],
)
@pytest.mark.parametrize("kind", ["person", "agent"])
async def test_a_first_frame_that_is_no_greeting_ends_the_connection(
    shared_site, bystander, kind, first
):
    socket = await opened(shared_site, kind)
    await socket.send(first, text=True)
    await socket.wait_closed()
    assert socket.close_code == 1002
    assert socket.close_reason


@pytest.mark.parametrize(("kind", "limit"), [("person", 8 << 20), ("agent", 16 << 20)])
async def test_a_frame_over_the_limit_ends_the_connection(shared_site, bystander, kind, limit):
    socket = await opened(shared_site, kind)
    await socket.send(b" " * (limit + 1), text=True)
    await socket.wait_closed()
    assert socket.close_code == 1009


def forged(keys: Path, kind: str, how: str) -> str:
    """Make a token that must not be taken."""
    role = Role.ADMIN
    if how == "expired":
        return Tokens(keys, clock=lambda: time.time() - 7200).issue(kind, "eve", "default", role, 9)
    if how == "of another key":
        return Tokens(keys.parent / "other-keys").issue(kind, "eve", "default", role)
    tokens = Tokens(keys)
    header, payload, signature = tokens.issue(kind, "eve", "default", role).split(".")
    if how == "alg none":
        none = {"alg": "none", "typ": "access+jwt", "kid": "1"}
        return f"{packed(none)}.{payload}."
    if how == "changed":
        claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
        return f"{header}.{packed({**claims, 'tenant': 'acme'})}.{signature}"
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    wrong = {"for another audience": {"aud": f"{AUDIENCE}-2"}, "of nobody": {"iss": f"{ISSUER}2"}}
    changed = json.dumps({**claims, **wrong[how]}).encode()
    read = json.loads(base64.urlsafe_b64decode(header + "=="))
    _, key = SigningKeys(keys).newest
    return jwt.PyJWS(algorithms=["EdDSA"]).encode(changed, key, "EdDSA", read)


@pytest.mark.attack("S01", "tokens that are none, at every door")
@pytest.mark.parametrize(
    "how",
    ["expired", "for another audience", "of nobody", "of another key", "alg none", "changed"],
)
@pytest.mark.parametrize("kind", ["person", "agent"])
async def test_a_bad_token_is_refused_before_the_upgrade(shared_site, bystander, kind, how):
    token = forged(Path(shared_site.env["BRIDGE_STATE_DIR"]) / "keys", kind, how)
    with pytest.raises(InvalidStatus) as refused:
        await opened(shared_site, kind, token)
    assert refused.value.response.status_code == 401
    assert token not in refused.value.response.body.decode()


@pytest.mark.attack("E04", "a token of the other kind, at each door")
@pytest.mark.parametrize(("kind", "door"), [("person", "agent"), ("agent", "person")])
async def test_a_token_of_the_other_kind_opens_nothing(shared_site, kind, door):
    token = await shared_site.token(kind, "eve")
    with pytest.raises(InvalidStatus) as refused:
        await opened(shared_site, door, token)
    assert refused.value.response.status_code in {401, 403}


@pytest.mark.attack("S07", "the log after a token in the address")
async def test_a_token_in_the_address_is_refused_and_not_logged(shared_site):
    token = await shared_site.token()
    with pytest.raises(InvalidStatus) as refused:
        await connect(f"{shared_site.acp}?token={token}")
    assert refused.value.response.status_code == 400
    assert not [line for line in shared_site.relay.lines if token in line]


async def test_unknown_methods_sessions_options_and_late_answers_have_their_codes(stage):
    at = await stage(turns=[[asks()]])
    alice, session = await at.opened()
    page = await at.enter("bob", decide=True)
    await page.call("_bridge/watch")
    turn = alice.prompt(session, "go")
    asked = await alice.question()
    (record,) = await page.round_trips(session=session)
    for method, params, code in (
        ("_bridge/what", {}, METHOD),
        ("session/load", {"sessionId": "s-no", "cwd": "/", "mcpServers": []}, NOT_FOUND),
        ("session/load", {"sessionId": "a b:*", "cwd": "/", "mcpServers": []}, PARAMS),
        ("_bridge/decide", {"id": "rt-no", "hash": "", "answer": {}, "decisionId": "d"}, NOT_FOUND),
    ):
        with pytest.raises(CallFailed) as refused:
            await page.call(method, **params)
        assert refused.value.error["code"] == code
    no_option = await page.decide(record["id"], {"optionId": "maybe"}, "d-1")
    assert (no_option["state"], no_option["reason"]) == ("refused", "unknown_option")
    alice.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": 1, "message": "no"}})
    assert (await page.decide(record["id"], {"optionId": "yes"}, "d-2"))["state"] == "recorded"
    second = await page.decide(record["id"], {"optionId": "no"}, "d-3")
    assert second["state"] in {"late", "closed"}
    await page.until(is_changed("roundTrip", id=record["id"], state="closed"))
    after = await page.decide(record["id"], {"optionId": "no"}, "d-4")
    assert (after["state"], after["by"]["subject"]) == ("late", "bob")
    await alice.answer(turn)
    assert chosen(at.agent) == {0: "yes"}


async def test_a_connector_cannot_write_a_session_of_another(shared_site, stage):
    at = await stage(turns=[[{"chunks": 1, "text": "mine"}]])
    alice, session = await at.opened()
    async with await shared_site.uplink("thief") as thief:
        with pytest.raises(Refused) as refused:
            await thief.hello(session)
    assert refused.value.code == NOT_FOUND
    await alice.answer(alice.prompt(session, "go"))
    assert alice.seqs(session)[-1] == 4


async def opened(site, kind, token=None):
    """Open a connection as a person's client or as a connector."""
    path = {"person": "/acp", "agent": "/uplink"}[kind]
    token = token or await site.token(kind, "eve")
    return await connect(
        site.url.replace("http", "ws", 1) + path,
        subprotocols=["chimera.uplink.v1"] if kind == "agent" else None,
        additional_headers={"Authorization": f"Bearer {token}"},
        compression=None,
        max_size=None,
        proxy=None,
    )


def packed(value) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
