import json

import pytest

from agent_side.conversation import SENT_AT_MOST, WAITING_LIMIT, Conversation, Wishes
from bridge.protocol.errors import AgentUnavailable

ERROR = {"code": 7, "message": "x"}
HELLO = {"protocolVersion": 1, "clientCapabilities": {"x": 1}}


class Both:
    """An editor on one side, a relay on the other, a conversation between."""

    def __init__(self, **wishes):
        self.editor, self.relay = [], []
        self.conversation = Conversation(
            lambda text: self.editor.append(json.loads(text)), Wishes(**wishes)
        )

    def connect(self):
        self.conversation.connected(lambda text: self.relay.append(json.loads(text)))

    def said(self, **message):
        self.conversation.from_editor(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def told(self, **message):
        self.conversation.from_relay(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def update(self, seq, *, session="s", **meta):
        self.told(
            method="session/update",
            params={
                "sessionId": session,
                "update": {"n": seq},
                "_meta": {"chimera.bridge": {"epoch": 7, "seq": seq, **meta}},
            },
        )

    def shown(self):
        return [
            m["params"]["update"]["n"] for m in self.editor if m.get("method") == "session/update"
        ]

    def attached(self, session="s"):
        """Go to where the editor has loaded a session up to entry 7:2."""
        self.connect()
        self.said(id=0, method="initialize", params=HELLO)
        self.told(id=0, result={"protocolVersion": 1})
        self.said(id=1, method="session/load", params={"sessionId": session, "cwd": "/w"})
        self.update(1)
        self.update(2)
        self.told(id=1, result={})
        return self

    def again(self):
        """Lose the connection and be taken back on another, up to the resumes."""
        self.conversation.lost("reset")
        self.relay.clear()
        self.connect()
        self.told(id=self.relay[0]["id"], result={"protocolVersion": 1})


@pytest.fixture
def both():
    return Both().attached()


def test_what_both_say_passes_through(both):
    assert [m.get("method") for m in both.relay] == ["initialize", "session/load"]
    assert both.shown() == [1, 2]
    assert [m["id"] for m in both.editor if "result" in m] == [0, 1]


def test_payloads_stay_the_bytes_they_were():
    both = Both()
    both.connect()
    sent = []
    both.conversation.connected(sent.append)
    both.conversation.from_editor(
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{ "a" : 1.0}}'
    )
    assert b'{ "a" : 1.0}' in sent[0]


def test_what_is_said_before_the_relay_is_there_waits_in_order():
    both = Both()
    both.said(id=0, method="initialize", params=HELLO)
    both.said(id=1, method="session/list", params={})
    both.connect()
    assert [m["method"] for m in both.relay] == ["initialize"]
    both.told(id=0, result={})
    assert [m["method"] for m in both.relay] == ["initialize", "session/list"]


def test_initialize_must_come_first():
    both = Both()
    both.said(id=5, method="session/list", params={})
    assert (both.editor[0]["id"], both.editor[0]["error"]["code"]) == (5, -32600)


def test_broken_json_is_answered_and_not_carried(both):
    seen = len(both.relay)
    both.conversation.from_editor(b'{"id":')
    assert both.editor[-1]["error"]["code"] == -32700
    assert len(both.relay) == seen


def test_too_many_waiting_messages_are_refused(both):
    both.conversation.lost("reset")
    for n in range(WAITING_LIMIT + 1):
        both.said(id=100 + n, method="session/list", params={})
    assert both.editor[-1]["id"] == 100 + WAITING_LIMIT
    assert both.editor[-1]["error"]["data"]["reason"] == "overloaded"


# A lost relay.


def test_requests_in_flight_get_an_error_that_says_so(both):
    both.said(id=9, method="session/set_mode", params={"sessionId": "s", "modeId": "plan"})
    both.conversation.lost("connection reset")
    assert both.editor[-1]["id"] == 9
    assert "connection reset" in both.editor[-1]["error"]["message"]
    assert both.editor[-1]["error"]["data"]["reason"] == "relay_unreachable"


def test_a_prompt_in_flight_is_sent_again_under_the_id_of_its_mail(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    first, seen = both.relay[-1], len(both.editor)
    both.again()
    assert [m["method"] for m in both.relay] == ["initialize", "session/resume", "session/prompt"]
    assert both.relay[-1] == first
    both.told(id=9, result={"stopReason": "end_turn"})
    assert [m["id"] for m in both.editor[seen:]] == [9]


@pytest.mark.parametrize(
    ("turn", "answer"),
    [
        ({"state": "ended", "stopReason": "refusal"}, {"result": {"stopReason": "refusal"}}),
        (
            {"state": "ended", "error": {"code": 7, "message": "x"}},
            {"error": {"code": 7, "message": "x"}},
        ),
    ],
    ids=["ended", "failed"],
)
def test_a_turn_that_ended_meanwhile_answers_its_prompt_once(both, turn, answer):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    mail_id = both.relay[-1]["params"]["_meta"]["chimera.bridge"]["mailId"]
    both.again()
    both.told(method="_bridge/turn", params={"sessionId": "s", "mailId": "other", **turn})
    both.told(method="_bridge/turn", params={"sessionId": "s", "mailId": mail_id, **turn})
    both.told(id=9, result={"stopReason": "end_turn"})
    assert [m for m in both.editor if m.get("id") == 9] == [{"jsonrpc": "2.0", "id": 9, **answer}]


def test_a_prompt_that_was_too_big_is_not_sent_again(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    both.conversation.lost("message too big", too_big=True)
    assert both.editor[-1]["id"] == 9
    assert "message too big" in both.editor[-1]["error"]["message"]


def test_a_prompt_is_not_sent_for_ever(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    for _ in range(SENT_AT_MOST):
        both.again()
    assert [m["method"] for m in both.relay] == ["initialize", "session/resume"]
    assert [m["id"] for m in both.editor if "error" in m] == [9]


def test_a_turn_that_a_crash_cut_off_is_an_error(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    mail_id = both.relay[-1]["params"]["_meta"]["chimera.bridge"]["mailId"]
    both.again()
    turn = {"sessionId": "s", "mailId": mail_id, "state": "unknown"}
    both.told(method="_bridge/turn", params=turn)
    assert "not known" in both.editor[-1]["error"]["message"]


def test_sessions_are_resumed_after_the_last_entry_the_editor_has(both):
    both.again()
    assert [m["method"] for m in both.relay] == ["initialize", "session/resume"]
    assert both.relay[0]["params"] == HELLO
    resume = both.relay[1]["params"]
    assert (resume["sessionId"], resume["cwd"]) == ("s", "/w")
    assert resume["_meta"]["chimera.bridge"]["cursor"] == "7:2"


def test_our_own_answers_are_not_shown_to_the_editor(both):
    seen = len(both.editor)
    both.again()
    both.told(id=both.relay[1]["id"], result={})
    assert both.editor[seen:] == []


def test_what_the_editor_has_is_not_shown_again(both):
    both.again()
    for seq in (1, 2, 3):
        both.update(seq)
    assert both.shown() == [1, 2, 3]


def test_an_initialize_in_flight_is_sent_again():
    both = Both()
    both.connect()
    both.said(id=0, method="initialize", params=HELLO)
    both.conversation.lost("reset")
    both.connect()
    both.told(id=0, result={"protocolVersion": 1})
    assert [m["id"] for m in both.relay] == [0, 0]
    assert [m["id"] for m in both.editor] == [0]


def test_a_load_that_was_cut_off_is_forgotten(both):
    both.said(id=2, method="session/load", params={"sessionId": "t", "cwd": "/w"})
    both.update(1, session="t")
    both.again()
    assert [m["params"]["sessionId"] for m in both.relay[1:]] == ["s"]


def test_open_questions_are_withdrawn_and_late_answers_dropped(both):
    both.told(id=4, method="session/request_permission", params={"sessionId": "s"})
    known = both.editor[-1]["id"]
    both.again()
    withdrawn = both.editor[-1]
    assert withdrawn["method"] == "$/cancel_request"
    assert withdrawn["params"]["requestId"] == known
    both.told(id=4, method="session/request_permission", params={"sessionId": "s"})
    seen = len(both.relay)
    both.said(id=known, result={"outcome": {"outcome": "selected", "optionId": "yes"}})
    assert both.relay[seen:] == []  # the new question has another id at the editor
    both.said(id=both.editor[-1]["id"], result={"outcome": {}})
    assert both.relay[-1] == {"jsonrpc": "2.0", "id": 4, "result": {"outcome": {}}}


def test_a_session_that_is_gone_is_resumed_no_more(both):
    both.again()
    both.told(id=both.relay[1]["id"], error={"code": -32002, "message": "no session"})
    both.again()
    assert [m["method"] for m in both.relay] == ["initialize"]


def test_a_relay_that_does_not_take_us_back_is_left(both):
    both.again()
    with pytest.raises(AgentUnavailable, match="redis is away"):
        both.told(id=both.relay[1]["id"], error={"code": -32013, "message": "redis is away"})


def test_an_echo_of_an_own_prompt_after_a_reconnect_is_not_shown(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    mail_id = both.relay[-1]["params"]["_meta"]["chimera.bridge"]["mailId"]
    both.again()
    both.update(3, mailId=mail_id, origin={"subject": "me"})
    both.update(4, mailId="another", origin={"subject": "you"})
    assert both.shown() == [1, 2, 4]


def test_a_load_shows_own_prompts_as_history(both):
    both.said(id=9, method="session/prompt", params={"sessionId": "s", "prompt": []})
    mail_id = both.relay[-1]["params"]["_meta"]["chimera.bridge"]["mailId"]
    both.said(id=10, method="session/load", params={"sessionId": "s", "cwd": "/w"})
    for seq in (1, 2):
        both.update(seq)
    both.update(3, mailId=mail_id)
    assert both.shown() == [1, 2, 1, 2, 3]


def test_a_closed_session_is_not_resumed(both):
    both.said(id=3, method="session/close", params={"sessionId": "s"})
    both.told(id=3, result={})
    both.again()
    assert [m["method"] for m in both.relay] == ["initialize"]


def test_a_question_the_relay_takes_back_is_taken_back_under_the_editors_id(both):
    both.told(id=4, method="session/request_permission", params={"sessionId": "s"})
    known = both.editor[-1]["id"]
    both.told(method="$/cancel_request", params={"requestId": 4})
    assert both.editor[-1]["params"] == {"requestId": known}


# What the command line says of new sessions.


def test_a_new_session_can_mean_one_that_is_there():
    both = Both(session="old")
    both.connect()
    both.said(id=0, method="initialize", params=HELLO)
    both.told(id=0, result={})
    both.said(id=1, method="session/new", params={"cwd": "/here", "mcpServers": []})
    sent = both.relay[-1]
    both.told(id=1, result={"modes": None})
    both.update(1, session="old")
    assert (sent["method"], sent["params"]["sessionId"]) == ("session/resume", "old")
    assert sent["params"]["_meta"]["chimera.bridge"]["cursor"] == "0:0"
    assert both.editor[1]["result"]["sessionId"] == "old"
    assert both.shown() == [1]


def test_new_sessions_go_to_the_agent_and_folder_that_were_named():
    both = Both(agent="a7", cwd="/srv/app")
    both.connect()
    both.said(id=0, method="initialize", params=HELLO)
    both.told(id=0, result={})
    both.said(id=1, method="session/new", params={"cwd": "/here", "_meta": {"k": 1}})
    params = both.relay[-1]["params"]
    assert params["cwd"] == "/srv/app"
    assert params["_meta"] == {"k": 1, "chimera.bridge": {"agent": "a7"}}


def test_a_new_session_is_resumed_from_where_its_result_says():
    both = Both()
    both.connect()
    both.said(id=0, method="initialize", params=HELLO)
    both.told(id=0, result={})
    both.said(id=1, method="session/new", params={"cwd": "/w"})
    both.told(id=1, result={"sessionId": "n", "_meta": {"chimera.bridge": {"cursor": "7:5"}}})
    both.again()
    assert both.relay[1]["params"]["_meta"]["chimera.bridge"]["cursor"] == "7:5"
