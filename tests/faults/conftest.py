"""Rows of faults. ``./dev test faults`` runs them in full; the ordinary run has a short form."""

import json
from pathlib import Path

import pytest
from fakes.redises import Redises, Server, redises
from faults.house import opening
from faults.oracle import Row, table

HERE = Path(__file__).parent
DOCUMENT = HERE.parents[1] / "docs" / "faults.md"
BEGIN = "<!-- the table below is written by `./dev test faults` -->\n"
FULL_SECONDS = 900


def is_full(config: pytest.Config) -> bool:
    return any(Path(argument).resolve() == HERE for argument in config.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_full(config) and HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(FULL_SECONDS))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    found = {text for r in reports for name, text in r.user_properties if name == "row"}
    if not found:
        return
    lines = table([json.loads(text) for text in found])
    terminalreporter.section("faults")
    for line in lines:
        terminalreporter.write_line(line)
    partial = [
        *terminalreporter.getreports("failed"),
        *terminalreporter.stats.get("deselected", ()),
    ]
    if is_full(terminalreporter.config) and not partial:
        kept = DOCUMENT.read_text().partition(BEGIN)[0]
        DOCUMENT.write_text(kept + BEGIN + "\n" + "\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def length(pytestconfig):
    """Chooses between the short form of a number and the full one."""
    full = is_full(pytestconfig)
    return lambda short, long: long if full else short


@pytest.fixture(scope="session")
def bar(length):
    """Gives the seconds that something may take; the suite shares its machine with itself."""
    return lambda seconds: length(5 * seconds, seconds)


@pytest.fixture
def row(record_property) -> Row:
    return Row(record_property)


@pytest.fixture
def own_redises():
    with redises() as made:
        yield made


@pytest.fixture
def house(tmp_path, own_redises: Redises):
    """Opens a house: ``async with house(relays=2) as house``."""

    def make(relays: int = 1, redis: Server | None = None, **settings: str):
        return opening(tmp_path, redis or own_redises.server(), relays, **settings)

    return make
