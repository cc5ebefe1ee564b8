"""What a device signs is taken as it was signed, or not at all (S, A33)."""

import base64
import json

import pytest
from fakes.device import FakeDevice, now_ms, text64
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol import signing
from bridge.protocol.errors import SignatureRefused
from bridge.protocol.signing import DecisionClaims, MailClaims

PHONE, OTHER = FakeDevice(), FakeDevice("tablet")
HEADER = {"alg": "ES256", "typ": "decision+jwt"}
CLAIMS = {
    "id": "rt-1",
    "sessionId": "s-1",
    "epoch": 1_796_078_096_123,
    "hash": "9c" * 32,
    "answer": {"optionId": "allow"},
    "decisionId": "d-1",
    "device": PHONE.id,
    "iat": 1_000,
    "exp": 2_000,
}
SIGNED = PHONE.jws(HEADER, CLAIMS)

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def refused(jws, key=PHONE.key, type_=DecisionClaims):
    with pytest.raises(SignatureRefused):
        signing.verify(jws, key, type_)


def test_what_was_signed_is_given():
    claims = signing.verify(SIGNED, PHONE.key, DecisionClaims)
    assert (claims.id, claims.answer, claims.device) == ("rt-1", {"optionId": "allow"}, PHONE.id)
    assert signing.claimed_by(SIGNED) == PHONE.id


def test_another_key_is_refused():
    refused(SIGNED, OTHER.key)


def test_a_device_that_signs_in_the_name_of_another_is_refused():
    refused(OTHER.jws(HEADER, CLAIMS), OTHER.key)


def test_a_decision_is_no_mail():
    refused(SIGNED, type_=MailClaims)


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none", "typ": "decision+jwt"},
        {"alg": "HS256", "typ": "decision+jwt"},
        {"alg": "ES256K", "typ": "decision+jwt"},
        {"alg": "ES256", "typ": "mail+jwt"},
        {"alg": "ES256", "typ": "JWT"},
        {"alg": "ES256"},
        {**HEADER, "kid": "1"},
        {**HEADER, "jwk": {"kty": "EC"}},
        {**HEADER, "jku": "https://evil.example/keys"},
        {**HEADER, "x5u": "https://evil.example/keys"},
        {**HEADER, "crit": ["exp"]},
        {**HEADER, "b64": False},
        {**HEADER, "zip": "DEF"},
        b'{"alg":"none","alg":"ES256","typ":"decision+jwt"}',
        b"[]",
        b"",
        b"\xff",
        b"[" * 5000,
    ],
    ids=lambda header: str(header)[:60],
)
def test_a_header_that_says_anything_else_is_refused(header):
    """A33: alg none, algorithm confusion, keys in the header."""
    refused(PHONE.jws(header, CLAIMS))


@pytest.mark.parametrize(
    "claims",
    [
        {**CLAIMS, "admin": True},
        {**CLAIMS, "epoch": "1"},
        {**CLAIMS, "epoch": 1.5},
        {**CLAIMS, "answer": "allow"},
        {name: value for name, value in CLAIMS.items() if name != "exp"},
        json.dumps(CLAIMS).encode()[:-1] + b',"id":"rt-2"}',
        json.dumps(CLAIMS).encode().replace(b'"allow"', b'"no","optionId":"allow"'),
        json.dumps(CLAIMS).encode().replace(b"2000", b"NaN"),
        b'"text"',
    ],
    ids=[
        "more",
        "text",
        "fraction",
        "answer",
        "no end",
        "twice",
        "twice inside",
        "NaN",
        "no object",
    ],
)
def test_claims_of_another_shape_are_refused(claims):
    refused(PHONE.jws(HEADER, claims))


@pytest.mark.parametrize(
    "jws",
    [
        "",
        ".",
        "..",
        SIGNED + ".",
        SIGNED + "=",
        SIGNED + "\n",
        SIGNED[:-1],
        SIGNED + "A",
        " " + SIGNED,
        SIGNED.replace(".", "..", 1),
        SIGNED.rpartition(".")[0] + ".",
        SIGNED.rpartition(".")[0] + "." + text64(bytes(64)),
        SIGNED.rpartition(".")[0] + "." + text64(b"\xff" * 64),
        "ü." + SIGNED,
        "A" * (signing.SIZE_LIMIT + 1),
    ],
    ids=[
        "nothing",
        "a dot",
        "two dots",
        "a part more",
        "padding",
        "a line feed",
        "a character less",
        "a character more",
        "a blank before",
        "an empty part",
        "no signature",
        "zeros",
        "ones",
        "not ASCII",
        "too long",
    ],
)
def test_another_form_of_a_jws_is_refused(jws):
    refused(jws)


