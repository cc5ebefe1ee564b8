"""The client for fixed rates (``paced.c``): what it is told, and what it measured."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.relays import Relays, dashboard_lines, entry_parts
from bench.rounds import CannotMeasure, run_load
from bench.servers import Running
from bench.table import Figures
from bridge.protocol import acp, uplink

NO_EPOCH = 1_000_000_000_000


@dataclass(frozen=True)
class Load:
    """Who connects, and what the connector sends; rate 0: nothing."""

    rate: float = 0
    sessions: int = 1
    dashboards: int = 1  # of each session that is watched
    watched: int | None = None  # sessions, by dashboards; None: all
    consoles: int = 0  # that watch all sessions
    warm: int = 0  # dashboards that are there before the set-up and the memory are measured
    seconds: float = 3.0
    size: int = 300

    def measure(self, running: Running) -> Figures:
        """Load a server; at several relays the connector is at the first, people at the last."""
        options = ["-r", str(self.rate), "-x", str(self.sessions), "-n", str(self.dashboards)]
        options += ["-y", str(self.sessions if self.watched is None else self.watched)]
        options += ["-a", str(self.consoles), "-w", str(self.warm), "-d", str(self.seconds)]
        epoch = running.epoch if isinstance(running, Relays) else NO_EPOCH
        head, mid, tail = entry_parts(self.size, epoch)
        options += ["-e", head, "-m", mid, "-t", tail]
        with ExitStack() as stack:
            if isinstance(running, Relays):
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cb-")))
                options += _dialog(running, self.sessions, folder)
            else:
                options += ["-P", "/sub/0", "-Q", "/pub/0"]
            figures = run_load("paced", options, replace(running, options=[]))
        return _checked(figures, isinstance(running, Relays))


def _dialog(at: Relays, sessions: int, folder: Path) -> list[str]:
    viewers = at.viewers or [at.token("person")]
    files = {
        "J": [at.hello(sessions).decode()],
        "S": dashboard_lines(acp.RESUME) if at.lines is None else at.lines,
        "H": [f"Authorization: Bearer {one}" for one in viewers],
    }
    options = ["-q", str(at.ports[0]), "-Q", "/uplink", "-P", "/acp"]
    options += ["-g", f"Sec-WebSocket-Protocol: {uplink.SUBPROTOCOL}"]
    options += ["-g", f"Authorization: Bearer {at.token('agent')}"]
    for option, lines in files.items():
        path = folder / option
        path.write_text("".join(f"{line}\n" for line in lines))
        options += [f"-{option}", str(path)]
    return options


def _checked(figures: Figures, is_stored: bool) -> Figures:  # noqa: FBT001
    if figures["missing"] or figures["closed"]:
        raise CannotMeasure(f"entries are missing or connections were closed: {figures}")
    if is_stored and figures["stored"] != figures["published"]:
        raise CannotMeasure(f"not all entries were acknowledged: {figures}")
    return figures
