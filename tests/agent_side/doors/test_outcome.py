import pytest

from agent_side.doors.outcome import outcome
from bridge.protocol.entry import Origin
from bridge.protocol.round_trip import Reason, Resolved, Result

ALICE = Origin(subject="alice", device="pixel", door="page")
BOB = Origin(subject="bob", door="editor")
OPTIONS = [{"optionId": "yes", "name": "Allow once"}, {"optionId": "no"}]


@pytest.mark.parametrize(
    ("reason", "answer", "by", "says"),
    [
        (Reason.DECIDED, {"optionId": "yes"}, ALICE, "Allow once, by alice (pixel)"),
        (
            Reason.LOCAL,
            {"optionId": "no"},
            Origin(subject="bob", door="editor"),
            "no, by bob (editor)",
        ),
        (Reason.LOCAL, {"action": "decline"}, Origin(subject="bob"), "decline, by bob"),
        (Reason.LOCAL, None, None, "cancelled, by somebody"),
        (Reason.RULE, {"optionId": "yes"}, None, "Allow once, by a rule"),
        (Reason.TURN_ENDED, None, None, "its turn ended"),
    ],
)
def test_it_says_what_was_answered_and_by_whom(reason, answer, by, says):
    assert outcome({"options": OPTIONS}, Resolved("rt", Result.VOID, reason, answer, by)) == says


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_words(reason):
    assert outcome(
        {"options": OPTIONS}, Resolved("rt", Result.VOID, reason, {"optionId": "yes"}, ALICE)
    )
