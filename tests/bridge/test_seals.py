"""The audit's chain: whatever is done to its records or seals shows."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from bridge.seals import Record, Seal, Walk, beginning, link, sealed_text

KEY, OTHER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
NEVER = 0  # nothing is old enough to be cut
DAY = 86_400_000


def records(count, start=1000):
    return [
        Record(f"{start + n}-0", {"at": str(start + n), "event": f"e{n}"}) for n in range(count)
    ]


def sealed(chain, every, key=KEY, tenant="acme"):
    """Seal after each ``every`` records, as the relay does."""
    seals, at = [], beginning(tenant)
    for count, record in enumerate(chain, 1):
        at = link(at, record)
        if count % every == 0:
            text = sealed_text(tenant, record.id, count, at.hex())
            signature = base64.b64encode(key.sign(text)).decode()
            seals.append(Seal(record.id, count, at.hex(), "1", signature))
    return seals


def found(chain, seals, cut_before=NEVER):
    walk = Walk("acme", seals, {"1": KEY.public_key()}, cut_before)
    for record in chain:
        if not walk.step(record):
            break
    return walk.finding()


@given(st.integers(0, 40), st.integers(1, 7))
def test_records_as_they_were_written_hold(count, every):
    chain = records(count)
    finding = found(chain, sealed(chain, every))
    assert finding.fault == ""
    assert (finding.records, finding.unsealed) == (count, count % every)


@given(st.data())
def test_a_changed_removed_added_or_moved_record_that_was_sealed_shows(data):
    count, every = data.draw(st.integers(2, 20)), data.draw(st.integers(1, 5))
    chain = records(count)
    seals = sealed(chain, every)
    last = count - count % every
    if not last:
        return
    place = data.draw(st.integers(0, last - 1))
    how = data.draw(st.sampled_from(["change", "remove", "add", "swap"]))
    forged = list(chain)
    if how == "change":
        forged[place] = Record(chain[place].id, {**chain[place].fields, "event": "other"})
    elif how == "remove":
        del forged[place]
    elif how == "add":
        forged.insert(place, Record(f"{999 + place}-5", {"event": "slipped in"}))
    else:
        other = (place + 1) % last
        if other == place:
            return
        forged[place] = Record(chain[place].id, chain[other].fields)
    assert found(forged, seals).fault


@pytest.mark.parametrize("gone", ["first", "last"])
def test_a_removed_end_of_the_records_shows(gone):
    chain = records(9)
    left = chain[3:] if gone == "first" else chain[:-3]
    assert "is gone" in found(left, sealed(chain, 3)).fault


def test_all_records_removed_shows():
    chain = records(6)
    assert "is gone" in found([], sealed(chain, 3)).fault


def test_a_seal_of_another_key_shows():
    chain = records(3)
    assert "not signed by this relay" in found(chain, sealed(chain, 3, key=OTHER)).fault


def test_a_seal_of_another_tenant_shows():
    chain = records(3)
    assert "not signed by this relay" in found(chain, sealed(chain, 3, tenant="other")).fault


def test_a_seal_with_a_key_that_is_not_here_is_named():
    chain = records(3)
    [seal] = sealed(chain, 3)
    finding = found(chain, [Seal(seal.upto, 3, seal.link, "7", seal.signature)])
    assert "key '7', which is not here" in finding.fault


@pytest.mark.parametrize("kept_from", [3, 4, 6, 9], ids=lambda n: f"from record {n}")
def test_what_was_cut_with_age_is_no_fault(kept_from):
    chain = records(12)
    seals = sealed(chain, 3)
    assert found(chain[kept_from:], seals, cut_before=1000 + DAY).fault == ""
    assert found(chain[kept_from:], seals[1:], cut_before=1000 + DAY).fault == ""


def test_a_change_behind_what_was_cut_with_age_shows():
    chain = records(12)
    forged = [*chain[4:10], Record(chain[10].id, {"event": "other"}), chain[11]]
    assert found(forged, sealed(chain, 3), cut_before=1000 + DAY).fault
