import json

import pytest

from agent_side.doors.question_text import choices, what_runs
from bridge.protocol.entry import RoundTrip


def shown(kind="permission", **subject):
    trip = RoundTrip(id="rt-1", kind=kind, subject=json.dumps({"v": 1, **subject}), hash="")
    return [line.strip() for line in what_runs(trip)], choices(trip)


@pytest.mark.parametrize(
    ("subject", "lines"),
    [
        ({"command": "git push"}, ["$ git push"]),
        ({"command": "a\nb"}, ["$ a", "b"]),
        ({"command": ["sh", "-c", "echo 'hi there'"]}, ["""$ sh -c 'echo '"'"'hi there'"'"''"""]),
        ({"title": "ls", "command": "ls"}, ["$ ls"]),
        ({"title": "Delete", "cwd": "/w"}, ["Delete", "in /w"]),
        ({"arguments": {"path": "/a", "n": 3}}, ["path: /a", "n: 3"]),
        ({"arguments": ["x"]}, ['["x"]']),
        ({"paths": ["/a", "/b"]}, ["at /a", "at /b"]),
        ({"texts": ["why\nthus"]}, ["why", "thus"]),
        (
            {"diffs": [{"path": "n.txt", "oldText": None, "newText": "one\n"}]},
            ["new file n.txt", "@@ -0,0 +1 @@", "+one"],
        ),
    ],
    ids=[
        "command",
        "lines",
        "list",
        "same title",
        "title",
        "arguments",
        "no object",
        "paths",
        "texts",
        "file",
    ],
)
def test_everything_that_will_run_is_shown(subject, lines):
    assert shown(**subject)[0] == lines


def test_options_keep_their_order_and_names():
    options = [["always", "Always allow", "allow_always"], ["no", "No", "reject_once"]]
    assert shown(options=options)[1] == [tuple(option) for option in options]


def test_a_form_shows_its_fields_and_what_they_offer():
    fields = {
        "size": {"type": "string", "title": "Size", "enum": ["S", "L"]},
        "tags": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "Alpha"}]}},
        "count": {"type": "integer"},
    }
    form = {"message": "Which?", "requestedSchema": {"properties": fields}}
    lines, offered = shown("elicitation", title="Which?", form=form)
    assert lines == ["Which?", "size: Size; S | L", "tags: a (Alpha)", "count: integer"]
    assert [id_ for id_, _, _ in offered] == ["accept", "decline", "cancel"]


def test_a_page_to_open_is_shown_by_its_address():
    lines, _ = shown("elicitation", form={"mode": "url", "url": "https://x.example/\u202ea"})
    assert lines == ["open https://x.example/⟨U+202E⟩a"]
