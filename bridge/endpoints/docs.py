"""The REST API as one page to read, without a script: what OpenAPI says, in a table."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import Any

from fastapi import APIRouter, Request, Response

from bridge.middleware import CLOSED_POLICY

router = APIRouter(include_in_schema=False)

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h2 { font-size: 1rem; margin: 2rem 0 .25rem; border-top: 1px solid #8884; padding-top: 1rem; }
code, h2 { font-family: ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #8884; padding: .25rem .75rem .25rem 0; vertical-align: top; }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"{CLOSED_POLICY}; style-src 'sha256-{_STYLE_HASH}'"


@router.get("/api/docs")
async def docs(request: Request) -> Response:
    """Show every endpoint with its parameters, body and answers."""
    schema = request.app.openapi()
    parts = [
        _section(path, verb, one)
        for path, verbs in schema["paths"].items()
        for verb, one in verbs.items()
    ]
    html = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(schema['info']['title'])} API</title><style>{STYLE}</style>"
        f"<h1>{escape(schema['info']['title'])} API {escape(schema['info']['version'])}</h1>"
        "<p>Send <code>Authorization: Bearer &lt;token&gt;</code> "
        "(<code>chimera-relay token --kind person …</code>). The same in full, for programs: "
        '<a href="/api/openapi.json">/api/openapi.json</a>.</p>' + "".join(parts)
    )
    return Response(html, media_type="text/html", headers={"content-security-policy": POLICY})


def _section(path: str, verb: str, one: dict[str, Any]) -> str:
    rows = [_parameter(parameter) for parameter in one.get("parameters", ())]
    rows += [_row("body", _shape(content)) for content in _contents(one.get("requestBody", {}))]
    rows += [_answer(status, answer) for status, answer in one["responses"].items()]
    says = escape(one.get("description", one.get("summary", "")))
    return f"<h2>{verb.upper()} {escape(path)}</h2><p>{says}</p><table>{''.join(rows)}</table>"


def _parameter(parameter: dict[str, Any]) -> str:
    schema = parameter["schema"]
    kinds = [schema, *schema.get("anyOf", ())]
    kind = " or ".join(str(one["type"]) for one in kinds if one.get("type", "null") != "null")
    facts = [kind, str(parameter.get("description", "")), "needed" if parameter["required"] else ""]
    name = f"{parameter['in']} {parameter['name']}"
    return _row(name, escape(", ".join(fact for fact in facts if fact)))


def _answer(status: str, answer: dict[str, Any]) -> str:
    shapes = [_shape(content) for content in _contents(answer)]
    return _row(status, " ".join([escape(answer.get("description", "")), *shapes]))


def _contents(holder: dict[str, Any]) -> list[dict[str, Any]]:
    return list(holder.get("content", {}).values())


def _shape(content: dict[str, Any]) -> str:
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    return f"<code>{escape(name)}</code>" if name else ""


def _row(name: str, value: str) -> str:
    return f"<tr><td><code>{escape(name)}</code></td><td>{value}</td></tr>"
