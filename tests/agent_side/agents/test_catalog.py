import os
import sys
from pathlib import Path

import pytest

from agent_side.agents.catalog import (
    AGENTS,
    AgentNotInstalled,
    AgentUnknown,
    available,
    command_for,
    default_agent,
)

SECRETS = {
    "FERRET_BRIDGE_TOKEN": "bridge",
    "CHIMERA_BRIDGE_TOKEN": "bridge",
    "GITHUB_TOKEN": "gh",
    "ACME_API_KEY": "acme",
    "DB_PASSWORD": "db",
    "client_secret": "lower",
    "ANTHROPIC_API_KEY": "claude's",
    "OPENAI_API_KEY": "codex's",
}


@pytest.fixture
def installed(tmp_path):
    """Put empty programs on a PATH of their own; gives the environment."""

    def install(*programs, **more):
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        for program in programs:
            (folder / program).write_text("#!/bin/sh\n")
            (folder / program).chmod(0o755)
        return {"PATH": str(folder), **more}

    return install


def test_an_agent_gets_its_own_keys_and_no_other_secret(installed, tmp_path):
    environ = installed("claude-agent-acp", HOME="/h", **SECRETS)
    command = command_for("claude", [], tmp_path, environ)
    assert command.env == {
        "PATH": environ["PATH"],
        "HOME": "/h",
        "ANTHROPIC_API_KEY": "claude's",
    }


def test_the_owner_can_pass_more_secrets_on_but_never_the_bridges_token(installed, tmp_path):
    names = "ACME_API_KEY, FERRET_BRIDGE_TOKEN"
    environ = installed("mine", CHIMERA_BRIDGE_PASS_ENV=names, **SECRETS)
    passed = ["DB_PASSWORD", "CHIMERA_BRIDGE_TOKEN"]
    env = command_for(None, ["mine", "acp"], tmp_path, environ, passed).env
    assert {name for name in SECRETS if name in env} == {"ACME_API_KEY", "DB_PASSWORD"}


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_no_agent_sees_the_bridges_token(name, tmp_path):
    environ = {**SECRETS, "PATH": ""}
    env = AGENTS[name].command(tmp_path, environ, argv=["x"]).env
    assert not {"bridge", "acme", "db"} & set(env.values())


def test_a_named_agent_is_found_on_the_path_with_the_mode_in_which_it_asks(installed, tmp_path):
    command = command_for("claude", [], tmp_path, installed("claude-agent-acp"))
    assert command.argv == (str(tmp_path / "bin/claude-agent-acp"),)
    assert (command.title, command.ask_mode, command.cwd) == ("Claude Agent", "default", tmp_path)


def test_opencode_is_made_to_ask_by_its_environment_unless_the_owner_set_it(installed, tmp_path):
    asks = command_for("opencode", [], tmp_path, installed("opencode")).env["OPENCODE_PERMISSION"]
    own = installed("opencode", OPENCODE_PERMISSION='{"bash":"deny"}')
    assert '"bash":"ask"' in asks
    assert (
        command_for("opencode", [], tmp_path, own).env["OPENCODE_PERMISSION"] == '{"bash":"deny"}'
    )


ASKS = {
    "claude": "default",
    "codex": "read-only",
    "gemini": "default",
    "opencode": "OPENCODE_PERMISSION",
    "qwen": "default",
    "copilot": None,  # it has no other mode
    "hermes": "default",
    "goose": "GOOSE_MODE",
    "ferret": "suggest",
    "demo": "ask",
}


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_each_agent_says_how_it_is_found_installed_made_to_ask_and_what_it_needs(name):
    agent = AGENTS[name]
    assert agent.commands
    assert (agent.ask_mode or next(iter(agent.settings), None)) == ASKS[name]
    assert agent.state
    if name != "demo":
        assert agent.install
        assert agent.login_hint


