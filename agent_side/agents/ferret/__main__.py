"""Runs ferret's engine as an ACP agent on standard input and output."""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from pathlib import Path

EXIT_NO_ENGINE = 5


def main() -> int:
    """Serve until standard input ends; give the exit code."""
    if importlib.util.find_spec("agent_side") is None:  # run by path, in the engine's own Python
        sys.path.append(str(Path(__file__).parents[3]))
    from agent_side.agents.ferret.agent import MODES, Agent
    from agent_side.agents.ferret.engine import INSTALL, load_engine

    parser = argparse.ArgumentParser(prog="ferret", description=__doc__)
    parser.add_argument("--model", help="as ferret takes it; else FERRET_MODEL, else by the key")
    parser.add_argument("--mode", default="suggest", choices=MODES)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        engine = load_engine()
    except ImportError as error:
        print(f"ferret's engine is not here ({error}); install it: {INSTALL}", file=sys.stderr)  # noqa: T201
        return EXIT_NO_ENGINE
    Agent(engine, options).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
