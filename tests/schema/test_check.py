import pytest
from schema.check import check_agent_message, check_client_message

HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": 1, "clientCapabilities": {}},
}


def test_a_client_may_initialize():
    check_client_message(HELLO)


def test_an_agent_may_not_initialize():
    with pytest.raises(AssertionError, match="initialize"):
        check_agent_message(HELLO)


@pytest.mark.parametrize(
    ("message", "answers"),
    [
        ({"id": 1, "result": {"sessionId": "s"}}, "session/new"),
        ({"id": 1, "result": {"stopReason": "end_turn"}}, "session/prompt"),
        ({"id": None, "error": {"code": -32700, "message": "not JSON"}}, None),
        ({"method": "$/cancel_request", "params": {"requestId": "q"}}, None),
        ({"method": "_bridge/gap", "params": {"sessionId": "s"}}, None),
        (
            {
                "method": "session/update",
                "params": {
                    "sessionId": "s",
                    "update": {
                        "sessionUpdate": "agent_message_chunk",
                        "content": {"type": "text", "text": "hi"},
                    },
                },
            },
            None,
        ),
    ],
    ids=["new", "prompt", "error", "cancel_request", "extension", "update"],
)
def test_what_agents_say_is_valid(message, answers):
    check_agent_message({"jsonrpc": "2.0", **message}, answers=answers)


@pytest.mark.parametrize(
    ("message", "answers"),
    [
        ({"id": 1, "result": {}}, "session/new"),
        ({"id": 1, "result": {"stopReason": "tired"}}, "session/prompt"),
        ({"id": 1.5, "result": {}}, None),
        ({"id": 1}, None),
        ({"method": "session/updates", "params": {}}, None),
        ({"method": "session/update", "params": {"update": {}}}, None),
        ({"method": "session/request_permission", "params": {"sessionId": "s"}, "id": 1}, None),
    ],
    ids=["no id", "stop reason", "float id", "empty", "unknown", "no session", "no options"],
)
def test_what_is_wrong_is_found(message, answers):
    with pytest.raises(AssertionError):
        check_agent_message({"jsonrpc": "2.0", **message}, answers=answers)