@pytest.mark.parametrize(
    ("program", "name", "arguments"),
    [
        ("qwen", "qwen", ["--acp"]),
        ("copilot", "copilot", ["--acp", "--stdio"]),
        ("hermes-acp", "hermes", []),
        ("hermes", "hermes", ["acp"]),
        ("goose", "goose", ["acp"]),
        ("codex-acp", "codex", []),
        ("codex-acp-linux-x64", "codex", []),
    ],
)
def test_an_agent_is_found_by_any_of_its_programs(installed, tmp_path, program, name, arguments):
    argv = command_for(name, [], tmp_path, installed(program)).argv
    assert argv == (str(tmp_path / "bin" / program), *arguments)


@pytest.mark.parametrize(
    ("name", "declared"),
    [
        ("claude", {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}),
        ("gemini", {"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"}),
    ],
)
def test_an_agent_declares_the_secrets_it_needs_by_name(tmp_path, name, declared):
    plain = {"ANTHROPIC_BASE_URL": "http://here", "CLAUDE_CONFIG_DIR": "/c"}
    environ = {**dict.fromkeys([*declared, "OTHER_API_KEY"], "s"), **plain}
    assert set(AGENTS[name].command(tmp_path, environ, argv=["x"]).env) == declared | set(plain)


def test_an_agent_that_is_not_installed_is_named_with_the_line_that_installs_it(tmp_path):
    with pytest.raises(AgentNotInstalled) as caught:
        command_for("gemini", [], tmp_path, {"PATH": ""})
    assert str(caught.value) == (
        "Gemini CLI is not installed; install it: npm install -g @google/gemini-cli"
    )


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(AgentUnknown, match="no agent 'clod'; known: claude, codex, gemini"):
        command_for("clod", [], tmp_path, {})


def test_a_command_of_ones_own_is_run_as_it_is(installed, tmp_path):
    command = command_for(None, ["mine", "acp"], tmp_path, installed("mine"))
    assert command.argv == (str(tmp_path / "bin/mine"), "acp")
    assert (command.name, command.title, command.ask_mode) == ("mine", "mine", None)


def test_a_command_whose_program_is_known_is_made_to_ask(installed, tmp_path):
    environ = installed("codex-acp", **SECRETS)
    command = command_for(None, ["codex-acp", "-c", "x=1"], tmp_path, environ)
    assert (command.name, command.ask_mode, command.argv[1:]) == (
        "codex",
        "read-only",
        ("-c", "x=1"),
    )
    assert command.env["OPENAI_API_KEY"] == "codex's"


def test_a_command_that_is_not_there_is_named(tmp_path):
    with pytest.raises(AgentNotInstalled, match="no-such is not installed; no program of that"):
        command_for(None, ["no-such", "acp"], tmp_path, {"PATH": ""})


def test_a_relative_command_is_found_from_where_we_are_not_from_the_agents_folder(
    tmp_path, monkeypatch, installed
):
    installed("mine")
    monkeypatch.chdir(tmp_path)
    assert command_for(None, ["bin/mine"], Path("/"), {}).argv == (str(tmp_path / "bin/mine"),)


def test_the_demo_is_the_default_only_where_no_agent_is_installed(installed):
    assert default_agent({"PATH": ""}) == "demo"
    assert default_agent(installed("opencode", "codex-acp")) == "codex"


def test_available_lists_what_can_be_started(installed):
    names = available(installed("opencode", "claude-agent-acp"))
    assert [n for n in names if n != "ferret"] == ["claude", "opencode", "demo"]


def test_ferrets_engine_may_live_in_another_python(tmp_path):
    environ = {"PATH": "", "CHIMERA_BRIDGE_FERRET_PYTHON": "/opt/chimera/bin/python"}
    argv = command_for("ferret", [], tmp_path, environ).argv
    assert argv[0] == "/opt/chimera/bin/python"
    assert argv[-1].endswith("agent_side/agents/ferret/__main__.py")


def test_the_demo_needs_nothing_but_this_python(tmp_path):
    argv = command_for("demo", [], tmp_path, dict(os.environ)).argv
    assert argv == (sys.executable, "-P", "-m", "agent_side.agents.demo")
