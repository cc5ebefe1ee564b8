"""A session's transcript, as rows and as a page or a document made of them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from agent_side.doors.frames import Frame
from bridge.protocol.jsonrpc import Payload

STYLE = "body{font:16px/1.5 system-ui;max-width:48rem;margin:2rem auto}pre{overflow:auto}"
WHO = {"user": "You", "agent": "Agent", "tool": "Tool", "note": "Note"}


def rows(frames: Iterable[Frame]) -> list[Payload]:
    """Give what was said and done, the pieces of a text joined."""
    found: list[Payload] = []
    for frame in frames:
        row = _row(frame)
        if row is None:
            continue
        if found and row["who"] == "agent" == found[-1]["who"]:
            found[-1]["text"] += row["text"]
        else:
            found.append(row)
    return found


def markdown(title: str, said: list[Payload]) -> str:
    """Write the transcript as Markdown."""
    parts = [f"# {title}"]
    for row in said:
        text = row["text"] if row["who"] in ("user", "agent") else _fenced(row["text"])
        parts.append(f"**{WHO[row['who']]}**\n\n{text}")
    return "\n\n".join(parts) + "\n"


def page(title: str, said: list[Payload]) -> str:
    """Write the transcript as one page that loads nothing and runs nothing."""
    body = "".join(
        f"<section><h2>{WHO[row['who']]}</h2><pre>{escape(row['text'])}</pre></section>"
        for row in said
    )
    head = f"<meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"
    return f"<!doctype html>{head}<h1>{escape(title)}</h1>{body}\n"


def _row(frame: Frame) -> Payload | None:
    data = frame.data
    if frame.event == "loop_event" and data["type"] == "assistant_chunk":
        return {"who": "agent", "text": str((data["data"].get("content") or {}).get("text") or "")}
    if frame.event == "progress/step" and data["phase"] != "tool_call":
        return None
    who, field = _ROWS.get(frame.event, ("", ""))
    return {"who": who, "text": str(data[field])} if who else None


_ROWS = {  # who says it, and the field with the text
    "user_message": ("user", "text"),
    "progress/step": ("tool", "detail"),
    "code/diff": ("tool", "unifiedDiff"),
    "terminal/output": ("tool", "chunk"),
    "error": ("note", "error"),
}


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
