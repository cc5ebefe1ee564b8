"""Tokens: what is issued is taken, and nothing else is."""

import base64
import hashlib
import hmac
import json
import socket

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams, TokenInvalid
from bridge.tokens import LEEWAY_SECONDS, SIZE_LIMIT, Tokens

NOW = 1_796_078_096


def b64(value) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def tokens(folder):
    return Tokens(folder, clock=lambda: NOW)


@pytest.fixture(scope="module")
def good(tokens):
    return tokens.issue("person", "alice", "acme", Role.APPROVER)


def sign(tokens, claims, header=None) -> str:
    """A token with any claims and header, signed with the relay's own key."""
    _, key = tokens._keys.newest
    head = {"alg": "EdDSA", "typ": "access+jwt", "kid": "1", **(header or {})}
    signed = f"{b64(head)}.{b64(claims)}"
    return f"{signed}.{b64(key.sign(signed.encode()))}"


def claims(**changed):
    found = {
        "iss": "chimera-bridge",
        "aud": "chimera-relay",
        "sub": "alice",
        "tenant": "acme",
        "role": "viewer",
        "jti": "j",
        "iat": NOW,
        "exp": NOW + 900,
    }
    found.update(changed)
    return {name: value for name, value in found.items() if value is not ...}


def refusal(tokens, token, kind="person") -> str:
    with pytest.raises(TokenInvalid) as caught:
        tokens.verify(token, kind)
    return caught.value.message


# What is issued.


def test_an_issued_token_says_who_it_speaks_for(tokens, good):
    identity = tokens.verify(good, "person", door="acp")
    assert (identity.subject, identity.tenant, identity.role) == ("alice", "acme", Role.APPROVER)
    assert (identity.kind, identity.door, identity.expires_at) == (
        "person",
        "acp",
        (NOW + 900) * 1000,
    )


def test_an_agent_token_lives_thirty_days_and_does_not_open_a_persons_door(tokens):
    token = tokens.issue("agent", "build-03", "acme", Role.VIEWER)
    assert tokens.verify(token, "agent").expires_at == (NOW + 30 * 86_400) * 1000
    assert refusal(tokens, token) == "invalid token: this door wants a token for a person"


@pytest.mark.parametrize(
    ("tenant", "subject", "ttl"),
    [
        ("Acme", "alice", 60),
        ("a{b}", "alice", 60),
        ("", "alice", 60),
        ("acme", "", 60),
        ("acme", "a\nb", 60),
        ("acme", "a" * 129, 60),
        ("acme", "alice", 0),
        ("acme", "alice", 500 * 86_400),
    ],
)
def test_what_cannot_be_in_a_token_is_not_issued(tokens, tenant, subject, ttl):
    with pytest.raises(InvalidParams):
        tokens.issue("person", subject, tenant, Role.VIEWER, ttl)


@given(
    subject=st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), min_size=1, max_size=128),
    role=st.sampled_from(Role),
    ttl=st.integers(1, 400 * 86_400),
)
@settings(max_examples=50, deadline=None)
def test_whatever_is_issued_is_taken_as_it_was_meant(tokens, subject, role, ttl):
    identity = tokens.verify(tokens.issue("person", subject, "acme", role, ttl), "person")
    assert (identity.subject, identity.role) == (subject, role)
    assert identity.expires_at == (NOW + ttl) * 1000


