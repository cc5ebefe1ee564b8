import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_side.doors.visible import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("größe 日本 🦊", "größe 日本 🦊"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("\x1b]0;title\x07", "⟨U+001B⟩]0;title⟨U+0007⟩"),
        ("a\rb", "a⟨U+000D⟩b"),
        ("a\u00a0b\u3164", "a⟨U+00A0⟩b⟨U+3164⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
    ],
)
def test_hidden_characters_become_their_numbers(text, shown):
    assert visible(text) == shown


@given(st.text())
def test_nothing_that_hides_or_moves_is_left(text):
    left = {unicodedata.category(c) for c in visible(text) if c not in "\n\t"}
    assert not left & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text())
def test_one_line_is_one_line(text):
    assert len(one_line(text).splitlines()) <= 1
