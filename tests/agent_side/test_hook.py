"""``chimera ferret serve --bridge URL``, in a Python that has the real chimera-run."""

import json
import os
import subprocess
import sys
import sysconfig
import venv

import pytest

from agent_side import hook
from agent_side.hook import State

RELAY = "ws://127.0.0.1:9"
SHOWS = """#!{python}
import json, os, sys
kept = {{k: v for k, v in os.environ.items() if k.startswith(("FERRET_", "CHIMERA_BRIDGE_"))}}
print(json.dumps([sys.argv[1:], kept]))
"""


@pytest.fixture
def python(tmp_path):
    """A Python of its own with the packages of this one, and so with chimera-run."""
    folder = tmp_path / "python"
    venv.create(folder, symlinks=True)
    made = folder / "bin" / "python"
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return str(made)


@pytest.fixture
def hooked(python, tmp_path, monkeypatch):
    """The same with the flag, which starts a program that only shows how it was started."""
    shown = tmp_path / "chimera-bridge"
    shown.write_text(SHOWS.format(python=sys.executable))
    shown.chmod(0o755)
    monkeypatch.setattr("agent_side.print_config.executable", lambda: [str(shown)])
    found = hook.find(python)
    found.install()
    return found


def chimera(python, *arguments, **env):
    line = [python, "-c", "from chimera.cli.main import main; raise SystemExit(main())"]
    return subprocess.run(
        [*line, "ferret", "serve", "--skip-git-repo-check", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere", **env},
    )


def test_the_flag_starts_the_bridge_with_what_was_told(hooked, tmp_path):
    told = ["--bridge", RELAY, "--permission-mode", "yolo", "--sandbox", "workspace-write"]
    secret = ["--bridge-token", "t0ken", "--cwd", str(tmp_path), "--model", "gpt-5-mini"]
    done = chimera(hooked.python, *told, *secret)
    line, env = json.loads(done.stdout)
    preset = ["--approval", "full", "--sandbox", "workspace-write", "--cwd", str(tmp_path)]
    assert line == ["ferret", "serve", "--bridge", RELAY, *preset]
    assert env["FERRET_BRIDGE_TOKEN"] == "t0ken"
    assert env["FERRET_MODEL"] == "gpt-5-mini"
    assert env["CHIMERA_BRIDGE_FERRET_PYTHON"] == hooked.python


def test_what_was_not_told_stays_with_the_bridges_own_defaults(hooked):
    line, env = json.loads(chimera(hooked.python, "--bridge", RELAY).stdout)
    assert line == ["ferret", "serve", "--bridge", RELAY]
    assert "FERRET_MODEL" not in env


def test_an_explicit_read_only_stays_read_only(hooked):
    told = ["--bridge", RELAY, "--approval", "read-only"]
    line, _ = json.loads(chimera(hooked.python, *told).stdout)
    assert line[-2:] == ["--approval", "read-only"]


def test_what_the_bridge_cannot_do_is_refused(hooked):
    done = chimera(hooked.python, "--bridge", RELAY, "--allowed-tools", "read_file")
    assert done.returncode == 1
    assert "does not go together with --allowed-tools" in done.stderr


def test_it_is_installed_looked_at_and_taken_out(hooked):
    assert hooked.state is State.INSTALLED
    module, line = hooked.files
    line.write_text("import sys\n")
    assert hooked.state is State.OTHER
    hooked.remove()
    assert hooked.state is State.ABSENT
    assert not module.exists()


def test_nothing_of_it_is_imported_before_ferret_is(hooked):
    said = hook.ask(hooked.python, "import sys; print(*sorted(sys.modules))")[0].split()
    assert hook.MODULE in said
    assert not {"argparse", "importlib.machinery", "chimera"} & set(said)


@pytest.mark.parametrize("source", ["", "add_arguments = print\n_SUBCOMMAND_DISPATCH = {}\n"])
def test_a_chimera_that_is_not_as_known_is_left_alone_and_the_flag_refused(
    hooked, tmp_path, source
):
    """Upstream would take --bridge for --bridge-token."""
    package = tmp_path / "other" / "chimera" / "ferret"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "cli.py").write_text(source)
    start = [hooked.python, "-c", "import chimera.ferret.cli as c; print(c.__file__)"]
    env = {"PYTHONPATH": str(tmp_path / "other")}
    plain = subprocess.run(start, env=env, capture_output=True, text=True, check=True)
    given = subprocess.run(
        [*start, "--bridge", RELAY], env=env, capture_output=True, text=True, check=False
    )
    assert plain.stdout.strip() == str(package / "cli.py")
    assert given.returncode == 1
    assert "run `chimera-bridge ferret serve` instead" in given.stderr


def test_the_command_tells_the_state_and_what_mends_it(python):
    line = [sys.executable, "-m", "agent_side.cli", "hook", "status", "--python", python]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("not installed: ")
    assert "for --bridge-token" in done.stdout
    assert "chimera-bridge hook install" in done.stdout


def test_a_python_without_chimera_is_named(tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python")
    assert hook.find(bare).state is State.NO_FERRET
    assert hook.find(str(tmp_path / "none")) is None
