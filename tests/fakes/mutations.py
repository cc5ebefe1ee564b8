"""Messages that are almost right: what a fuzzer makes of good ones."""

from __future__ import annotations

import json
import random
from typing import Any

ODD = (
    *(None, True, False, 0, -1, 1.5, 1 << 53, 1 << 64, -(1 << 63), 1e308),
    *("", "\x00", "é", "\u2028", "x" * 5000, "../..", "{acme}", "*", "\r\n", "1:1", "-"),
    *([], {}, [[]], {"": {}}, [None] * 3, {"_meta": {"chimera.bridge": {}}}),
)
RAW = (
    *(b"NaN", b"-Infinity", b"1e999", b"01", b'"\\ud800"', b'"\\udc00x"', b"\xff", b"\x00"),
    *(b"[" * 2000, b'{"a":' * 500, b'"unended', b"", b'{"a":1,"a":2}', b"9" * 400),
)


def mutated(message: Any, chance: random.Random) -> bytes:
    """Give a message with one to three things changed in its values, its keys or its bytes."""
    changed = json.loads(json.dumps(message))
    for _ in range(chance.randrange(1, 4)):
        changed = _other(changed, chance)
    text = json.dumps(changed).encode()
    return _torn(text, chance) if chance.random() < 0.3 else text


def _other(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return chance.choice(ODD)
    if isinstance(value, list):
        at = chance.randrange(len(value))
        return [*value[:at], _other(value[at], chance), *value[at + 1 :]]
    name = chance.choice(list(value))
    rest = {key: one for key, one in value.items() if key != name}
    way = chance.random()
    if way < 0.1:
        return rest
    if way < 0.2:
        return {**rest, chance.choice(["", "id", "method", "_meta", name + "x"]): value[name]}
    return {**value, name: _other(value[name], chance)}


def _torn(text: bytes, chance: random.Random) -> bytes:
    at, end = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    return text[:at] + chance.choice([b"", chance.choice(RAW), text[at:end] * 2]) + text[end:]
