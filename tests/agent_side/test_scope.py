"""What "always" would cover, said before it is made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_side import scope


def facts(**more):
    return {"kind": "execute", "cwd": "/w", "title": "any", **more}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (facts(command="git  push"), "run exactly “git push” in /w"),
        (facts(command=["git", "push it"]), "run exactly “git 'push it'” in /w"),
        (
            facts(command="make", arguments={"timeout": 5, "description": "builds"}),
            'run exactly “make” with {"timeout": 5} in /w',
        ),
        (facts(kind="edit", paths=["/w/a"]), "edit /w/a, whatever the change, in /w"),
        (facts(kind="delete", paths=["a"]), "delete /w/a in /w"),
        (
            facts(kind="fetch", arguments={"url": "https://x.test"}),
            'use fetch with exactly {"url": "https://x.test"} in /w',
        ),
    ],
)
def test_the_words_say_exactly_what_is_covered(told, words):
    """A36."""
    assert scope.of_facts(told).words == words


@pytest.mark.parametrize(
    "told",
    [
        facts(),  # only a title, which may be the model's own words
        facts(command="echo 'unclosed"),
        facts(command="echo " + "x" * 400),
        facts(command="ls", truncated=True),
        {"kind": "elicitation", "cwd": "/w", "form": {}},
        facts(kind="other", diffs=[{"path": "/w/a"}], arguments={"x": 1}),
    ],
)
def test_no_rule_is_offered_that_nobody_could_read(told):
    assert scope.of_facts(told) is None


@pytest.mark.parametrize(
    "other",
    [
        facts(command="git push --force"),
        facts(command="git push", cwd="/other"),
        facts(command="git push", kind="other"),
        facts(command="git push", arguments={"timeout": 1}),
        facts(command="git push; ls"),
        facts(command="git\npush"),
        facts(command=["git push"]),
    ],
)
def test_anything_else_is_another_scope(other):
    assert scope.of_facts(other).key != scope.of_facts(facts(command="git push")).key


def test_a_file_is_named_by_what_the_arguments_say_as_well():
    plain = scope.of_facts(facts(kind="edit", paths=["/w/a"]))
    other = scope.of_facts(facts(kind="edit", paths=["/w/a"], arguments={"file_path": "/etc/x"}))
    same = scope.of_facts(facts(kind="edit", paths=["/w/a"], arguments={"new_string": "x"}))
    assert plain.key != other.key
    assert scope.of_facts(facts(kind="edit", paths=["/w/b/../a"])).key == plain.key
    assert same.words == plain.words


@given(st.text(max_size=60), st.text(max_size=60))
def test_two_commands_share_a_scope_only_if_their_words_are_the_same(one, two):
    first, second = (scope.of_facts(facts(command=c)) for c in (one, two))
    if first is not None and second is not None:
        assert (first.key == second.key) == (first.words == second.words)
