"""Places for sockets: counted in all and per address, and given back."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.limits import Admission, Place, Rate, SocketLimits


def limited(**limits: int) -> Admission:
    return Admission(SocketLimits(**limits))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_within_the_caps_everybody_gets_a_place():
    admission = limited(total=2, per_address=2)
    assert [admission.admit(Place("a")), admission.admit(Place("b"))] == [None, None]
    assert admission.taken == 2


def test_a_full_relay_refuses_with_503_and_says_how_many_it_holds():
    admission = limited(total=1, per_address=1)
    admission.admit(Place("a"))
    refusal = admission.admit(Place("b"))
    assert (refusal.status, refusal.message) == (503, "this relay holds its 1 connections")
    assert admission.refused == {"full": 1}


def test_one_address_over_its_cap_is_refused_with_429_and_named():
    admission = limited(total=9, per_address=1)
    admission.admit(Place("10.0.0.7"))
    refusal = admission.admit(Place("10.0.0.7"))
    assert refusal.status == 429
    assert refusal.message.startswith("10.0.0.7 has 1 connections")
    assert admission.admit(Place("10.0.0.8")) is None


def test_one_subject_over_its_cap_is_refused_wherever_it_comes_from():
    admission = limited(per_subject=1)
    admission.admit(Place("10.0.0.7", "acme/alice"))
    refusal = admission.admit(Place("10.0.0.8", "acme/alice"))
    assert (refusal.status, refusal.message[:23]) == (429, "alice has 1 connections")
    assert admission.admit(Place("10.0.0.8", "other/alice")) is None
    admission.release(Place("10.0.0.7", "acme/alice"))
    assert admission.admit(Place("10.0.0.8", "acme/alice")) is None


def test_a_process_that_ends_lets_nobody_in():
    admission = limited()
    admission.end()
    assert admission.admit(Place("a")).status == 503
    assert admission.wait == 1


def test_those_over_the_rate_are_told_to_come_one_after_the_other():
    clock = Clock()
    rate = Rate(100, clock)
    waits = [rate.take() for _ in range(525)]
    assert waits[:25] == [0] * 25
    assert (waits[25], waits[-1]) == (1, 7)
    assert waits == sorted(waits)
    clock.now = 10
    assert rate.wait == 0


@given(st.lists(st.floats(0, 0.2), max_size=200))
@settings(max_examples=50, deadline=None)
def test_no_second_lets_in_more_than_the_rate_and_the_burst(pauses):
    clock = Clock()
    rate = Rate(20, clock)
    let_in = []
    for pause in pauses:
        clock.now += pause
        if rate.take() == 0:
            let_in.append(clock.now)
    for start in let_in:
        assert sum(start <= at < start + 1 for at in let_in) <= 26


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40))
@settings(max_examples=50, deadline=None)
def test_any_coming_and_going_keeps_the_count(steps):
    admission, held = limited(total=5, per_address=2), []
    for address, comes in steps:
        if comes:
            full = len(held) == 5 or held.count(address) == 2
            assert (admission.admit(Place(address)) is not None) == full
            held += [] if full else [address]
        elif address in held:
            held.remove(address)
            admission.release(Place(address))
    assert admission.taken == len(held)
