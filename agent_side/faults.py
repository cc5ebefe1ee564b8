"""What an uplink can fail of: how it is told to people, and whether trying again makes sense."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import msgspec
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidStatus,
    InvalidURI,
)

from agent_side.doors.visible import one_line
from agent_side.link import Dead, HelloRefused
from agent_side.settings import SettingsError
from bridge.protocol.attachment import Reason
from bridge.protocol.close_codes import CloseCode
from bridge.protocol.errors import (
    AuthRequired,
    BridgeError,
    InvalidParams,
    InvalidRequest,
    NotAllowed,
    Replaced,
)

FAULT, REFUSED, REPLACED = 1, 3, 4  # exit codes
RETRY_AFTER_MOST = 60.0  # seconds; whatever a relay says

EXPECTED = (
    OSError,
    TimeoutError,
    ConnectionClosed,
    InvalidHandshake,
    InvalidProxy,
    InvalidURI,
    HelloRefused,
    Dead,
    BridgeError,
    SettingsError,
    msgspec.DecodeError,
    ImportError,  # a SOCKS proxy without its package
)

# HTTP statuses, close codes and JSON-RPC error codes that are the relay's last word.
UNAUTHENTICATED = frozenset({401, int(CloseCode.TOKEN_INVALID), AuthRequired.code})
FORBIDDEN = frozenset({403, int(CloseCode.NOT_ALLOWED), NotAllowed.code})
TAKEN_OVER = frozenset({int(CloseCode.REPLACED), Replaced.code})
OUTDATED = frozenset({426, int(CloseCode.UPGRADE_REQUIRED)})
MISUNDERSTOOD = frozenset({int(CloseCode.BAD_REQUEST), InvalidParams.code, InvalidRequest.code})


@dataclass(frozen=True)
class ExitReason:
    """Why the connector ends: the process's exit code and a sentence."""

    code: int
    sentence: str


@dataclass(frozen=True)
class Fault:
    """One failure of the uplink."""

    reason: Reason
    detail: str  # for people; what the relay said, when it said something
    exit: ExitReason | None = None  # set: trying again does not help
    token_refused: bool = False
    expected: bool = True


def read(error: Exception, relay: str) -> Fault:
    """Sort an exception of a connection to a relay."""
    detail, code = one_line(_said(error)), _code(error)
    if isinstance(error, SettingsError):
        return Fault(Reason.REFUSED, detail, ExitReason(REFUSED, detail), token_refused=True)
    if code in UNAUTHENTICATED:
        sentence = (
            f"{relay} does not take the token ({detail}): get another one with "
            "`chimera-relay token --kind agent` and set FERRET_BRIDGE_TOKEN or --token-file"
        )
        reason = Reason.TOKEN_EXPIRED if "expired" in detail else Reason.REFUSED
        return Fault(reason, detail, ExitReason(REFUSED, sentence), token_refused=True)
    if (final := _last_word(code, relay, detail)) is not None:
        reason = Reason.REPLACED if final.code == REPLACED else Reason.REFUSED
        return Fault(reason, detail, final)
    return Fault(_reason(error, code), detail, expected=isinstance(error, EXPECTED))


def retry_after(error: Exception) -> float:
    """Give the seconds that a relay which is full asked us to wait; 0 when it said nothing."""
    if not isinstance(error, InvalidStatus):
        return 0.0
    text = error.response.headers.get("Retry-After", "")
    return min(float(text), RETRY_AFTER_MOST) if text.isdecimal() else 0.0


def _last_word(code: int | None, relay: str, detail: str) -> ExitReason | None:
    if code in FORBIDDEN:
        return ExitReason(REFUSED, f"{relay} does not allow this connector: {detail}")
    if code in TAKEN_OVER:
        sentence = f"another connector process has taken over this agent ({detail}); this one ends"
        return ExitReason(REPLACED, sentence)
    if code in OUTDATED:
        sentence = f"{relay} speaks another version of the uplink: update chimera-bridge"
        return ExitReason(FAULT, sentence)
    if code in MISUNDERSTOOD:
        return ExitReason(FAULT, f"{relay} does not take what we say: {detail}")
    return None


def _reason(error: Exception, code: int | None) -> Reason:
    if isinstance(error, Dead):
        return error.reason
    if code == CloseCode.RESTARTING:
        return Reason.RELAY_RESTARTING
    if isinstance(error, ConnectionClosed):
        return Reason.SOCKET_CLOSED
    return Reason.RELAY_UNREACHABLE


def _code(error: Exception) -> int | None:
    match error:
        case InvalidStatus():
            return error.response.status_code
        case ConnectionClosed():
            return error.rcvd.code if error.rcvd else None
        case HelloRefused():
            return error.code
    return None


def _said(error: Exception) -> str:
    match error:
        case InvalidStatus():
            return _of_response(error)
        case ConnectionClosed():
            return _of_close(error)
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case TimeoutError():
            return "no answer in time"
        case ConnectionRefusedError():
            return "nothing listens there"
    return str(error) or type(error).__name__


def _of_close(error: ConnectionClosed) -> str:
    if error.rcvd is None:
        return "the connection broke"
    return error.rcvd.reason or f"close code {error.rcvd.code}"


def _of_response(error: InvalidStatus) -> str:
    status = error.response.status_code
    try:
        said = msgspec.json.decode(bytes(error.response.body or b""))["error"]["message"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return f"HTTP {status}, is that a relay?"
    return f"HTTP {status}: {str(said)[:500]}"
