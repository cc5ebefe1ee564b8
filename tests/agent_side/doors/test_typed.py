import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_side.doors.typed import NotUnderstood, answer_of, is_allowing, split
from bridge.protocol import round_trip
from bridge.protocol.entry import RoundTrip

OPTIONS = [
    ["once", "Allow once", "allow_once"],
    ["2", "Odd", "allow_always"],
    ["no", "Reject", "reject_once"],
]


def permission():
    subject = json.dumps({"v": 1, "options": OPTIONS})
    return RoundTrip("rt", "permission", subject, "", [option[0] for option in OPTIONS])


def form(**fields):
    schema = {"properties": fields, "required": list(fields)}
    subject = json.dumps({"v": 1, "form": {"requestedSchema": schema}})
    return RoundTrip("rt", "elicitation", subject, "")


@pytest.mark.parametrize(
    ("words", "option"), [(["1"], "once"), (["no"], "no"), (["3"], "no"), (["2"], "2")]
)
def test_an_option_is_chosen_by_id_or_else_by_number(words, option):
    assert answer_of(permission(), words) == {"optionId": option}


@given(st.lists(st.text(max_size=12), max_size=3))
def test_whatever_is_typed_is_an_offered_answer_or_explained(words):
    for trip in (permission(), form(n={"type": "integer"})):
        try:
            answer = answer_of(trip, words)
        except NotUnderstood as error:
            assert str(error)  # noqa: PT017 - most of what is typed at random is no answer
        else:
            round_trip.check_answer(trip, answer)


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "string"}, "x=a b", "a b"),
        ({"type": "string"}, "x=a=b", "a=b"),
        ({"type": "number"}, "x=1.5", 1.5),
        ({"type": "boolean"}, "x=false", False),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, "x=a,c", ["a", "c"]),
    ],
)
def test_fields_get_the_type_the_form_asks_for(field, typed, value):
    assert answer_of(form(x=field), ["accept", typed])["content"] == {"x": value}


def test_declining_needs_no_fields():
    assert answer_of(form(x={"type": "string"}), ["decline"]) == {"action": "decline"}


def test_only_rejections_let_nothing_happen():
    allowing = [is_allowing(permission(), {"optionId": option[0]}) for option in OPTIONS]
    assert allowing == [True, True, False]
    assert not is_allowing(form(), {"action": "decline"})


def test_quotes_hold_words_together():
    assert split("1 accept 'x=a b'") == ["1", "accept", "x=a b"]
