import pytest

from agent_side.agents.launcher import CommandRefused, refuse_cmd_syntax, split_line


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("npx -y some-acp-adapter --flag", ("npx", "-y", "some-acp-adapter", "--flag")),
        ("agent 'two words' \"and three more\"", ("agent", "two words", "and three more")),
        (r"my\ agent --x=a\'b", ("my agent", "--x=a'b")),
        ("agent | tee log", ("agent", "|", "tee", "log")),
        ("agent && rm -r x; y > z", ("agent", "&&", "rm", "-r", "x;", "y", ">", "z")),
        ("agent $HOME `id` *", ("agent", "$HOME", "`id`", "*")),
    ],
)
def test_a_line_is_split_as_a_shell_would_and_nothing_in_it_is_run(line, words):
    assert split_line(line) == words


@pytest.mark.parametrize("line", ["", "   ", "''", "agent 'open"])
def test_a_line_that_names_no_program_or_cannot_be_read_is_refused(line):
    with pytest.raises(CommandRefused):
        split_line(line)


@pytest.mark.parametrize("sign", [*list('&|<>^%"'), "\n"])
def test_on_windows_an_argument_that_cmd_would_read_is_refused_for_its_launchers(sign):
    argument = f"a{sign}b"
    for launcher in ("C:\\npm\\claude-agent-acp.cmd", "run.BAT"):
        with pytest.raises(CommandRefused, match="cmd.exe would read"):
            refuse_cmd_syntax((launcher, "--acp", argument), "win32")
    refuse_cmd_syntax(("C:\\npm\\agent.exe", argument), "win32")
    refuse_cmd_syntax(("agent.cmd", argument), "linux")


def test_on_windows_plain_arguments_reach_a_launcher():
    refuse_cmd_syntax(("C:\\n p m\\gemini.cmd", "--acp", "C:\\a b", "x=1"), "win32")
