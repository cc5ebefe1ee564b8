"""What the commands of ``chimera-relay`` share: the settings, exit codes, sentences on stderr."""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge.settings import Settings

FAULT = 1
WRONG_USE = 2  # as argparse has it


def settings_of(**given: Any) -> Settings | None:
    """Read the settings; None, and why on stderr, when they cannot be used."""
    from bridge.settings import SettingsInvalid, load

    try:
        return load(os.environ, **given)
    except SettingsInvalid as error:
        print(f"chimera-relay: {error}", file=sys.stderr)
        return None


def run(work: Any) -> None:
    """Run the event loop that this system is fastest with."""
    if sys.platform == "win32":
        asyncio.run(work)
        return
    import uvloop

    uvloop.run(work)


def user_name() -> str:
    """Name who runs the command."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "admin"


def sentence_of(error: OSError) -> str:
    """Say what failed, and the way out."""
    if error.filename is None:
        return str(error)
    return f"cannot use {error.filename}: {error.strerror}; BRIDGE_STATE_DIR names another folder"


def wrong_use(sentence: str) -> int:
    """Say how a command is used; gives its exit code."""
    print(f"chimera-relay: {sentence}", file=sys.stderr)
    return WRONG_USE


def fault(sentence: str) -> int:
    """Say what failed; gives the exit code."""
    print(f"chimera-relay: {sentence}", file=sys.stderr)
    return FAULT
