import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_side.print_config import executable

BRIDGE = (sys.executable, "-m", "agent_side.cli")
FLAGS = ["attach", "wss://relay.example/acp", "--token-file", "/home/anna/.relay token"]


def printed(editor, *flags):
    done = subprocess.run(
        [*BRIDGE, "print-config", editor, *flags], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("editor", "path"),
    [
        ("zed", ["agent_servers", "Chimera Bridge"]),
        ("jetbrains", ["agent_servers", "Chimera Bridge"]),
        ("vscode", ["acp.agents", "Chimera Bridge"]),
        ("generic", []),
    ],
)
def test_each_editor_gets_its_entry_with_a_program_that_exists(editor, path):
    entry = printed(editor, "--", *FLAGS)
    for name in path:
        entry = entry[name]
    assert os.access(entry["command"], os.X_OK)
    assert Path(entry["command"]).is_absolute()
    assert entry["args"][-len(FLAGS) :] == FLAGS


def test_without_arguments_it_is_a_local_server():
    assert printed("generic")["args"][-2:] == ["connect", "--stdio"]


def test_zed_is_told_that_it_is_a_custom_agent():
    assert printed("zed")["agent_servers"]["Chimera Bridge"]["type"] == "custom"


def test_the_program_it_names_starts():
    done = subprocess.run([*executable(), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("chimera-bridge ")


def test_arguments_that_cannot_start_are_refused():
    done = subprocess.run(
        [*BRIDGE, "print-config", "zed", "--", "attach"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
