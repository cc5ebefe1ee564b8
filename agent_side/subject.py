"""The text of exactly what will run, composed from all that the agent told of it.

Agents name it in different places: ``rawInput.command`` (a string or a list), ``content`` (a diff),
the tool call's earlier card, or only in the title, which may be the model's own words. A person
decides on this text and its hash; the same facts give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from agent_side import scope
from bridge.protocol import round_trip
from bridge.protocol.jsonrpc import Payload

SUBJECT_VERSION = 1
SENT_LIMIT = 6 << 20  # bytes; a longer one would not fit into one message to the relay

_encode = msgspec.json.Encoder(order="sorted").encode


def of_permission(params: Payload, card: Payload, cwd: str) -> str:
    """Compose the subject of a permission request; ``card`` is what was told of the call before."""
    call = params.get("toolCall")
    told = call if isinstance(call, dict) else {}
    call = {**card, **{k: v for k, v in told.items() if v is not None}}
    raw = _either(call.get("rawInput"), card.get("rawInput"))
    content = call.get("content") or card.get("content")
    subject: Payload = {
        "v": SUBJECT_VERSION,
        "kind": _text(call.get("kind")) or "other",
        "title": _text(call.get("title")),
        "cwd": _cwd(raw, card, cwd),
        "options": [
            [_text(option.get("optionId")), _text(option.get("name")), _text(option.get("kind"))]
            for option in _objects(params.get("options"))
        ],
    }
    command, arguments = _split(raw)
    _put(subject, "command", command)
    _put(subject, "arguments", arguments)
    _put(subject, "diffs", _diffs(content))
    _put(subject, "paths", _paths(call))
    _put(subject, "texts", _texts(content))
    if _is_cut(params, call, raw):
        subject["truncated"] = True
    if (found := scope.of_facts(subject)) is not None:
        subject["scope"] = found.words  # what "always" would cover, hashed with the rest
    return _bounded(subject)


def of_elicitation(params: Payload, cwd: str) -> str:
    """Compose the subject of an elicitation: the whole form."""
    form = {k: params[k] for k in ("message", "requestedSchema", "mode", "url") if k in params}
    title = _text(params.get("message"))
    told = {"v": SUBJECT_VERSION, "kind": "elicitation", "title": title, "cwd": cwd, "form": form}
    return _bounded({**told, "truncated": True} if _is_cut(params) else told)


def marked(subject: str, secrets_in: Callable[[bytes], list[str]]) -> str:
    """Name the kinds of secret that a subject holds in it; what runs stays as it is."""
    kinds = secrets_in(subject.encode())
    if not kinds:
        return subject
    return _encode({**msgspec.json.decode(subject), "secrets": kinds}).decode()


def _is_cut(*places: Any) -> bool:
    """Whether the agent says, in what it asks or in any ``_meta`` of it, that it is not all."""
    found = [place for place in places if isinstance(place, dict)]
    found += [place["_meta"] for place in found if isinstance(place.get("_meta"), dict)]
    return any(place.get("truncated") for place in found)


def _bounded(subject: Payload) -> str:
    encoded = _encode(subject)
    if len(encoded) <= SENT_LIMIT:
        return encoded.decode()
    # Longer than can be sent: its place is taken by a text that nobody may allow from afar.
    kept = {k: subject[k] for k in ("v", "kind", "cwd", "options") if k in subject}
    note = f"[{len(encoded):,} bytes, to be seen only on the machine]"
    filler = " " * round_trip.SUBJECT_LIMIT
    return _encode({**kept, "title": note, "truncated": True, "filler": filler}).decode()


def _split(raw: Any) -> tuple[Any, Any]:
    """Part the command from the other arguments."""
    if not isinstance(raw, dict):
        return None, raw
    command = raw.get("command")
    if not _is_command(command):
        return None, raw or None
    rest = {k: v for k, v in raw.items() if k != "command"}
    return command, rest or None


def _is_command(command: Any) -> bool:
    if isinstance(command, list):
        return bool(command) and all(isinstance(part, str) for part in command)
    return isinstance(command, str) and bool(command)


def _cwd(raw: Any, card: Payload, cwd: str) -> str:
    for source in (raw, card.get("rawInput")):
        if isinstance(source, dict) and isinstance(source.get("cwd"), str):
            return str(source["cwd"])
    return cwd


def _diffs(content: Any) -> list[Payload]:
    return [
        {"path": item.get("path"), "oldText": item.get("oldText"), "newText": item.get("newText")}
        for item in _objects(content)
        if item.get("type") == "diff"
    ]


def _texts(content: Any) -> list[str]:
    blocks = [item.get("content") for item in _objects(content) if item.get("type") == "content"]
    return [_text(block.get("text")) for block in _objects(blocks) if block.get("text")]


def _paths(call: Payload) -> list[str]:
    places = _objects(call.get("locations"))
    return [_text(place["path"]) for place in places if "path" in place]


def _objects(value: Any) -> list[Payload]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _either(first: Any, second: Any) -> Any:
    return first if first not in (None, {}, []) else second


def _put(subject: Payload, name: str, value: Any) -> None:
    if value not in (None, [], ""):
        subject[name] = value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