def test_bits_that_base64_ignores_are_refused():
    """The last character of 64 bytes has four bits that mean nothing: one form alone is taken."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet[alphabet.index(SIGNED[-1]) ^ 1]
    twin = SIGNED[:-1] + other
    assert base64.urlsafe_b64decode(twin.split(".")[2] + "==") == base64.urlsafe_b64decode(
        SIGNED.split(".")[2] + "=="
    )
    refused(twin)


@given(st.integers(0, len(SIGNED) - 1), st.characters(min_codepoint=33, max_codepoint=126))
def test_no_changed_character_is_taken(at, character):
    changed = SIGNED[:at] + character + SIGNED[at + 1 :]
    if changed != SIGNED:
        refused(changed)


@given(st.text() | st.binary().map(text64) | st.lists(st.binary().map(text64)).map(".".join))
def test_whatever_comes_is_refused_and_never_breaks(jws):
    refused(jws)
    with pytest.raises(SignatureRefused):
        signing.claimed_by(jws)


@given(st.text(max_size=100) | st.binary(max_size=80).map(text64))
def test_what_is_no_key_is_refused(key):
    with pytest.raises(SignatureRefused):
        signing.check_key(key)


def claims_at(iat, exp):
    return signing.verify(
        PHONE.jws(HEADER, {**CLAIMS, "iat": iat, "exp": exp}), PHONE.key, DecisionClaims
    )


@pytest.mark.parametrize(
    ("iat", "exp", "fault"),
    [
        (-500_000, -1, "too late"),
        (-300_000, 0, "too late"),
        (-1_000, 600_000, "at most 10 minutes"),
        (0, 0, "at most"),
        (10, 0, "at most"),
        (121_000, 200_000, "121 s in the future"),
    ],
)
def test_a_signature_holds_for_ten_minutes_from_now(iat, exp, fault):
    now = now_ms()
    with pytest.raises(SignatureRefused, match=fault):
        signing.check_time(claims_at(now + iat, now + exp), now)


@pytest.mark.parametrize(("iat", "exp"), [(0, 1), (-599_999, 1), (120_000, 720_000)])
def test_a_clock_may_be_two_minutes_off(iat, exp):
    now = now_ms()
    signing.check_time(claims_at(now + iat, now + exp), now)


@given(st.dictionaries(st.text(), plain))
def test_a_message_has_one_hash_whatever_the_order_of_its_keys(message):
    try:
        turned = dict(reversed(message.items()))
        assert signing.message_hash(message) == signing.message_hash(turned)
        assert signing.message_hash(message) == signing.message_hash(
            json.loads(json.dumps(message))
        )
    except UnicodeEncodeError:
        pytest.fail("half a character must be refused, not break")


@given(st.dictionaries(st.text(), plain), st.dictionaries(st.text(), plain))
def test_messages_that_differ_have_different_hashes(one, other):
    def told(message):
        return json.dumps(message, sort_keys=True)

    same = told(one) == told(other)
    assert (signing.message_hash(one) == signing.message_hash(other)) == same


@pytest.mark.parametrize("number", [0.5, 1.0, 2**53, -(2**53), float("nan"), float("inf")])
def test_a_number_that_two_languages_write_differently_is_refused(number):
    with pytest.raises(SignatureRefused):
        signing.message_hash({"params": [number]})


def test_half_a_character_is_refused():
    with pytest.raises(SignatureRefused):
        signing.message_hash({"text": "\ud800"})


def test_words_can_be_said_and_tell_keys_apart():
    assert signing.words(bytes([127, 0, 0, 1])) == "lusab-babad"
    assert signing.fingerprint(PHONE.id).count("-") == 2
    assert signing.fingerprint(PHONE.id) != signing.fingerprint(OTHER.id)