# What is refused although it is signed with our key: the message says why.


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"exp": NOW - 300}, "expired 5 minutes ago"),
        ({"exp": NOW - 7200, "iat": NOW - 9000}, "expired 2 hours ago"),
        ({"aud": "other-relay"}, "for another audience, 'other-relay'"),
        ({"iss": "somebody"}, "issued by 'somebody'"),
        ({"iat": NOW + 600, "exp": NOW + 900}, "issued in the future"),
        ({"exp": NOW + 500 * 86_400}, "exp and iat are no lifetime"),
        ({"iat": NOW + 30, "exp": NOW + 20}, "exp and iat are no lifetime"),
        ({"role": "root"}, "unknown role 'root'"),
        ({"tenant": "a{c}me"}, "invalid tenant"),
        ({"sub": "a\u2028b"}, "invalid subject"),
        ({"jti": ""}, "jti is empty"),
        ({"exp": ...}, "`exp`"),
        ({"iat": ...}, "`iat`"),
        ({"jti": ...}, "`jti`"),
        ({"aud": ...}, "`aud`"),
        ({"tenant": ...}, "`tenant`"),
        ({"role": ...}, "`role`"),
        ({"aud": ["chimera-relay"]}, "$.aud"),
        ({"exp": str(NOW + 900)}, "$.exp"),
        ({"exp": NOW + 900.5}, "$.exp"),
        ({"exp": True}, "$.exp"),
        ({"exp": 10**400}, "invalid token"),
        ({"exp": None}, "$.exp"),
    ],
    ids=str,
)
def test_a_signed_token_with_a_wrong_claim_is_refused_and_the_claim_is_named(tokens, changed, says):
    message = refusal(tokens, sign(tokens, claims(**changed)))
    assert message.startswith("invalid token")
    assert says in message


@pytest.mark.attack("E03", "a clock that is a minute off")
def test_a_minute_of_clock_difference_is_forgiven(tokens):
    token = sign(tokens, claims(exp=NOW - 59, iat=NOW - 900))
    assert tokens.verify(token, "person").subject == "alice"


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "agent+jwt", "Access+JWT"])
def test_a_token_of_another_type_is_refused(tokens, typ):
    assert "wants a token for a person" in refusal(tokens, sign(tokens, claims(), {"typ": typ}))


# Forgeries: all get the same words.


def forgeries(tokens, good):
    header, payload, signature = good.split(".")
    pem = tokens.public_keys()["1"].public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    der = tokens.public_keys()["1"].public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ssh = tokens.public_keys()["1"].public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    raw = tokens.public_keys()["1"].public_bytes(Encoding.Raw, PublicFormat.Raw)
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
    base = {"typ": "access+jwt", "kid": "1"}
    for spelling in ("none", "None", "NONE", "nOnE"):
        for tail in ("", signature):
            yield (
                f"alg {spelling} {bool(tail)}",
                f"{b64({'alg': spelling, **base})}.{payload}.{tail}",
            )
    yield "empty signature", f"{header}.{payload}."
    for name, secret in (
        ("pem", pem),
        ("der", der),
        ("ssh", ssh),
        ("raw", raw),
        ("jwk", json.dumps(jwk).encode()),
    ):
        signed = f"{b64({'alg': 'HS256', **base})}.{payload}"
        mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        yield f"HS256 with {name}", f"{signed}.{b64(mac)}"
    kids = (
        "../../dev/null",
        "1' OR '1'='1",
        "1\x00",
        "x" * 65_536,
        "",
        "2",
        "01",
        "/proc/self/environ",
    )
    for kid in kids:
        yield (
            f"kid {kid[:20]!r}",
            f"{b64({'alg': 'EdDSA', **base, 'kid': kid})}.{payload}.{signature}",
        )
    for wrong in (1, None, ["1"], {"a": 1}):
        yield f"kid {wrong}", f"{b64({'alg': 'EdDSA', **base, 'kid': wrong})}.{payload}.{signature}"
    mine = Ed25519PrivateKey.generate()
    own = {"kty": "OKP", "crv": "Ed25519", "x": b64(mine.public_key().public_bytes_raw())}
    for extra in (
        {},
        {"jwk": own},
        {"crit": ["exp"]},
        {"b64": False},
        {"x5c": ["MII"]},
        {"zip": "DEF"},
    ):
        signed = f"{b64({'alg': 'EdDSA', **base, **extra})}.{b64(claims(role='admin'))}"
        yield f"own key {list(extra)}", f"{signed}.{b64(mine.sign(signed.encode()))}"
    flipped = b64(claims(role="admin"))
    yield "other claims", f"{header}.{flipped}.{signature}"
    yield "deep header", f"{b64(b'[' * 3000)}.{payload}.{signature}"
    yield "long", f"{header}.{'A' * SIZE_LIMIT}.{signature}"
    yield "very long", "A" * (1 << 20)
    yield "deep", f"{header}.{b64(b'[' * 100_000)}.{signature}"
    for name, text in (
        ("none", ""),
        ("dots", ".."),
        ("words", "not a token"),
        ("five", "a.b.c.d.e"),
        ("umlaut", good + "ü"),
    ):
        yield name, text
    yield "more", f"{good}.{signature}"
    yield "padded", f"{good}="
    yield "no header", f".{payload}.{signature}"


