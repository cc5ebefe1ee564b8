"""How a transcript is written: as Markdown, and as a page of HTML that runs nothing.

All that agents and people said is data: HTML is escaped without exception, and what was run stands
in Markdown behind a fence that is longer than any inside it.
"""

from __future__ import annotations

import html
import re

from bridge.passages import RUNNING_TEXTS, Kind, Passage
from bridge.protocol.jsonrpc import Payload

# A page that came with a policy of its own would lose it on the disk; this one carries it along.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = (
    "body{max-width:72ch;margin:2rem auto;padding:0 1rem;font:15px/1.5 system-ui,sans-serif}"
    "h2{font-size:13px;color:#5f5f58;margin:1.5rem 0 .25rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.55 ui-monospace,monospace;"
    "background:#f0f0ed;padding:10px 12px;border-radius:8px;margin:0}"
    "p{white-space:pre-wrap;overflow-wrap:anywhere;margin:0}.thought{color:#5f5f58}"
    "@media(prefers-color-scheme:dark){body{background:#121312;color:#ececea}"
    "pre{background:#1f211f}h2,.thought{color:#a9aba7}}"
)
_LABELS = {
    Kind.PERSON: "Person",
    Kind.AGENT: "Agent",
    Kind.THOUGHT: "Thought",
    Kind.TOOL: "Tool",
    Kind.PLAN: "Plan",
    Kind.QUESTION: "Question",
    Kind.ANSWER: "Answer",
    Kind.TURN: "Turn ended",
    Kind.GAP: "Gap",
}
_FENCES = re.compile(r"`{3,}")


class Markdown:
    """Writes a transcript as Markdown."""

    def __init__(self, facts: Payload) -> None:
        """Begin with what is known of the session."""
        self._facts = facts
        self._running: Kind | None = None

    def head(self) -> str:
        """Give what stands before the first passage."""
        lines = [f"- {name}: {_line(value)}" for name, value in _known(self._facts)]
        return "\n".join([f"# {_line(_title(self._facts))}", "", *lines, "", _begin(self._facts)])

    def passage(self, passage: Passage) -> str:
        """Give one passage; pieces of one text go on without a new heading."""
        text = passage.text
        if passage.kind in RUNNING_TEXTS and passage.kind is self._running:
            return text
        self._running = passage.kind
        title = f"\n\n## {_heading(passage)}\n\n"
        if passage.kind in RUNNING_TEXTS:
            return title + text
        return title + (f"{_fence(text)}\n{text}\n{_fence(text)}" if text else "")

    def end(self) -> str:
        """Give what stands after the last one."""
        return "\n"


class Html:
    """Writes a transcript as a page of HTML."""

    def __init__(self, facts: Payload) -> None:
        """Begin with what is known of the session."""
        self._facts = facts
        self._running: Kind | None = None

    def head(self) -> str:
        """Give what stands before the first passage."""
        title = html.escape(_title(self._facts))
        facts = "".join(f"<br>{name}: {html.escape(value)}" for name, value in _known(self._facts))
        return (
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            '<meta name="viewport" content="width=device-width"><meta name="referrer" '
            f'content="no-referrer"><title>{title}</title><style>{_STYLE}</style>'
            f"<h1>{title}</h1><p>{html.escape(_begin(self._facts))}{facts}</p>\n"
        )

    def passage(self, passage: Passage) -> str:
        """Give one passage; pieces of one text go on in its paragraph."""
        text = html.escape(passage.text)
        if passage.kind in RUNNING_TEXTS and passage.kind is self._running:
            return text
        before = self._close()
        self._running = passage.kind if passage.kind in RUNNING_TEXTS else None
        title = f"<h2>{html.escape(_heading(passage))}</h2>\n"
        if self._running is not None:
            return f'{before}{title}<p dir="auto" class="{passage.kind.value}">{text}'
        return before + title + (f"<pre>{text}</pre>\n" if text else "")

    def end(self) -> str:
        """Give what stands after the last one."""
        return self._close() + "</html>\n"

    def _close(self) -> str:
        return "" if self._running is None else "</p>\n"


def _heading(passage: Passage) -> str:
    parts = (_LABELS[passage.kind], _line(passage.head), passage.at[:19].replace("T", " "))
    return " · ".join(part for part in parts if part)


def _title(facts: Payload) -> str:
    return str(facts["title"] or facts["cwd"] or facts["sessionId"])


def _known(facts: Payload) -> list[tuple[str, str]]:
    names = {"folder": "cwd", "agent": "agent", "session": "sessionId", "begun": "createdAt"}
    return [(name, str(facts[field])) for name, field in names.items() if facts[field]]


def _begin(facts: Payload) -> str:
    if facts["complete"]:
        return "History starts here."
    return (
        f"History starts here, at {facts['first'] or 'nothing'}: the relay keeps no earlier "
        "entries of this session; the machine it ran on may."
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _fence(text: str) -> str:
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    return "`" * (longest + 1)
