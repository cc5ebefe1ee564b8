"""Places for sockets: counted in all and per address, and given back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.limits import Admission, SocketLimits


def test_within_the_caps_everybody_gets_a_place():
    admission = Admission(SocketLimits(total=2, per_address=2))
    assert [admission.admit("a"), admission.admit("b")] == [None, None]
    assert admission.taken == 2


def test_a_full_relay_refuses_with_503_and_says_how_many_it_holds():
    admission = Admission(SocketLimits(total=1, per_address=1))
    admission.admit("a")
    refusal = admission.admit("b")
    assert (refusal.status, refusal.message) == (
        503,
        "this relay holds its 1 connections; try later",
    )


def test_one_address_over_its_cap_is_refused_with_429_and_named():
    admission = Admission(SocketLimits(total=9, per_address=1))
    admission.admit("10.0.0.7")
    refusal = admission.admit("10.0.0.7")
    assert refusal.status == 429
    assert refusal.message.startswith("10.0.0.7 has 1 connections")
    assert admission.admit("10.0.0.8") is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
@settings(max_examples=50, deadline=None)
def test_any_coming_and_going_keeps_the_count(steps):
    admission, held = Admission(SocketLimits(total=5, per_address=2)), []
    for address, comes in steps:
        if comes:
            full = len(held) == 5 or held.count(address) == 2
            assert (admission.admit(address) is not None) == full
            held += [] if full else [address]
        elif address in held:
            held.remove(address)
            admission.release(address)
    assert admission.taken == len(held)
