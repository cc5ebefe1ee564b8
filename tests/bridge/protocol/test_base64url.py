"""Base64url: each value has one form, and only that is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol import base64url


@given(st.binary(max_size=80))
def test_what_is_written_is_read_again(data):
    assert base64url.decode(base64url.encode(data)) == data


@pytest.mark.parametrize("text", ["AA==", "AB", "A", "+_-A", "/AAA", "AA AA", "ü", "A\n", "A==="])
def test_another_form_is_refused(text):
    with pytest.raises(ValueError, match="base64url|ASCII"):
        base64url.decode(text)


@given(st.text(max_size=20))
def test_any_text_is_read_as_its_own_bytes_or_refused(text):
    try:
        found = base64url.decode(text)
    except ValueError:
        return
    assert base64url.encode(found) == text
