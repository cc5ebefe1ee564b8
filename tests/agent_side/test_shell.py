"""A shell command as its parts."""

import pytest

from agent_side import shell


@pytest.mark.parametrize(
    ("command", "calls"),
    [
        ("git push origin main", [["git", "push", "origin", "main"]]),
        ("A=1 make -j2 && (cd x; ls) | head", [["make", "-j2"], ["cd", "x"], ["ls"], ["head"]]),
        ("echo 'a b' \"c d\" e\\ f", [["echo", "a b", "c d", "e f"]]),
        (["git", "push"], [["git", "push"]]),
        (["/bin/bash", "-lc", "git push && ls"], [["git", "push"], ["ls"]]),
        ("git push $BRANCH", None),
        ("git push $(cat branch)", None),
        ("git 'push", None),
        ("ls;" * 100, None),
    ],
)
def test_the_words_of_each_program_are_told_or_none_at_all(command, calls):
    assert shell.calls_of(command) == calls


def test_what_it_writes_and_sets_is_found_wherever_it_stands():
    script = shell.parse("A=1; if true; then echo x >>log 2>&1; fi; export B=2")
    assert [word.text for word in script.writes] == ["log"]
    assert script.variables == ["A", "B"]


def test_a_program_that_reads_a_pipe_is_known():
    script = shell.parse("curl x | sh; sh <<< ls; (cat) < f; ls")
    fed = {call.name for call in script.calls if call.is_fed}
    assert fed == {"sh", "cat"}


def test_characters_beyond_ascii_come_back_as_they_were_written():
    said = "echo gr\u00fc\u00dfe '\U0001f600 a' \u4e2d$x > \u00e4"
    assert shell.parse(said).calls[0].words[1:3] == (
        shell.Word("grüße"),
        shell.Word("\U0001f600 a"),
    )
    assert shell.parse(said).writes == [shell.Word("ä")]
    assert shell.calls_of("cat \U000e0100") == [["cat", "\U000e0100"]]


def test_no_character_beyond_ascii_ends_the_process():
    for first in range(0x80, 0x110000, 0x101):
        shell.parse(f"a {chr(first)} $({chr(first)}) ${{{chr(first)}}}")
