"""The table of attacks, from every test that carries the mark, wherever it lies."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from attacks.stage import TWO_QUESTIONS, Stage
from fakes.relay import FakeRelay
from fakes.running import Running

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "attacks.md"
BEGIN = "<!-- the table below is written by `./dev test attacks` -->\n"
HEAD = ["| row | attack | cases | figure | shown by |", "| --- | --- | --- | --- | --- |"]
FULL_SECONDS = 900


def is_full(config: pytest.Config) -> bool:
    return config.getoption("markexpr") == "attack"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if is_full(config):
            item.add_marker(pytest.mark.timeout(FULL_SECONDS))
        for mark in item.iter_markers("attack"):
            item.user_properties.append(("attack", json.dumps(mark.args)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not is_full(terminalreporter.config):
        return
    lines = table(terminalreporter.getreports("passed"))
    terminalreporter.section("attacks")
    for line in lines:
        terminalreporter.write_line(line)
    if not terminalreporter.getreports("failed") and not terminalreporter.getreports("error"):
        config = terminalreporter.config
        write(lines, anew=config.args == ["tests"] and not config.getoption("keyword"))


def write(lines: list[str], *, anew: bool) -> None:
    """Put rows into the document; what stood there before stays unless all of it was run."""
    intro, _, before = DOCUMENT.read_text().partition(BEGIN)
    kept = [] if anew else before.split("\n")[len(HEAD) + 1 :]
    by_name = {name_of(line): line for line in [*kept, *lines] if line}
    DOCUMENT.write_text(
        "\n".join([f"{intro}{BEGIN}", *HEAD, *map(by_name.get, sorted(by_name)), ""])
    )


def name_of(line: str) -> tuple[str, str, str]:
    cells = line.split(" | ")
    return cells[0], cells[1], cells[-1]


def table(reports: list[pytest.TestReport]) -> list[str]:
    """Lay out one line for each row, attack and test function."""
    cases: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for report in reports:
        if report.when != "call":
            continue
        test = report.nodeid.partition("[")[0]
        told = "; ".join(text for name, text in report.user_properties if name == "figure")
        for name, text in report.user_properties:
            if name == "attack":
                row, what = json.loads(text)
                cases[row, what, test].append(told)
    return [
        f"| {row} | {what} | {len(told)} | {figures(told)} | {shown(test)} |"
        for (row, what, test), told in sorted(cases.items())
    ]


def figures(told: list[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, told))) or "held"


def shown(test: str) -> str:
    file, _, name = test.partition("::")
    return f"[{name}](../{file})"


@pytest.fixture
async def stage(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=TWO_QUESTIONS) as running:
        yield await Stage(running, relay).begin()
