"""Ready entries for editors that start ACP agents."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from bridge.protocol.jsonrpc import Payload

TITLE = "Chimera Bridge"
DEFAULT = ("connect", "--stdio")
PLACES = {
    "zed": "Zed: into settings.json (command palette: zed: open settings file)",
    "jetbrains": "JetBrains: into ~/.jetbrains/acp.json (AI Chat: Add Custom Agent)",
    "vscode": "VS Code with the extension “ACP Client”: into settings.json",
    "generic": "any client that starts an agent as a command",
}


def entry_for(editor: str, arguments: list[str]) -> Payload:
    """Give the entry for one of PLACES; ``arguments`` follow ``chimera-bridge``."""
    program, *before = executable()
    agent = {"command": program, "args": [*before, *(arguments or DEFAULT)], "env": {}}
    match editor:
        case "zed":
            return {"agent_servers": {TITLE: {"type": "custom", **agent}}}
        case "jetbrains":
            return {"agent_servers": {TITLE: agent}}
        case "vscode":
            return {"acp.agents": {TITLE: agent}}
        case _:
            return {"name": TITLE, **agent}


def executable() -> list[str]:
    """Give the command that starts this very installation, by its full path."""
    beside = Path(sys.executable).with_name("chimera-bridge")
    if beside.is_file():
        return [str(beside)]
    own = Path(sys.argv[0])
    if own.name.startswith("chimera-bridge") and (found := shutil.which(own)):
        return [str(Path(found).absolute())]
    return [sys.executable, "-m", "agent_side.cli"]


def print_config(editor: str, arguments: list[str]) -> int:
    """Print the entry on standard output, where it belongs on standard error."""
    print(PLACES[editor], file=sys.stderr)  # noqa: T201
    print(json.dumps(entry_for(editor, arguments), indent=2, ensure_ascii=False))  # noqa: T201
    return 0
