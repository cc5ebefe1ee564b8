"""What a log's entries say to a reader: who said what, what was done, asked and answered."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from bridge.protocol import entry
from bridge.protocol.jsonrpc import Payload


class Kind(Enum):
    """Whose words a passage are, or what it tells."""

    PERSON = "person"
    AGENT = "agent"
    THOUGHT = "thought"
    TOOL = "tool"
    PLAN = "plan"
    QUESTION = "question"
    ANSWER = "answer"
    TURN = "turn"
    GAP = "gap"


RUNNING_TEXTS = frozenset({Kind.PERSON, Kind.AGENT, Kind.THOUGHT})  # said in many pieces


class Passage(NamedTuple):
    """One thing that a log tells."""

    kind: Kind
    head: str  # one line
    text: str = ""  # literally what was said, run or answered
    at: str = ""  # ISO 8601


_CHUNKS = {
    "user_message_chunk": Kind.PERSON,
    "agent_message_chunk": Kind.AGENT,
    "agent_thought_chunk": Kind.THOUGHT,
}


def passages(message: Payload) -> Iterator[Passage]:
    """Read one entry; what only a machine reads gives nothing."""
    params = _dict(message.get("params"))
    meta = _dict(_dict(params.get("_meta")).get(entry.META_KEY))
    found = _read(str(message.get("method")), params, meta)
    if found is not None:
        yield found._replace(at=str(meta.get("at", "")))


def _read(method: str, params: Payload, meta: Payload) -> Passage | None:
    if method == entry.UPDATE:
        return _update(_dict(params.get("update")), meta)
    if method in entry.QUESTIONS:
        return _question(params, _dict(meta.get("roundTrip")))
    if method == entry.RESOLVED:
        return _answer(params)
    if method == entry.TURN:
        return _turn(params)
    if method == entry.GAP:
        return Passage(Kind.GAP, f"some updates are missing: {params.get('reason', '')}")
    return None


def _update(update: Payload, meta: Payload) -> Passage | None:
    kind = str(update.get("sessionUpdate", ""))
    if kind in _CHUNKS:
        who = str(_dict(meta.get("origin")).get("subject", ""))
        return Passage(_CHUNKS[kind], who, _block(_dict(update.get("content"))))
    if kind in {"tool_call", "tool_call_update"}:
        return _tool(update)
    if kind == "plan":
        steps = [_dict(step) for step in _list(update.get("entries"))]
        lines = [f"[{step.get('status', '')}] {step.get('content', '')}" for step in steps]
        return Passage(Kind.PLAN, "", "\n".join(lines))
    return None


def _tool(update: Payload) -> Passage | None:
    """Tell a call when it begins and when it ended; what comes between adds to neither."""
    is_new = update.get("sessionUpdate") == "tool_call"
    status = str(update.get("status", ""))
    if not is_new and status not in {"completed", "failed"}:
        return None
    command = _dict(update.get("rawInput")).get("command") if is_new else None
    if isinstance(command, list):
        command = " ".join(map(str, command))
    told = [_content(_dict(one)) for one in _list(update.get("content"))]
    text = "\n".join(part for part in [str(command or ""), *told] if part)
    head = " ".join(str(update.get(name) or "") for name in ("title", "status")).strip()
    return Passage(Kind.TOOL, head, text)


def _content(content: Payload) -> str:
    if content.get("type") == "diff":
        old = [f"- {line}" for line in str(content.get("oldText") or "").splitlines()]
        new = [f"+ {line}" for line in str(content.get("newText") or "").splitlines()]
        return "\n".join([str(content.get("path", "")), *old, *new])
    return _block(_dict(content.get("content")))


def _question(params: Payload, asked: Payload) -> Passage:
    subject = _subject(str(asked.get("subject", "")))
    head = str(subject.get("title") or params.get("message") or "")
    risk = asked.get("risk")
    text = subject.get("command") or ""
    return Passage(Kind.QUESTION, f"{head} ({risk} risk)" if risk else head, str(text))


def _answer(params: Payload) -> Passage:
    by = _dict(params.get("by"))
    answer = _dict(params.get("answer"))
    what = answer.get("optionId") or answer.get("action") or "no answer"
    who = str(by.get("subject") or params.get("reason", ""))
    return Passage(Kind.ANSWER, f"{what}, {params.get('result', '')}: {who}")


def _turn(params: Payload) -> Passage | None:
    if params.get("state") in {"queued", "started"}:
        return None
    error = str(_dict(params.get("error")).get("message", ""))
    return Passage(Kind.TURN, str(params.get("stopReason") or params.get("state", "")), error)


def _block(block: Payload) -> str:
    """Give a block's text; what is no text is named, never left out."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    resource = _dict(block.get("resource"))
    named = resource.get("text") or resource.get("uri") or block.get("uri")
    return str(named or (f"[{block['type']}]" if "type" in block else ""))


def _subject(text: str) -> Payload:
    try:
        return _dict(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _dict(value: Any) -> Payload:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
