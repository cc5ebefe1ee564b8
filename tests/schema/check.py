"""Checks ACP messages against the official schema, one definition per method.

A response does not say which method it answers, so that is passed: ``answers="session/new"``.
Extensions (methods that start with ``_``) are allowed; other unknown methods are not.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SCHEMA = json.loads(Path(__file__).with_name("acp-v1.json").read_text())
REGISTRY = Registry().with_resource("acp:v1", DRAFT202012.create_resource(SCHEMA))
KINDS = ("Request", "Response", "Notification")
# What some clients say to every agent and every agent answers with an error; no definitions.
OURS = {"session/bridgeStatus"}


def check_agent_message(message: dict[str, Any], *, answers: str | None = None) -> None:
    """Raise AssertionError unless an agent may send this to a client."""
    _check(message, handled_by="client", answered_by="agent", answers=answers)


def check_client_message(message: dict[str, Any], *, answers: str | None = None) -> None:
    """Raise AssertionError unless a client may send this to an agent."""
    _check(message, handled_by="agent", answered_by="client", answers=answers)


def _check(message: dict[str, Any], handled_by: str, answered_by: str, answers: str | None) -> None:
    assert message.get("jsonrpc") == "2.0", message
    if "method" not in message:
        _check_response(message, answered_by, answers)
        return
    method, params = message["method"], message.get("params", {})
    kind = "Request" if "id" in message else "Notification"
    if kind == "Request":
        _valid("RequestId", message["id"], message)
    if method.startswith("_") or method in OURS:
        assert params is None or isinstance(params, dict), message
        return
    name = _definitions().get((handled_by, method, kind)) or _definitions().get(
        ("protocol", method, kind)
    )
    assert name, f"{method!r} is no {kind.lower()} that a {handled_by} handles: {message}"
    _valid(name, params, message)


def _check_response(message: dict[str, Any], answered_by: str, answers: str | None) -> None:
    assert ("result" in message) != ("error" in message), message
    if message.get("id") is not None:
        _valid("RequestId", message["id"], message)
    if "error" in message:
        _valid("Error", message["error"], message)
    elif answers and not answers.startswith("_") and answers not in OURS:
        _valid(_definitions()[answered_by, answers, "Response"], message["result"], message)


def _valid(name: str, instance: Any, message: dict[str, Any]) -> None:
    errors = sorted(_validator(name).iter_errors(instance), key=lambda e: len(e.path))
    assert not errors, f"not a {name}: {errors[0].message[:300]} in {json.dumps(message)[:600]}"


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"acp:v1#/$defs/{name}"}, registry=REGISTRY)


@cache
def _definitions() -> dict[tuple[str, str, str], str]:
    """Which definition belongs to (side, method, kind); the schema names the handling side."""
    found = {}
    for name, definition in SCHEMA["$defs"].items():
        kind = next((kind for kind in KINDS if name.endswith(kind)), None)
        if kind and "x-method" in definition:
            found[definition["x-side"], definition["x-method"], kind] = name
    return found
