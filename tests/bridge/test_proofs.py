"""What a proof must say, and what it binds."""

import pytest
from fakes.prover import Prover
from hypothesis import given
from hypothesis import strategies as st

from agent_side.proof_key import ProofKey, http_address
from bridge import keys
from bridge.identity import Identity
from bridge.proofs import Proofs, read
from bridge.protocol.acp import Role
from bridge.protocol.errors import TokenInvalid

URL = "https://bridge.example.org/uplink"
TOKEN = "the.token.itself"


@pytest.fixture
def proofs(store):
    return Proofs(store)


@pytest.fixture
def machine():
    return Prover()


def who(token_id: str = "t-1") -> Identity:
    return Identity("agent", "acme", "box", Role.VIEWER, token_id, expires_at=4_000_000_000_000)


async def test_a_machine_that_proves_its_key_is_let_in_again_and_again(proofs, tmp_path):
    key = ProofKey(tmp_path)
    thumbprints = {
        await proofs.check(who(), TOKEN, key.prove("wss://bridge.example.org/uplink", TOKEN), [URL])
        for _ in range(3)
    }
    assert len(thumbprints) == 1
    again = ProofKey(tmp_path)  # the same file
    assert await proofs.check(who(), TOKEN, again.prove(URL, TOKEN), [URL]) in thumbprints
    assert (tmp_path / "proof-key.pem").stat().st_mode & 0o777 == 0o600


async def test_a_token_that_nobody_bound_needs_no_proof(proofs):
    assert await proofs.check(who(), TOKEN, None, [URL]) == ""


async def test_another_token_of_the_machine_is_bound_for_itself(proofs, machine):
    await proofs.check(who("t-1"), TOKEN, machine.prove(URL, TOKEN), [URL])
    assert await proofs.check(who("t-2"), TOKEN, None, [URL]) == ""


async def test_a_binding_lives_as_long_as_its_token(proofs, machine, store):
    await proofs.check(who(), TOKEN, machine.prove(URL, TOKEN), [URL])
    assert await store.commands.ttl(keys.bound("acme", "t-1")) > 10**8


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"htm": "POST"}, "not for this"),
        ({"htu": "http://bridge.example.org/uplink"}, "not for this"),
        ({"htu": f"{URL}/"}, "not for this"),
        ({"iat": 1}, "another time"),
        ({"iat": 4_000_000_000}, "another time"),
        ({"ath": "x"}, "another token"),
        ({"jti": ""}, "jti"),
        ({"jti": "x" * 1000}, "jti"),
        ({"jti": None}, "malformed"),
        ({"head": {"typ": "jwt"}}, "none of ES256"),
        ({"head": {"alg": "none"}}, "none of ES256"),
        ({"head": {"jku": "https://evil"}}, "malformed"),
        ({"head": {"jwk": {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}}}, "none of ES256"),
    ],
)
async def test_a_proof_that_says_something_else_is_refused(proofs, machine, claims, says):
    with pytest.raises(TokenInvalid, match=says):
        await proofs.check(who(), TOKEN, machine.prove(URL, TOKEN, **claims), [URL])


async def test_a_proof_with_another_signature_is_refused(proofs, machine):
    one, two = machine.prove(URL, TOKEN), Prover().prove(URL, TOKEN)
    mixed = f"{one.rpartition('.')[0]}.{two.rpartition('.')[2]}"
    with pytest.raises(TokenInvalid, match="not signed by its key"):
        await proofs.check(who(), TOKEN, mixed, [URL])


@given(text=st.text(max_size=300) | st.binary(max_size=300).map(lambda b: b.decode("latin-1")))
def test_whatever_comes_as_a_proof_is_refused_in_a_sentence(text):
    with pytest.raises(TokenInvalid, match="invalid proof"):
        read(text)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("wss://Bridge.example.org/uplink", "https://bridge.example.org/uplink"),
        ("wss://bridge.example.org:443/uplink", "https://bridge.example.org/uplink"),
        ("ws://127.0.0.1:8787/uplink", "http://127.0.0.1:8787/uplink"),
        ("ws://[::1]:80/uplink", "http://[::1]/uplink"),
    ],
)
def test_an_address_is_named_as_the_handshake_names_it(url, address):
    assert http_address(url) == address
