"""Log lines: one per event, whatever is in it, and no secret in any."""

import io
import json
import logging

import pytest

from bridge.logs import JsonLines, PlainLines, configure, safe
from bridge.protocol.acp import Role
from bridge.tokens import Tokens

HOSTILE = "a\r\n2026 error forged\x1b[2Jb\u2028c\u202ed\x00\x7f\x85"


def lines(formatter, *args, **extra) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    record = logging.LogRecord("bridge.x", logging.INFO, "x.py", 1, "said %s", args, None)
    vars(record).update(extra)
    handler.handle(record)
    return stream.getvalue().splitlines()


def test_a_plain_line_cannot_be_split_or_forged():
    [line] = lines(PlainLines(), HOSTILE, client=HOSTILE)
    assert line.isprintable()
    assert r"a\r\n2026 error forged\u001b[2Jb\u2028c\u202ed\u0000\u007f\u0085" in line


def test_a_json_line_is_one_object_with_the_facts_of_its_event():
    [line] = lines(JsonLines(), HOSTILE, status=200, client="::1")
    found = json.loads(line)
    assert (found["level"], found["logger"], found["status"]) == ("info", "bridge.x", 200)
    assert found["client"] == "::1"
    assert "\n" not in found["message"]


@pytest.mark.parametrize("formatter", [PlainLines(), JsonLines()], ids=["plain", "json"])
def test_a_traceback_stays_on_the_line_of_its_event(formatter):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger = logging.getLogger("bridge.of_this_test")
    logger.addHandler(handler)
    try:
        int("first\nsecond")
    except ValueError:
        logger.exception("broke")
    finally:
        logger.removeHandler(handler)
    [line] = stream.getvalue().splitlines()
    assert "ValueError: invalid literal" in line


def test_secrets_are_cut_out_wherever_they_stand(tmp_path):
    token = Tokens(tmp_path).issue("person", "alice", "acme", Role.ADMIN)
    text = (
        f"token {token} Authorization: Bearer abc.def-123== redis://user:hunter2@host:6379/0 "
        "/#signin=s3cret-link /acp?ticket=t1cket"
    )
    shown = safe(text)
    for secret in (token, token.split(".")[2], "abc.def-123", "hunter2", "s3cret-link", "t1cket"):
        assert secret not in shown
    assert shown.count("[secret]") == 5
    assert "host:6379/0" in shown


def test_the_loggers_that_write_headers_stay_quiet_at_debug_level():
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        configure("plain", "debug")
        assert logging.getLogger("bridge").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("websockets.server").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("uvicorn.error").isEnabledFor(logging.INFO)
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
