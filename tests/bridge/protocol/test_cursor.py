"""A place in a log, as text and as a Redis Stream's id."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import InvalidParams

law = settings(max_examples=50, deadline=None)
numbers = st.integers(0, 10**16 - 1)
cursors = st.builds(Cursor, numbers, numbers)
near = st.builds(Cursor, st.integers(1, 3), st.integers(1, 3))


@law
@given(cursors)
def test_a_cursor_is_read_as_it_was_written(cursor):
    assert Cursor.parse(str(cursor)) == cursor
    assert Cursor.from_stream_id(cursor.stream_id) == cursor
    assert Cursor.from_stream_id(cursor.stream_id.encode()) == cursor


@law
@given(cursors, cursors)
def test_cursors_order_as_stream_ids_do(one, other):
    def parts(cursor):
        return tuple(int(part) for part in cursor.stream_id.split("-"))

    assert (one < other) == (parts(one) < parts(other))
    assert min(one, other) >= START


@law
@given(near, near)
def test_what_follows_is_greater_and_nothing_lies_between(one, other):
    if one.is_followed_by(other):
        assert other > one
        between = Cursor(one.epoch, one.seq + 1)
        assert not one < between < other or other.epoch > one.epoch


@pytest.mark.parametrize(
    "text",
    ["", "1", "1:", ":1", "1-1", "a:b", "-1:2", "1:2:3", " 1:2", "1:2\n", "1" * 17 + ":1", "１:２"],
)
def test_what_is_no_cursor_is_refused_with_its_form(text):
    with pytest.raises(InvalidParams, match="epoch:seq"):
        Cursor.parse(text)
