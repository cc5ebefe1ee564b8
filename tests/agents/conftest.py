"""``./dev test agents``: installs the real agents, then collects the real_*.py files too.

They are not part of the normal run: the agents take 1.3 GB and minutes.
"""

import os
import subprocess
from pathlib import Path

import pytest
from agents.rig import AGENTS_DIR, NAMES, installed

HERE = Path(__file__).parent


def pytest_collect_file(file_path, parent):
    if not file_path.name.startswith("real_") or not is_asked_for(parent.config):
        return None
    if "RIG_AGENTS" not in os.environ and len(installed()) < len(NAMES):
        subprocess.run([HERE / "setup.sh", AGENTS_DIR], check=True)
    return pytest.Module.from_parent(parent, path=file_path)


def is_asked_for(config):
    return any(Path(argument).resolve() == HERE for argument in config.args)


def pytest_terminal_summary(terminalreporter):
    """Print a line an agent and case."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.getreports(kind)]
    for report in sorted(reports, key=lambda r: r.nodeid):
        place, _, case = report.nodeid.partition("::test_")
        if report.when == "call" and "/real_" in place:
            line = f"{report.outcome}  {report.duration:5.1f} s  {case.replace('_', ' ')}"
            terminalreporter.write_line(line)
