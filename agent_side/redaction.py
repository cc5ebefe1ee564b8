"""Keeps secrets on this machine: what goes to the relay has ``[secret: …]`` in their place.

The journal and the local doors keep all. A question's subject is never changed, because what runs
must be what was shown; it says beside it which kinds of secret it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from bridge.protocol import jsonrpc

OPEN_LENGTH = 16_000  # characters looked at for a secret whose end has not come yet

_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_NAME = "(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|_access_key)"

# A name, what marks it in a text (one of them is there, or it is not), and how it is found. Each
# begins with letters that are looked for fast; what ``kept`` names stays.
_KINDS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "private key",
        ("PRIVATE KEY",),
        rf"-----BEGIN {_PEM}-----.*?(?:-----END {_PEM}-----|\Z)",
    ),
    (
        "GitHub token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        r"gh[pousr]_(?<![\w-]gh._)[A-Za-z0-9]{20,}",
    ),
    ("GitHub token", ("github_pat_",), r"github_pat_\w{22,}"),
    ("GitLab token", ("glpat-",), r"glpat-(?<![\w-]glpat-)[\w-]{20,}"),
    ("API key", ("sk-",), r"sk-(?<![\w-]sk-)(?=[\w-]*\d)[\w-]{20,}"),
    ("payment key", ("k_live_", "k_test_"), r"[sr]k_(?<![\w-].k_)(?:live|test)_\w{16,}"),
    ("AWS key", ("AKIA", "ASIA"), r"A(?:KIA|SIA)(?<![\w-]A.IA)[A-Z0-9]{16}(?!\w)"),
    ("Google key", ("AIza",), r"AIza(?<![\w-]AIza)[\w-]{35}"),
    ("Google token", ("ya29.",), r"ya29\.(?<![\w-]ya29\.)[\w-]{20,}"),
    ("Slack token", ("xox",), r"xox[abeprs]-(?<![\w-]xox.-)[\w-]{10,}"),
    ("npm token", ("npm_",), r"npm_(?<![\w-]npm_)[A-Za-z0-9]{36}"),
    ("PyPI token", ("pypi-",), r"pypi-(?<![\w-]pypi-)[\w-]{50,}"),
    ("Hugging Face token", ("hf_",), r"hf_(?<![\w-]hf_)[A-Za-z0-9]{30,}"),
    ("signed token", ("eyJ",), r"eyJ(?<![\w-]eyJ)[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    ("bearer token", ("earer ",), r"(?P<kept>earer )[\w.~+/-]{16,}=*"),
    ("password", ("asic ",), r"(?P<kept>asic )(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{16,}=*"),
    ("password", ("://",), r"(?P<kept>://)[^/\s@:\"'<>]*:[^/\s@\"'<>]+(?=@)"),
    (
        "value",
        ("KEY", "TOKEN", "SECRET", "PASSW", "_access_key"),
        rf"(?P<kept>{_NAME}(?:[\"']? ?[=:] ?[\"']|=))(?![\[$({{<])[^\s\"'`,;)]{{8,}}+(?![\[(])",
    ),
)
_FINDERS = [(name, marks, re.compile(pattern, re.DOTALL)) for name, marks, pattern in _KINDS]
# The same in JSON's text, where a slash may be escaped.
_MARKS = (*(mark.encode() for _, marks, _ in _KINDS for mark in marks), rb":\/\/")
_is_marked = re.compile(b"|".join(map(re.escape, _MARKS))).search
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_decode_string = msgspec.json.Decoder(str).decode


def _begun(mark: str, rest: str) -> str:
    """Match any beginning of a mark at a text's end, and all of it with what may follow."""
    for character in reversed(mark):
        rest = f"{re.escape(character)}(?:{rest})?"
    return rest


_OPEN_WORDS = [
    *(_begun(mark, r"[\w-]*") for mark in ("sk-", "sk_", "rk_", "glpat-", "npm_", "pypi-", "hf_")),
    *(_begun(mark, r"[\w-]*") for mark in ("gh", "gi", "xox", "AKIA", "ASIA", "AIza")),
    *(_begun(mark, r"[\w.-]*") for mark in ("eyJ", "ya29.")),
    *(_begun(mark, r"[\w.~+/-]*=*") for mark in ("Bearer ", "bearer ", "Basic ", "basic ")),
    r"[A-Z][A-Z0-9_]*[\"']?(?: ?[=:] ?\S*)?",
    r"aws_[a-z_]*[\"']?(?: ?[=:] ?\S*)?",
]
_OPEN = re.compile(
    rf"(?<![\w-])(?:{'|'.join(_OPEN_WORDS)})\Z"
    r"|:(?:/(?:/[^/\s@]*)?)?\Z"  # an address, of which a login may be a part
    r"|-{1,5}\Z|-----B[A-Z0-9 ]*-{0,5}\Z"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?!.*-----END [A-Z0-9 ]*KEY[A-Z ]*-----)",
    re.DOTALL,
)


