"""What may be answered, and what an agent is told of it."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol import round_trip
from bridge.protocol.entry import RoundTrip
from bridge.protocol.errors import InvalidParams, UnknownOption
from bridge.protocol.round_trip import check_answer, result_for_agent

PERMISSION = RoundTrip("rt-1", "permission", "{}", "h", ["allow", "no"])
FORM = RoundTrip("rt-2", "elicitation", "{}", "h")


@pytest.mark.parametrize("option", ["allow", "no"])
def test_an_offered_option_is_selected(option):
    check_answer(PERMISSION, {"optionId": option})
    assert result_for_agent(PERMISSION, {"optionId": option}) == {
        "outcome": {"outcome": "selected", "optionId": option}
    }


@pytest.mark.parametrize(
    "answer", [{}, {"optionId": "always"}, {"optionId": None}, {"optionId": ["allow"]}], ids=str
)
def test_an_option_that_was_not_offered_is_refused(answer):
    with pytest.raises(UnknownOption, match="one of"):
        check_answer(PERMISSION, answer)


@pytest.mark.parametrize("action", sorted(round_trip.ACTIONS))
def test_a_forms_action_goes_to_the_agent(action):
    check_answer(FORM, {"action": action})
    assert result_for_agent(FORM, {"action": action, "more": 1}) == {"action": action}


def test_a_forms_content_goes_with_it():
    answer = {"action": "accept", "content": {"name": "x"}}
    assert result_for_agent(FORM, answer) == answer


@pytest.mark.parametrize("answer", [{}, {"action": "shrug"}, {"optionId": "allow"}], ids=str)
def test_an_action_that_is_none_is_refused(answer):
    with pytest.raises(InvalidParams, match="accept, decline or cancel"):
        check_answer(FORM, answer)


def test_without_an_answer_the_agent_is_told_the_truth():
    assert result_for_agent(PERMISSION, None) == {"outcome": {"outcome": "cancelled"}}
    assert result_for_agent(FORM, None) == {"action": "cancel"}


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_hash_is_of_the_subjects_utf8_bytes(subject):
    assert round_trip.hash_of(subject) == hashlib.sha256(subject.encode()).hexdigest()