@pytest.mark.attack("S01", "alg none in four spellings, and an empty signature")
@pytest.mark.attack("S02", "HS256 with our public key as PEM, DER, OpenSSH, raw and JWK")
@pytest.mark.attack("S03", "kid as a path, SQL, 64 KiB, NUL and unknown ones")
@pytest.mark.attack("S06", "a token of a megabyte, and one nested 100,000 deep")
def test_every_forgery_gets_the_same_words(tokens, good, figure):
    tried = 0
    for name, forged in forgeries(tokens, good):
        assert refusal(tokens, forged) == "invalid token", name
        tried += 1
    figure(f"S01 S02 S03 S06: accepted 0 of {tried}")


@pytest.mark.attack("S04", "jku, x5u and jwk in a token's header")
def test_addresses_of_keys_in_the_header_are_never_asked(tokens, good):
    _, payload, signature = good.split(".")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/keys"
        for name in ("jku", "x5u"):
            head = b64({"alg": "EdDSA", "typ": "access+jwt", "kid": "1", name: url})
            assert refusal(tokens, f"{head}.{payload}.{signature}") == "invalid token"
        with pytest.raises(TimeoutError):
            listener.accept()


# Keys.


def test_a_token_of_another_relay_is_a_forgery(tokens, tmp_path):
    foreign = Tokens(tmp_path, clock=lambda: NOW).issue("person", "alice", "acme", Role.ADMIN)
    assert refusal(tokens, foreign) == "invalid token"


# What comes again.


def test_a_token_that_comes_again_is_taken_until_it_ends(folder):
    now = [float(NOW)]
    tokens = Tokens(folder, clock=lambda: now[0])
    token = tokens.issue("person", "alice", "acme", Role.VIEWER, 900)
    assert [tokens.verify(token, "person").subject for _ in range(2)] == ["alice", "alice"]
    now[0] += 900 + LEEWAY_SECONDS
    assert refusal(tokens, token).startswith("invalid token: expired")


def test_a_token_that_was_taken_ends_with_its_key(tmp_path):
    tokens = Tokens(tmp_path)
    token = tokens.issue("person", "alice", "acme", Role.VIEWER)
    assert tokens.verify(token, "person").subject == "alice"
    tokens._keys.rotate()
    tokens._keys.retire("1")
    assert refusal(tokens, token) == "invalid token"


def test_a_token_changed_after_it_was_taken_is_a_forgery(tokens, good):
    assert tokens.verify(good, "person").subject == "alice"
    head, body, signature = good.split(".")
    changed = sign(tokens, claims(role="admin")).split(".")[1]
    assert refusal(tokens, f"{head}.{changed}.{signature}") == "invalid token"
    assert tokens.verify(f"{head}.{body}.{signature}", "person").role is Role.APPROVER


def test_only_so_many_tokens_are_remembered(folder, monkeypatch):
    monkeypatch.setattr("bridge.tokens.REMEMBERED", 3)
    tokens = Tokens(folder)
    for number in range(5):
        token = tokens.issue("person", f"p{number}", "acme", Role.VIEWER)
        assert tokens.verify(token, "person").subject == f"p{number}"
    assert len(tokens._signed) == 3
