import os
import subprocess
import sys

import pytest

from agent_side import cli

BRIDGE = (sys.executable, "-m", "agent_side.cli")
HEAVY = {"fastapi", "redis", "pydantic", "uvicorn", "jwt", "websockets", "msgspec", "asyncio"}


def run(*arguments, **env):
    return subprocess.run(
        [*BRIDGE, *arguments],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "required"),
        (["fly"], "invalid choice"),
        (["connect"], "needs --relay URL"),
        (["connect", "--relay", "wss://r", "--cwd", "/no/such/folder"], "is no folder"),
        (["connect", "--relay", "not-an-address"], "invalid relay address"),
        (["connect", "--relay", "ws://relay.example", "--agent", "demo"], "in the clear"),
        (["connect", "--stdio", "--agent", "nobody"], "no agent 'nobody'"),
        (["connect", "--stdio", "--name", "../up", "--agent", "demo"], "invalid name"),
        (["connect", "--rel", "wss://r"], "unrecognized"),
        (["attach"], "required"),
        (["attach", "wss://r", "--", "x"], "nothing may follow"),
        (["up", "--port", "70000"], "is no port"),
        (["print-config", "emacs"], "invalid choice"),
        (["ferret"], "required"),
    ],
)
def test_wrong_use_is_two_with_one_sentence(arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_a_command_that_is_not_installed_is_five():
    done = run("connect", "--stdio", "--", "no-such-agent-here")
    assert done.returncode == 5
    assert done.stderr.splitlines() == [
        "chimera-bridge: no-such-agent-here is not installed; no program of that name is on PATH"
    ]


def test_without_an_agent_the_demo_does_not_step_in():
    done = run("connect", "--stdio", PATH="/nowhere")
    assert done.returncode == 5
    assert "no agent is installed here" in done.stderr


def test_closed_standard_streams_are_an_editor_that_left(tmp_path):
    command = f"exec {BRIDGE[0]} -m agent_side.cli connect --stdio --agent demo 0<&- 1>&-"
    env = {**os.environ, "CHIMERA_BRIDGE_STATE_DIR": str(tmp_path)}
    done = subprocess.run(["sh", "-c", command], env=env, check=False, timeout=60)
    assert done.returncode == 0


def test_help_lists_every_command():
    shown = run("--help").stdout
    commands = shown.split("COMMAND\n")[1]
    for name in (
        "up",
        "connect",
        "ferret",
        "attach",
        "pair",
        "devices",
        "doctor",
        "print-config",
    ):
        assert f"  {name}" in commands


@pytest.mark.parametrize(
    "command",
    ["up", "connect", "attach", "doctor", "print-config", "ferret serve", "pair", "devices list"],
)
def test_every_command_explains_itself(command):
    assert run(*command.split(), "--help").stdout.startswith("usage: chimera-bridge")


def test_the_token_is_taken_from_no_option():
    assert "--token " not in run("connect", "--help").stdout
    assert run("connect", "--relay", "wss://r", "--token", "x").returncode == 2


SHOW_MODULES = """
import sys, agent_side.cli as c
try:
    c.main(["--help"])
except SystemExit:
    print(" ".join(sys.modules))
"""


def test_help_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", SHOW_MODULES], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(done.stdout.splitlines()[-1].split())


def test_version_is_the_distributions():
    assert run("--version").stdout.startswith("chimera-bridge 0")


def test_an_http_door_open_to_other_machines_needs_a_token(monkeypatch, capsys):
    monkeypatch.delenv("FERRET_SERVER_TOKEN", raising=False)
    assert cli.main(["connect", "--http", "0.0.0.0:0", "--agent", "demo"]) == 2
    assert "set FERRET_SERVER_TOKEN" in capsys.readouterr().err
