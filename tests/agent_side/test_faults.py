"""What an uplink can fail of, and whether trying again makes sense."""

import ssl

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.frames import Close
from websockets.http11 import Response

from agent_side import faults
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
