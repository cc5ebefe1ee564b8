"""Text from agents as a terminal may print it: nothing hidden, nothing that moves the cursor."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
_BLANK = frozenset("\u00a0\u2800\u3164\u115f\u1160\uffa0")  # look like a space and are none


def visible(text: str) -> str:
    """Write every hidden character as its number; lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def one_line(text: str) -> str:
    """Give visible text on one line."""
    return visible(text.replace("\n", "\u23ce").replace("\t", " "))


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    category = unicodedata.category(character)
    odd_space = category == "Zs" and character != " "
    if category in _HIDDEN or odd_space or character in _BLANK:
        return f"\u27e8U+{ord(character):04X}\u27e9"
    return character
