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


def rows_of(reporter: pytest.TerminalReporter, *kinds: str) -> list[dict]:
    reports = [report for kind in kinds for report in reporter.getreports(kind)]
    texts = {text for r in reports for name, text in r.user_properties if name == "row"}
    return [json.loads(text) for text in texts]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if found := rows_of(terminalreporter, "passed", "failed"):
        terminalreporter.section("faults")
        for line in table(found):
            terminalreporter.write_line(line)
    passed = rows_of(terminalreporter, "passed")
    if passed and is_full(terminalreporter.config):
        whole = not terminalreporter.getreports("failed") and not terminalreporter.stats.get(
            "deselected"
        )
        write(table(passed), anew=whole)


def write(lines: list[str], *, anew: bool) -> None:
    """Put rows into the document; what passed before stays unless all of it was run."""
    intro, _, before = DOCUMENT.read_text().partition(BEGIN)
    head, rows = lines[:2], [] if anew else before.split("\n")[3:]
    by_name = {tuple(row.split(" | ", 2)[:2]): row for row in [*rows, *lines[2:]] if row}
    table_ = "\n".join([*head, *(by_name[name] for name in sorted(by_name))])
    DOCUMENT.write_text(f"{intro}{BEGIN}\n{table_}\n")


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
