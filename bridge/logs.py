"""Log lines on stderr, plain or JSON: one per event, unforgeable by input, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SECRET = re.compile(
    r"eyJ[\w-]{5,}\.[\w-]*(?:\.[\w-]*)?"  # a JWT
    r"|(?<=://)[^/\s@]*:[^/\s@]*(?=@)"  # user and password of an address
    r"|(?<=signin=)[\w-]+|(?<=ticket=)[\w-]+|(?<=[Bb]earer )[\w.~+/-]+=*"
)
_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def configure(style: Literal["plain", "json"] = "plain", level: str = "info") -> None:
    """Send every logger's lines to stderr in one style."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else PlainLines())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    # At debug level these write headers, and with them tokens.
    for name in ("websockets", "uvicorn", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.INFO, logging.getLogger().level))
    # It tells of its start and end by lines of its own; ours say the same in our words.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


def safe(text: str) -> str:
    """Escape what could start a line or move a terminal's cursor, and cut out secrets."""
    return _UNSAFE.sub(_escape, _SECRET.sub("[secret]", text))


class PlainLines(logging.Formatter):
    """``2026-12-01T09:00:00.120Z info bridge.app: message key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line."""
        facts = "".join(f" {name}={safe(str(value))}" for name, value in _facts(record).items())
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {_message(record)}"
        return line + facts + _traceback(self, record)


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message and the event's own facts."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as one line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line.update((name, _plain(value)) for name, value in _facts(record).items())
        if trace := _traceback(self, record):
            line["traceback"] = trace.removeprefix("\\n")
        return json.dumps(line)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool | None) else safe(str(value))


def _message(record: logging.LogRecord) -> str:
    return safe(record.getMessage())


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    return "\\n" + safe(formatter.formatException(record.exc_info))


def _time(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    named = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return named or f"\\u{code:04x}"
