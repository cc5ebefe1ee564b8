"""What an agent sent, made fit for the log: nothing forged in it, nothing huge on its way.

Values stay the agent's own bytes unless something must be taken out or shortened.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import msgspec

from bridge.protocol import jsonrpc
from bridge.protocol.entry import META_KEY
from bridge.protocol.jsonrpc import Payload

VALUE_LIMIT = 64 << 10  # bytes of one output or _meta in the log; agents send lines of 500 kB
TEXT_LIMIT = 1 << 20  # bytes of one piece of a message
FIELD_LIMIT = 1 << 20  # bytes of an update or a tool call in the log, when all else is shortened
HEAD_LENGTH = 2_000  # characters that stay of a text that is shortened
OPAQUE = frozenset({"rawInput", "rawOutput"})  # what runs and what it said: never edited

RawFields: TypeAlias = dict[str, msgspec.Raw]

# A key may be written with escapes: "chimera\u002ebridge" is the same key.
_MAYBE_FORGED = re.compile(rb"chimera\.bridge|\\u00[2-7]")


class Cleaned(msgspec.Struct):
    """A message's fields for an entry; ``short`` is what goes to the relay, None: the same."""

    fields: dict[str, Any]
    meta: dict[str, Any] | None
    short: dict[str, Any] | None = None
    short_meta: dict[str, Any] | None = None


def clean(params: RawFields, size: int) -> Cleaned:
    """Take the fields of an agent's message apart for an entry; ``size`` is its bytes in all."""
    fields: dict[str, Any] = {}
    for name, raw in params.items():
        if name not in ("sessionId", "_meta"):
            fields[name] = unforged(raw)
    meta = _meta(params.get("_meta"))
    if size <= VALUE_LIMIT:
        return Cleaned(fields, meta)
    short = {name: _shortened_field(name, value) for name, value in fields.items()}
    short_meta = shortened_meta(meta)
    if short == fields and short_meta == meta:
        return Cleaned(fields, meta)
    return Cleaned(fields, meta, short, short_meta)


def unforged(raw: msgspec.Raw) -> msgspec.Raw:
    """Give a value without our own key in any ``_meta``; its bytes stay when it has none."""
    if _MAYBE_FORGED.search(raw) is None:
        return raw
    decoded = jsonrpc.value(raw)
    return msgspec.Raw(jsonrpc.encode(decoded)) if strip(decoded) else raw


def strip(value: Any) -> bool:
    """Take our key out of every ``_meta`` in a decoded value; say whether one was there."""
    found = False
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            meta = node.get("_meta")
            if isinstance(meta, dict) and META_KEY in meta:
                del meta[META_KEY]
                found = True
            waiting.extend(child for name, child in node.items() if name not in OPAQUE)
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def shortened_meta(meta: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give an agent's ``_meta`` with every huge value shortened."""
    if meta is None:
        return None
    return {name: _shortened(value) for name, value in meta.items()}


def shortened_update(update: Payload) -> Payload:
    """Give an update with every huge output shortened to a value of the same type."""
    short = _without_output(update)
    content = update.get("content")
    if isinstance(content, list):
        short["content"] = [_shortened_item(item) for item in content]
    elif isinstance(content, dict):
        short["content"] = _shortened_block(content)
    return _within(short, FIELD_LIMIT)


def _shortened_call(call: Payload) -> Payload:
    """Shorten a question's tool call: what will run stays unless its subject is too long too."""
    return _within(_without_output(call), FIELD_LIMIT)


def _shortened_field(name: str, value: msgspec.Raw) -> Any:
    if len(value) <= VALUE_LIMIT or name not in _SHORTENED:
        return value
    decoded = jsonrpc.value(value)
    if not isinstance(decoded, dict):
        return value
    short = _SHORTENED[name](decoded)
    return value if short == decoded else short


_SHORTENED = {"update": shortened_update, "toolCall": _shortened_call}


def _without_output(update: Payload) -> Payload:
    short = dict(update)
    if isinstance(update.get("_meta"), dict):
        short["_meta"] = shortened_meta(update["_meta"])
    if "rawOutput" in update:
        short["rawOutput"] = _shortened(update["rawOutput"])
    return short


def _shortened_item(item: Any) -> Any:
    size = _size(item)
    if size <= VALUE_LIMIT or not isinstance(item, dict):
        return item
    block = item.get("content")
    if isinstance(block, dict) and isinstance(block.get("text"), str):
        return {**item, "content": _text(_headed(block["text"]))}
    what = f"changes to {item.get('path')}" if item.get("type") == "diff" else "output"
    return {"type": "content", "content": _text(f"[{what}: {size:,} bytes, kept on the machine]")}


def _shortened_block(block: Payload) -> Payload:
    size = _size(block)
    if size <= TEXT_LIMIT:
        return block
    if isinstance(block.get("text"), str):
        return _text(_headed(block["text"]))
    return _text(f"[{block.get('type')}: {size:,} bytes, kept on the machine]")


def _shortened(value: Any) -> Any:
    """Shorten a value over the limit: its texts first, then it gives way to its length."""
    size = _size(value)
    if size <= VALUE_LIMIT:
        return value
    short = _with_heads(jsonrpc.value(value) if isinstance(value, msgspec.Raw) else value)
    return short if _size(short) <= VALUE_LIMIT else {"shortened": True, "bytes": size}


def _within(update: Payload, limit: int) -> Payload:
    """Shorten whatever else makes an update longer than a limit; types stay what they are."""
    if _size(update) <= limit:
        return update
    short: Payload = _with_heads(update)
    if _size(short) <= limit:
        return short
    return {k: v if _size(v) <= VALUE_LIMIT else type(v)() for k, v in short.items()}


def _with_heads(value: Any) -> Any:
    """Give a value whose long texts are cut to their beginnings."""
    if isinstance(value, str):
        return _headed(value) if len(value) > HEAD_LENGTH else value
    if isinstance(value, dict):
        return {name: _with_heads(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_with_heads(child) for child in value]
    return value


def _headed(text: str) -> str:
    """Give a text's beginning and its length."""
    if len(text) <= HEAD_LENGTH:
        return text
    size = len(text.encode(errors="replace"))
    return f"{text[:HEAD_LENGTH]}…\n[{size:,} bytes in all, kept on the machine]"


def _size(value: Any) -> int:
    return len(value) if isinstance(value, msgspec.Raw) else len(jsonrpc.encode(value))


def _meta(raw: msgspec.Raw | None) -> dict[str, Any] | None:
    if raw is None or bytes(memoryview(raw)[:1]) != b"{":
        return None
    fields = jsonrpc.fields(raw)
    fields.pop(META_KEY, None)
    return dict(fields) or None


def _text(text: str) -> Payload:
    return {"type": "text", "text": text}