class BadPattern(ValueError):
    """A pattern of the owner's that cannot be used."""


class Redaction:
    """What counts as a secret on this machine."""

    def __init__(
        self, *, on: bool = True, patterns: Iterable[str] = (), values: Iterable[str] = ()
    ) -> None:
        """Know the usual kinds, further patterns and this machine's own; raises BadPattern."""
        self.on = on
        self._more = tuple(map(_compiled, patterns)) if on else ()
        self._own = tuple(sorted(values, key=len, reverse=True)) if on else ()
        marks = [re.escape(jsonrpc.encode(value)[1:-1]) for value in self._own]
        self._holds_own = re.compile(b"|".join(marks)).search if marks else _never

    def clean(self, value: Any) -> Any:
        """Give a value that goes into JSON without its secrets, itself when it has none."""
        if not self.on:
            return value
        raw = bytes(value) if isinstance(value, msgspec.Raw) else jsonrpc.encode(value)
        cleaned = self.text(raw)
        return value if cleaned is raw else msgspec.Raw(cleaned)

    def fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Give fields without their secrets, the same ones when they have none."""
        if not self.on:
            return fields
        cleaned = {name: self.clean(value) for name, value in fields.items()}
        return fields if all(cleaned[name] is fields[name] for name in fields) else cleaned

    def text(self, raw: bytes) -> bytes:
        """Give JSON without the secrets in its strings; the same object when it has none."""
        if not self.on or not self._may_hold(raw):
            return raw
        cleaned = _STRING.sub(self._string, raw)
        return raw if cleaned == raw else cleaned

    def words(self, words: str) -> str:
        """Give plain words without secrets."""
        return self._cut(words) if self.on else words

    def kinds(self, raw: bytes) -> list[str]:
        """Name the kinds of secret in the strings of JSON."""
        if not self.on or not self._may_hold(raw):
            return []
        found: set[str] = set()
        for token in _STRING.finditer(raw):
            words = _decode_string(token[0])
            found.update(name for name, finder in _finders(words) if finder.search(words))
            found.update("value" for more in self._more if more.search(words))
            found.update("value" for own in self._own if own in words)
        return sorted(found)

    def is_open(self, words: str) -> bool:
        """Whether a text's end may be the beginning of a secret that goes on in the next piece."""
        if not self.on:
            return False
        end = words[-OPEN_LENGTH:]
        return any(_ends_within(end, own) for own in self._own) or _OPEN.search(end) is not None

    def _may_hold(self, raw: bytes) -> bool:
        return bool(self._more) or (_is_marked(raw) or self._holds_own(raw)) is not None

    def _string(self, match: re.Match[bytes]) -> bytes:
        token = match[0]
        if not (self._may_hold(token) or b"\\u" in token):
            return token
        try:
            words = _decode_string(token)
        except msgspec.DecodeError:  # half a character; it cannot be cut out either
            return token
        cut = self._cut(words)
        return token if cut == words else jsonrpc.encode(cut)

    def _cut(self, words: str) -> str:
        for own in self._own:
            words = words.replace(own, "[secret]")
        for name, finder in _finders(words):
            words = finder.sub(partial(_placeholder, name), words)
        for more in self._more:
            words = more.sub("[secret]", words)
        return words


def _finders(words: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    for name, marks, finder in _FINDERS:
        if any(mark in words for mark in marks):
            yield name, finder


def _placeholder(name: str, match: re.Match[str]) -> str:
    return f"{match.groupdict().get('kept', '')}[secret: {name}]"


def _never(_raw: bytes) -> None:
    """Find nothing: this machine has no secret that is known."""


def _ends_within(words: str, own: str) -> bool:
    """Whether a text ends in two characters or more of a secret's beginning."""
    at = words.find(own[:2], max(0, len(words) - len(own)))
    while at >= 0:
        if len(words) - at < len(own) and own.startswith(words[at:]):
            return True
        at = words.find(own[:2], at + 1)
    return False


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise BadPattern(f"{pattern!r:.80} is no regular expression: {error}") from None
    if compiled.search("") is not None:
        raise BadPattern(f"{pattern!r:.80} matches an empty text: it would match everywhere")
    return compiled
