"""What an uplink can fail of, and whether trying again makes sense."""

import json
import logging
import ssl
import sys

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Response

from agent_side import connect, faults
from agent_side.link import Dead, HelloRefused
from agent_side.settings import SettingsError
from bridge.protocol.attachment import Reason

RELAY = "wss://r.test"


def status(code, body=b""):
    return InvalidStatus(Response(code, "", Headers(), body))


def closed(code=None, reason=""):
    return ConnectionClosedError(Close(code, reason) if code else None, None)


@pytest.mark.parametrize(
    ("error", "reason", "detail"),
    [
        (
            ConnectionRefusedError(111, "Connect call failed"),
            "relay_unreachable",
            "nothing listens",
        ),
        (TimeoutError(), "relay_unreachable", "no answer in time"),
        (OSError(113, "No route to host"), "relay_unreachable", "No route to host"),
        (status(502), "relay_unreachable", "HTTP 502"),
        (status(503, b'{"error":{"message":"redis"}}'), "relay_unreachable", "redis"),
        (status(404, b"<html>"), "relay_unreachable", "is that a relay"),
        (status(429, b'{"error":{"message":"slow down"}}'), "relay_unreachable", "slow down"),
        (closed(), "socket_closed", "broke"),
        (closed(1012, "relay restarts"), "relay_restarting", "relay restarts"),
        (closed(1013), "socket_closed", "1013"),
        (closed(4408, "too slow"), "socket_closed", "too slow"),
        (Dead(Reason.PONG_MISSED, "nothing heard"), "pong_missed", "nothing heard"),
        (HelloRefused({"code": -32013, "message": "redis"}), "relay_unreachable", "redis"),
    ],
)
def test_these_are_tried_again(error, reason, detail):
    fault = faults.read(error, RELAY)
    assert fault.exit is None
    assert fault.expected
    assert (fault.reason, detail in fault.detail) == (reason, True)


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (status(401, b'{"error":{"message":"expired 4 minutes ago"}}'), "token_expired", 3),
        (status(401), "refused", 3),
        (status(403), "refused", 3),
        (status(426), "refused", 1),
        (closed(4401), "refused", 3),
        (closed(4403), "refused", 3),
        (closed(4409, "newer process"), "replaced", 4),
        (closed(4426), "refused", 1),
        (HelloRefused({"code": -32015, "message": "held"}), "replaced", 4),
        (HelloRefused({"code": -32602, "message": "epoch a day ahead"}), "refused", 1),
        (HelloRefused({"code": -32000, "message": "who"}), "refused", 3),
        (SettingsError("no token"), "refused", 3),
    ],
)
def test_these_are_the_last_word(error, reason, code):
    fault = faults.read(error, RELAY)
    assert (fault.reason, fault.exit.code) == (reason, code)


def test_a_certificate_that_is_not_trusted_is_told_as_that():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    assert "self-signed" in faults.read(error, RELAY).detail


def test_what_nobody_expected_is_marked():
    assert not faults.read(ZeroDivisionError("x"), RELAY).expected


EVIL = "x\x1b[2K\r\nchimera-bridge: paired\u202e"


@pytest.mark.attack("S29", "a relay's words that would move the cursor of the machine's terminal")
@pytest.mark.parametrize(
    "error",
    [
        HelloRefused({"code": -32013, "message": EVIL}),
        closed(4409, EVIL),
        closed(1012, EVIL),
        status(401, json.dumps({"error": {"message": EVIL}}).encode()),
        status(403, json.dumps({"error": {"message": EVIL}}).encode()),
        OSError(EVIL),
    ],
)
def test_what_a_relay_says_is_one_line_of_plain_text(error):
    """S29."""
    fault = faults.read(error, RELAY)
    for said in (fault.detail, fault.exit.sentence if fault.exit else ""):
        assert said.isprintable()
    assert "x" in fault.detail


@pytest.mark.attack("S29", "what is logged of a relay's or an agent's words on the machine")
def test_a_line_of_the_log_cannot_be_forged(capsys):
    say_warnings_to = logging.StreamHandler(sys.stdout)
    say_warnings_to.setFormatter(connect._Lines())
    record = logging.makeLogRecord({"msg": "it says %s", "args": (EVIL,)})
    say_warnings_to.emit(record)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.rstrip("\n").isprintable()
