"""Which questions a rule is about, and the rule in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.entry import Origin
from bridge.rule_match import Action, Match, Rule, facts_of, first, matches


def rule(action="deny", seconds=0, **match):
    return Rule("r-1", Match(**match), Action(action), Origin("root"), 0, seconds)


def asked(calls=(("git", "push"),), **subject):
    told = {"kind": "execute", "cwd": "/w", "command": "…", **subject}
    told = {name: value for name, value in told.items() if value is not None}
    listed = None if calls is None else [list(call) for call in calls]
    return facts_of(json.dumps(told), "medium", "s1", ("a1", "claude"), "mbp", listed)


def edits(*paths):
    return asked(None, kind="edit", command=None, paths=list(paths))


@pytest.mark.parametrize(
    ("match", "is_about"),
    [
        ({}, True),
        ({"tools": ["execute", "edit"]}, True),
        ({"tools": ["edit"]}, False),
        ({"agents": ["claude"]}, True),
        ({"agents": ["a1"]}, True),
        ({"agents": ["codex"]}, False),
        ({"hosts": ["mbp"], "sessions": ["s1"], "risks": ["medium"]}, True),
        ({"hosts": ["mbp"], "sessions": ["s2"]}, False),
        ({"risks": ["high"]}, False),
    ],
)
def test_each_list_that_is_not_empty_must_fit(match, is_about):
    assert matches(rule(**match), asked()) == is_about


@pytest.mark.parametrize(
    ("calls", "denies", "allows"),
    [
        ([("git", "push", "--force")], True, True),
        ([("/usr/bin/git", "push")], True, True),
        ([("git", "status")], False, False),
        ([("git", "pushy")], False, False),
        ([("ls",), ("git", "push")], True, False),
        ([("echo", "git push")], False, False),
        ([("git",)], False, False),
        (None, True, False),
        ([], False, False),
    ],
)
def test_a_prefix_is_of_words_and_what_allows_must_fit_every_program(calls, denies, allows):
    for action, expected in (("deny", denies), ("two_people", denies), ("allow", allows)):
        assert matches(rule(action, commands=["git push"]), asked(calls)) == expected


@pytest.mark.parametrize(
    ("paths", "denies", "allows"),
    [
        (["src/a.py"], True, True),
        (["/w/src/deep/a.py"], True, True),
        (["src/a.py", "other"], True, False),
        (["srcs/a"], False, False),
        (["src/../other"], False, False),
        (["/src/a"], False, False),
    ],
)
def test_a_path_is_compared_where_it_leads(paths, denies, allows):
    for action, expected in (("deny", denies), ("allow", allows)):
        assert matches(rule(action, paths=["src/**"]), edits(*paths)) == expected


def test_a_command_is_refused_by_the_files_in_its_words_and_never_allowed_by_them():
    reads = asked([("cat", "secrets/key")])
    assert matches(rule("deny", paths=["secrets/*"]), reads)
    assert not matches(rule("deny", paths=["other/*"]), reads)
    assert not matches(rule("allow", paths=["secrets/*"]), reads)
    assert matches(rule("deny", paths=["secrets/*"]), asked(None))


@pytest.mark.parametrize("subject", ["no json", "[]", '{"paths": 5}', '{"diffs": [{}]}'])
def test_a_subject_of_another_form_is_matched_by_what_is_known(subject):
    facts = facts_of(subject, "high", "s1", ("a1",), "", None)
    assert matches(rule(risks=["high"]), facts)
    assert not matches(rule("allow", paths=["*"]), facts)


def test_the_first_rule_that_is_about_it_decides():
    listed = [rule("ask", tools=["edit"]), rule("two_people"), rule("deny")]
    assert first(listed, asked()).action is Action.TWO_PEOPLE
    assert first(listed, edits("a")).action is Action.ASK
    assert first([], asked()) is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (rule(), "refuse every question"),
        (rule("allow", commands=["make", "npm test"]), "allow commands that begin with “make” or"),
        (rule("expire", 3600), "end after 1 h without an answer: every question"),
        (rule("escalate", 90, risks=["high"]), "call again after 90 s without an answer: risk"),
        (rule("two_people", tools=["delete"]), "ask two people for tools “delete”"),
    ],
)
def test_a_rule_is_a_sentence(made, words):
    assert made.words.startswith(words)


WORDS = st.sampled_from(["git", "push", "ls", "-f", "x"])
CALLS = st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=3)


@given(CALLS, st.lists(WORDS, min_size=1, max_size=2))
def test_what_is_allowed_would_be_refused_by_the_same_words(calls, prefix):
    match = {"commands": [" ".join(prefix)]}
    if matches(rule("allow", **match), asked(calls)):
        assert matches(rule("deny", **match), asked(calls))
        assert all(call[: len(prefix)] == prefix for call in calls)
