"""What the agent's process may write and reach, and what is said of it."""

import contextlib
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest
from fakes.agent import FakeAgent
from fakes.running import ANNA, Running, asks

from agent_side import connect, sandbox
from agent_side.limits import SANDBOXES
from agent_side.sandbox import Mode, SandboxState
from agent_side.settings import ConnectorSettings

TRY = """
import os, socket, sys
outside, inside, hidden, port = sys.argv[1:]
for path in (outside, inside):
    try:
        open(path, "w").close()
        print("written")
    except OSError:
        print("refused")
print(os.path.exists(hidden))
try:
    socket.create_connection(("127.0.0.1", int(port)), 5).close()
    print("reached")
except OSError:
    print("cut")
"""


def tried(chosen, inside, hidden):
    outside = Path.home() / f".chimera-bridge-{uuid.uuid4().hex}"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        argv = [sys.executable, "-c", TRY, str(outside), str(inside), str(hidden), port]
        said = subprocess.run(chosen.wrapped(argv), capture_output=True, text=True, check=True)
    outside.unlink(missing_ok=True)
    return said.stdout.split()


def test_the_modes_on_the_command_line_are_those_there_are():
    assert set(SANDBOXES) == {str(mode) for mode in Mode}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (Mode.READ_ONLY, ["refused", "refused", "False", "cut"]),
        (Mode.WORKSPACE_WRITE, ["refused", "written", "False", "cut"]),
        (Mode.WORKSPACE_WRITE_NETWORK, ["refused", "written", "False", "reached"]),
        (Mode.OFF, ["written", "written", "True", "reached"]),
    ],
)
def test_the_state_says_what_the_kernel_really_does(tmp_path, mode, expected):
    # Under the home folder: /tmp stays writable in a sandbox.
    root = Path.home() / f".chimera-bridge-root-{uuid.uuid4().hex}"
    root.mkdir()
    state = tmp_path / "state"
    state.mkdir()
    (state / "secret").write_text("x")
    try:
        chosen = sandbox.choose(mode, [root], hidden=[state])
        done = tried(chosen, root / "a", state / "secret")
    finally:
        (root / "a").unlink(missing_ok=True)
        root.rmdir()
    if mode is Mode.OFF or chosen.state.enforced:
        assert done == expected
    else:
        assert chosen.state.why
        assert done == ["written", "written", "True", "reached"]


async def test_an_agent_works_in_its_sandbox_and_nothing_of_it_is_left(tmp_path):
    chosen = sandbox.choose(Mode.WORKSPACE_WRITE, [tmp_path])
    turns = [[{"chunks": 1}, asks(), {"chunks": 1, "if": "yes"}]]
    async with Running(tmp_path, turns=turns, command={"sandbox": chosen}) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        running.connector.answer(id_, {"optionId": "yes"}, ANNA)
        assert (await ended).stop_reason == "end_turn"
        mine = [p for p in psutil.Process().children(recursive=True) if _runs(p, running.agent)]
        assert mine
    gone, alive = psutil.wait_procs(mine, timeout=20)
    assert (len(gone), alive) == (len(mine), [])


def _runs(process, agent):
    with contextlib.suppress(psutil.Error):
        return str(agent.script) in process.cmdline()
    return False


def test_without_bubblewrap_it_is_said_not_to_be_enforced(tmp_path):
    chosen = sandbox.choose(Mode.WORKSPACE_WRITE, [tmp_path], path=str(tmp_path))
    assert chosen.wrapped(["x"]) == ("x",)
    assert not chosen.state.enforced
    assert chosen.state.why


def test_a_bubblewrap_that_does_not_work_is_said_to_be_none(tmp_path):
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    chosen = sandbox.choose(Mode.READ_ONLY, [], path=str(tmp_path))
    assert not chosen.state.enforced
    assert "does not work here" in chosen.state.why or sys.platform != "linux"


def test_a_connector_warns_when_its_sandbox_is_not_enforced(tmp_path, caplog):
    command = FakeAgent(tmp_path / "agent").command(tmp_path, env={"PATH": str(tmp_path)})
    settings = ConnectorSettings("n", tmp_path, tmp_path / "s", sandbox="read-only")
    chosen = connect.sandboxed(command, settings)
    assert chosen.sandbox.state.mode == "read-only"
    assert "the sandbox read-only is not enforced" in caplog.text


@pytest.mark.parametrize(
    ("mode", "path", "is_refused"),
    [
        ("off", "/etc/hosts", False),
        ("workspace-write", "/etc/hosts", True),
        ("workspace-write", "../x", True),
        ("workspace-write", "a", False),
        ("workspace-write", "link/x", True),
        ("read-only", "a", True),
    ],
)
def test_what_is_asked_for_outside_is_refused(tmp_path, mode, path, is_refused):
    root = tmp_path.resolve() / "w"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    facts = {"kind": "edit", "cwd": str(root), "paths": [path]}
    assert bool(SandboxState(Mode(mode)).refuses(facts, (root,))) == is_refused


def test_reading_is_not_refused(tmp_path):
    facts = {"kind": "read", "cwd": str(tmp_path), "paths": ["/etc/hosts"]}
    assert not SandboxState(Mode.READ_ONLY).refuses(facts, (tmp_path,))
