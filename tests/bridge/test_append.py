from hypothesis import given
from hypothesis import strategies as st

from bridge.agents import Claim
from bridge.append import (
    CALL_BYTES,
    CALL_ENTRIES,
    Batch,
    Entry,
    LogLimits,
    arguments_of,
    calls_of,
)
from bridge.effects import NO_EFFECT

OWN_KEYS, OWN_ARGUMENTS, ENTRY_ARGUMENTS = 7, 7, 5  # as the script counts them
TENANTS = ("acme", "globex")


def batch(tenant: str, session: str, count: int, size: int = 0) -> Batch:
    claim = Claim(tenant, "a1", 5, "w1", "n")
    entries = [Entry(5, seq, "", b"{}", *NO_EFFECT) for seq in range(1, count + 1)]
    return Batch(claim, session, entries, size)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(TENANTS),
            st.integers(0, CALL_ENTRIES),
            st.sampled_from([0, 300, CALL_BYTES // 2, CALL_BYTES]),
        ),
        max_size=30,
    )
)
def test_calls_hold_every_batch_once_of_one_tenant_and_within_their_bounds(shapes):
    batches = [
        batch(tenant, f"s{number}", count, size)
        for number, (tenant, count, size) in enumerate(shapes)
    ]
    calls = calls_of(batches)
    for call in calls:
        assert len({one.claim.tenant for one in call}) == 1
        assert sum(len(one.entries) for one in call) <= CALL_ENTRIES
        assert sum(one.size for one in call) <= CALL_BYTES or len(call) == 1
    for tenant in TENANTS:
        sent = [one.session for call in calls for one in call if one.claim.tenant == tenant]
        assert sent == [one.session for one in batches if one.claim.tenant == tenant]


def test_sessions_of_one_tenant_share_a_call():
    assert len(calls_of([batch("acme", f"s{number}", 2) for number in range(100)])) == 1


def test_a_batch_larger_than_a_call_may_be_goes_alone():
    calls = calls_of([batch("acme", "s1", 1), batch("acme", "s2", 1, CALL_BYTES * 2)])
    assert [len(call) for call in calls] == [1, 1]


def test_a_call_names_what_each_session_touches_and_says_how_much_is_whose():
    one, two = batch("acme", "s1", 2), batch("acme", "s2", 0)
    two.entries = [
        Entry(5, 1, "", b"{}", b'{"open": {}}', "rt-1"),
        Entry(5, 2, "", b"{}", *NO_EFFECT),
    ]
    names, arguments = arguments_of([one, two], LogLimits())
    shared_keys, shared_arguments = 6, 4
    assert len(names) == shared_keys + 2 * OWN_KEYS + 1
    assert names[-1] == "b:{acme}:rt:rt-1"
    assert len(arguments) == shared_arguments + 2 * OWN_ARGUMENTS + 4 * ENTRY_ARGUMENTS
