"""A question as a terminal shows it: exactly what will run, from its subject alone."""

from __future__ import annotations

import difflib
import json
import shlex
from typing import Any

from agent_side.doors.visible import one_line, visible
from bridge.protocol.entry import RoundTrip
from bridge.protocol.jsonrpc import Payload

INDENT = "    "
ACTIONS = (  # of an elicitation, as an agent's options: id, name, kind
    ("accept", "Accept", "allow_once"),
    ("decline", "Decline", "reject_once"),
    ("cancel", "Cancel", "reject_once"),
)


def what_runs(round_trip: RoundTrip) -> list[str]:
    """Give the lines that say what will run, whole."""
    subject = json.loads(round_trip.subject)
    if subject.get("title") == subject.get("command"):
        subject.pop("title", None)  # many agents name a command by itself
    lines = []
    for name, render in _PARTS:
        if (value := subject.get(name)) not in (None, [], {}, ""):
            lines += render(value)
    if subject.get("cwd"):
        lines.append(f"in {one_line(subject['cwd'])}")
    return [INDENT + line for line in lines]


def choices(round_trip: RoundTrip) -> list[tuple[str, str, str]]:
    """Give what may be chosen: id, name, kind; an elicitation's actions."""
    if round_trip.kind == "elicitation":
        return list(ACTIONS)
    options = json.loads(round_trip.subject).get("options") or []
    return [(str(id_), str(name), str(kind)) for id_, name, kind in options]


def _title(title: str) -> list[str]:
    return visible(title).splitlines()


def _command(command: str | list[str]) -> list[str]:
    text = command if isinstance(command, str) else shlex.join(command)
    first, *rest = visible(text).splitlines() or [""]
    return [f"$ {first}", *(f"  {line}" for line in rest)]


def _arguments(arguments: Any) -> list[str]:
    if not isinstance(arguments, dict):
        return [one_line(json.dumps(arguments, ensure_ascii=False))]
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        first, *rest = visible(text).split("\n")
        lines += [f"{one_line(name)}: {first}", *(f"  {line}" for line in rest)]
    return lines


def _diffs(diffs: list[Payload]) -> list[str]:
    return [line for diff in diffs for line in _diff(diff)]


def _diff(diff: Payload) -> list[str]:
    old = visible(str(diff.get("oldText") or "")).splitlines()
    new = visible(str(diff.get("newText") or "")).splitlines()
    changes = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    kind = "new file" if diff.get("oldText") is None else "change"
    return [f"{kind} {one_line(str(diff.get('path')))}", *changes]


def _paths(paths: list[str]) -> list[str]:
    return [f"at {one_line(path)}" for path in paths]


def _texts(texts: list[str]) -> list[str]:
    return [line for text in texts for line in visible(text).splitlines()]


def _form(form: Payload) -> list[str]:
    if form.get("url"):
        return [f"open {one_line(str(form['url']))}"]
    return [_field(name, field) for name, field in fields_of(form).items()]


def fields_of(form: Payload) -> dict[str, Payload]:
    """Give a form's fields by name."""
    schema = form.get("requestedSchema")
    fields = schema.get("properties") if isinstance(schema, dict) else None
    return (
        {k: v for k, v in fields.items() if isinstance(v, dict)} if isinstance(fields, dict) else {}
    )


def values_of(field: Payload) -> list[tuple[str, str]]:
    """Give the values a field offers, each with its name; none: it takes free text."""
    source = field.get("items") if isinstance(field.get("items"), dict) else field
    assert source is not None
    if isinstance(titled := source.get("oneOf") or source.get("anyOf"), list):
        return [(str(v.get("const")), str(v.get("title", ""))) for v in titled if "const" in v]
    plain = source.get("enum")
    return [(str(value), "") for value in plain] if isinstance(plain, list) else []


def _field(name: str, field: Payload) -> str:
    label = one_line(str(field.get("title") or field.get("description") or ""))
    offered = " | ".join(
        f"{value} ({title})" if title and title != value else value
        for value, title in values_of(field)
    )
    kind = one_line(offered) or str(field.get("type", "string"))
    return f"{one_line(name)}: {label + '; ' if label else ''}{kind}"


_PARTS = (
    ("title", _title),
    ("command", _command),
    ("arguments", _arguments),
    ("diffs", _diffs),
    ("paths", _paths),
    ("texts", _texts),
    ("form", _form),
)
