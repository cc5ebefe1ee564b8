"""A pairing is answered once, by who has the secret or by words that a person compared."""

import contextlib
import json

import pytest
from fakes.device import FakeDevice
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol import pairing
from bridge.protocol.errors import PairingRefused
from bridge.protocol.pairing import Invitation, Step

PHONE, EVIL = FakeDevice(), FakeDevice("evil", "mallory")


def invitation():
    return Invitation(
        host="anna-mbp",
        user="anna",
        agent="Claude",
        folder="/home/anna/app",
        relay="wss://r.example",
    )


def test_with_the_secret_a_device_is_paired_at_once():
    one = invitation()
    device = one.take(*PHONE.answer(one.offer, one.secret))
    assert (one.step, device.key, device.name) == (Step.PAIRED, PHONE.key, "pixel")
    assert one.end_mac == pairing.mac(one.secret, "paired", one.offer, one.answer)


def test_the_secret_is_128_bits_and_in_nothing_that_the_relay_gets():
    one = invitation()
    assert len(one.secret) * 8 == 128
    told = one.code + one.offer + one.offer_mac
    assert one.fragment.split(".")[1] not in told
    assert one.secret.hex() not in told


def test_without_the_secret_words_are_compared():
    one = invitation()
    answer, _ = PHONE.answer(one.offer, None)
    one.take(answer, None)
    assert one.step is Step.COMPARING
    assert one.words == pairing.comparison(one.offer, answer, one.number)
    one.compared(same=True)
    assert one.step is Step.PAIRED


def test_words_that_differ_end_it():
    one = invitation()
    one.take(PHONE.answer(one.offer, None)[0], None)
    one.compared(same=False)
    assert one.step is Step.REFUSED


def test_a_swapped_key_makes_other_words():
    """S: a relay in the middle of a pairing by typed code."""
    one = invitation()
    shown_to_phone = pairing.comparison(one.offer, PHONE.answer(one.offer, None)[0], one.number)
    one.take(EVIL.answer(one.offer, None)[0], None)
    assert one.words != shown_to_phone


def test_the_number_is_bound_by_the_offer():
    import hashlib

    one = invitation()
    assert one.number not in one.offer
    assert json.loads(one.offer)["commit"] == hashlib.sha256(one.number.encode()).hexdigest()


@pytest.mark.parametrize("swap", ["key", "name", "subject", "nonce"])
def test_an_answer_that_was_changed_on_its_way_ends_the_pairing(swap):
    one = invitation()
    answer, proof = PHONE.answer(one.offer, one.secret)
    changed = json.dumps({**json.loads(answer), swap: EVIL.key})
    with pytest.raises(PairingRefused):
        one.take(changed, proof)
    assert one.step is Step.REFUSED
    with pytest.raises(PairingRefused, match="already"):
        one.take(answer, proof)


def test_an_answer_to_another_offer_is_refused():
    one, other = invitation(), invitation()
    with pytest.raises(PairingRefused):
        one.take(*PHONE.answer(other.offer, one.secret))


def test_a_proof_of_another_step_is_no_proof():
    one = invitation()
    answer, _ = PHONE.answer(one.offer, None)
    with pytest.raises(PairingRefused):
        one.take(answer, one.offer_mac)


def test_a_second_answer_is_refused_and_the_first_stays():
    one = invitation()
    one.take(*PHONE.answer(one.offer, one.secret))
    with pytest.raises(PairingRefused, match="already"):
        one.take(*EVIL.answer(one.offer, one.secret))
    assert one.device is not None
    assert one.device.key == PHONE.key


def test_what_expired_takes_no_answer():
    one = invitation()
    one.expire()
    with pytest.raises(PairingRefused):
        one.take(*PHONE.answer(one.offer, one.secret))
    with pytest.raises(PairingRefused):
        one.compared(same=True)


@given(st.text(), st.none() | st.text())
def test_whatever_is_answered_never_pairs(answer, proof):
    one = invitation()
    with pytest.raises(PairingRefused):
        one.take(answer, proof)
    assert one.step is Step.REFUSED


@pytest.mark.parametrize("name", ["", "a" * 65, "pi\u202exel", "pi\nxel", "pi\u200bxel"])
def test_a_name_that_hides_something_is_refused(name):
    one = invitation()
    answer, _ = FakeDevice(name).answer(one.offer, None)
    with pytest.raises(PairingRefused, match="name"):
        one.take(answer, None)


@pytest.mark.parametrize("typed", ["k7m-2xq", "K7M 2XQ", " k7m2xq "])
def test_a_code_is_read_as_people_type_it(typed):
    assert pairing.read_code(typed) == "K7M2XQ"


@given(st.text())
def test_what_is_no_code_is_refused(typed):
    with contextlib.suppress(PairingRefused):
        assert pairing.CODE.fullmatch(pairing.read_code(typed))
