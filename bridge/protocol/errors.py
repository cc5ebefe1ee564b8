"""Every error that crosses the wire, with what each edge needs.

BridgeError
├── ParseError            -32700  400  bytes that are not JSON
├── InvalidRequest        -32600  400  JSON that is no request, or at the wrong time
├── MethodNotFound        -32601  404
├── InvalidParams         -32602  400
│   ├── UnknownOption             an option that the agent did not offer
│   ├── CwdNotAllowed             a folder outside the configured roots
│   ├── UntrustedWorkspace        a folder that the machine's owner has not trusted
│   └── RestartRequired           a setting that is fixed when the connector starts
├── InternalError         -32603  500
├── RequestCancelled      -32800  499
├── AuthRequired          -32000  401
│   └── TokenInvalid              expired, foreign, forged: 4401
├── NotFound              -32002  404  unknown and foreign ids look the same
├── NotAllowed            -32010  403  the role does not allow it
│   ├── SignatureRequired         the machine takes this only from a paired device
│   ├── SignatureRefused          what a device signed does not hold here
│   ├── PasskeyRequired           a rule wants a fresh touch of a passkey
│   └── PairingRefused            a device cannot be paired like that
├── RoundTripClosed       -32011  409  the question ended otherwise
├── AgentUnavailable      -32012  409  no agent, several agents, or it is away
├── StoreUnavailable      -32013  503  Redis does not answer
├── Overloaded            -32014  503  a bound is reached; try later
├── Replaced              -32015  409  another connector process holds the claim
├── MessageTooBig         -32016  413
├── RateLimited           -32019  429  asked for too often; `retryAfter` seconds
├── EditedLater           -32017  409  files were edited after the turn that is to be undone
└── UndoImpossible        -32018  409  a turn runs there, or nothing is kept
"""

from __future__ import annotations

from typing import Any, ClassVar


class BridgeError(Exception):
    """An error with a JSON-RPC code, an HTTP status, a close code and a stable reason word."""

    code: ClassVar[int] = -32603
    status: ClassVar[int] = 500
    close_code: ClassVar[int] = 4400
    reason: ClassVar[str] = "internal_error"

    def __init__(self, message: str, **data: Any) -> None:
        """Keep the sentence for people and the facts for programs."""
        super().__init__(message)
        self.message = message
        self.data: dict[str, Any] = {"reason": self.reason, **data}

    def as_object(self) -> dict[str, Any]:
        """Give the JSON-RPC error object (JSON-RPC 2.0 section 5.1)."""
        return {"code": self.code, "message": self.message, "data": self.data}


class ParseError(BridgeError):
    """The bytes are not JSON."""

    code, status, close_code, reason = -32700, 400, 1007, "parse_error"


class InvalidRequest(BridgeError):
    """The JSON is not a JSON-RPC message, or it came at the wrong time."""

    code, status, close_code, reason = -32600, 400, 1002, "invalid_request"


class MethodNotFound(BridgeError):
    """Nobody here answers this method."""

    code, status, reason = -32601, 404, "method_not_found"


class InvalidParams(BridgeError):
    """The parameters are missing, of the wrong type or out of range."""

    code, status, reason = -32602, 400, "invalid_params"


class UnknownOption(InvalidParams):
    """The answer names an option that the agent did not offer."""

    reason = "unknown_option"


class CwdNotAllowed(InvalidParams):
    """The folder lies outside what the machine's owner allowed."""

    reason = "cwd_not_allowed"


class UntrustedWorkspace(InvalidParams):
    """The machine's owner has not said that agents may run in this folder."""

    reason = "untrusted_workspace"


class RestartRequired(InvalidParams):
    """This is fixed when the connector starts."""

    reason = "restart_required"


class InternalError(BridgeError):
    """Something broke here."""


class RequestCancelled(BridgeError):
    """The request was cancelled before it was answered."""

    code, status, reason = -32800, 499, "cancelled"


class AuthRequired(BridgeError):
    """Nobody is signed in."""

    code, status, close_code, reason = -32000, 401, 4401, "auth_required"


class TokenInvalid(AuthRequired):
    """The token is expired, foreign or forged."""

    reason = "token_invalid"


class NotFound(BridgeError):
    """There is no such thing, or it belongs to another tenant."""

    code, status, close_code, reason = -32002, 404, 4404, "not_found"


class NotAllowed(BridgeError):
    """The role does not allow it."""

    code, status, close_code, reason = -32010, 403, 4403, "not_allowed"


class SignatureRequired(NotAllowed):
    """The machine takes this only with the signature of a paired device."""

    reason = "signature_required"


class SignatureRefused(NotAllowed):
    """A signature is malformed, of another device, about something else, or too late."""

    reason = "signature_refused"


class PasskeyRequired(NotAllowed):
    """A rule wants a passkey touched for this very question."""

    reason = "passkey_required"


class PairingRefused(NotAllowed):
    """A device cannot be paired like that."""

    reason = "pairing_refused"


class RoundTripClosed(BridgeError):
    """The question has ended already."""

    code, status, reason = -32011, 409, "round_trip_closed"


class AgentUnavailable(BridgeError):
    """No agent can take this."""

    code, status, reason = -32012, 409, "agent_unavailable"


class StoreUnavailable(BridgeError):
    """Redis does not answer; nothing was recorded."""

    code, status, close_code, reason = -32013, 503, 1013, "store_unavailable"


class Overloaded(BridgeError):
    """A bound is reached; try again later."""

    code, status, close_code, reason = -32014, 503, 1013, "overloaded"


class RateLimited(BridgeError):
    """One asks for too much at once; ``retryAfter`` says in how many seconds to come again."""

    code, status, close_code, reason = -32019, 429, 4429, "rate_limited"


class Replaced(BridgeError):
    """Another connector process holds the claim."""

    code, status, close_code, reason = -32015, 409, 4409, "replaced"


class MessageTooBig(BridgeError):
    """The message is larger than the limit."""

    code, status, close_code, reason = -32016, 413, 1009, "message_too_big"


class EditedLater(BridgeError):
    """An undo would overwrite edits that were made after the turn."""

    code, status, reason = -32017, 409, "edited_later"


class UndoImpossible(BridgeError):
    """The turn cannot be undone now, or not at all."""

    code, status, reason = -32018, 409, "undo_impossible"


def read(error: dict[str, Any]) -> BridgeError:
    """Give the error that a JSON-RPC error object of the other program stands for."""
    found = error.get("data")
    data = dict(found) if isinstance(found, dict) else {}
    reason = data.pop("reason", None)
    kind = _kinds(BridgeError).get(str(reason), InternalError)
    return kind(str(error.get("message", "it was refused")), **{str(k): v for k, v in data.items()})


def _kinds(of: type[BridgeError]) -> dict[str, type[BridgeError]]:
    """Give the errors of this table by their reasons."""
    found = {one.reason: one for one in of.__subclasses__() if one.__module__ == __name__}
    for one in tuple(found.values()):
        found |= _kinds(one)
    return found
