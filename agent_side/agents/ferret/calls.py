"""The engine's tool calls as a client shows them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

KINDS = {
    "bash": "execute",
    "test": "execute",
    "git": "execute",
    "verify_answer": "execute",
    "cron_create": "execute",
    "write_file": "edit",
    "edit_file": "edit",
    "replace_in_file": "edit",
    "apply_patch": "edit",
    "notebook_edit": "edit",
    "read_file": "read",
    "read_image": "read",
    "list_files": "read",
    "search": "search",
    "repo_map": "search",
    "web_search": "fetch",
    "think": "think",
}


def describe(call: Any, cwd: Path) -> dict[str, Any]:
    """Give a tool call's card: everything that will run is in rawInput, an edit also as a diff."""
    arguments = call.arguments
    what = arguments.get("command") or arguments.get("path") or arguments.get("pattern") or ""
    kind = KINDS.get(call.name, "other")
    title = str(what) if call.name == "bash" and what else f"{call.name} {what}".strip()
    card = {"toolCallId": call.id, "title": title, "kind": kind, "rawInput": arguments}
    if isinstance(path := arguments.get("path"), str) and path:
        card["locations"] = [{"path": str(cwd / path)}]
        if kind == "edit" and (diff := diff_of(call.name, arguments, cwd / path)):
            card["content"] = [diff]
    return card


def diff_of(tool: str, arguments: dict[str, Any], path: Path) -> dict[str, Any] | None:
    """Give what an edit will change, or None when that cannot be told before."""
    try:
        old = path.read_text("utf-8", "replace") if path.exists() else None
        new = edited(tool, arguments, old or "")
    except (OSError, KeyError, TypeError, re.error):
        return None
    return {"type": "diff", "path": str(path), "oldText": old, "newText": new}


def edited(tool: str, arguments: dict[str, Any], text: str) -> str:
    """Give a file's text after an edit, as the tool will make it."""
    if tool == "write_file":
        return str(arguments["content"])
    if tool == "edit_file":
        return text.replace(arguments["old_string"], arguments["new_string"], 1)
    if tool == "replace_in_file":
        return re.sub(arguments["pattern"], arguments["replacement"], text)
    raise KeyError(tool)
