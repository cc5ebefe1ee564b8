"""What is promised of an agent on this machine, and no more: each line says whether it holds.

``always``: this machine sees to it. ``asked``: it holds as far as the agent keeps to what it is
told. ``never``: nobody sees to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from agent_side.agents.catalog import AGENTS, OwnAgent
from agent_side.receipts import NOT_KEPT
from agent_side.sandbox import Mode, SandboxState
from bridge.protocol.uplink import Guarantee

ALWAYS, ASKED, NEVER = "always", "asked", "never"


@dataclass(frozen=True)
class Abilities:
    """What is known of an agent and of the machine it runs on."""

    name: str  # the catalogue's, or the program's
    title: str
    ask_mode: str | None = None
    not_kept: str = ""  # why there are no snapshots: off, or a word of receipts.NOT_KEPT
    sandbox: SandboxState = field(default_factory=SandboxState)
    redacts: bool = True  # whether secrets are kept from the relay


def lines(known: Abilities) -> list[Guarantee]:
    """Give the promises, the strongest first."""
    found = [*_way_back(known), _asks(known), _files(), _sandbox(known), _secrets(known)]
    order = (ALWAYS, ASKED, NEVER)
    return sorted(found, key=lambda line: order.index(line.holds))


def sentence(found: list[Guarantee]) -> str:
    """Say all promises in one line."""
    return "; ".join(line.text for line in found)


def _way_back(known: Abilities) -> Iterator[Guarantee]:
    if known.not_kept == "off":
        yield Guarantee("undo", NEVER, "no copy is kept before a turn: snapshots are off")
        return
    if known.not_kept:
        yield Guarantee("undo", NEVER, f"no copy is kept before a turn: {NOT_KEPT[known.not_kept]}")
    else:
        yield Guarantee("undo", ALWAYS, "a copy is kept before each turn, which can be undone")
    yield Guarantee("receipt", ALWAYS, "each permission that was given stands in the receipt")


def _asks(known: Abilities) -> Guarantee:
    agent = AGENTS.get(known.name)
    if isinstance(agent, OwnAgent):
        return Guarantee("asks", ALWAYS, "nothing that needs a permission runs before the answer")
    if known.ask_mode or (agent is not None and agent.settings):
        return Guarantee(
            "asks",
            ASKED,
            f"{known.title} is set to ask before it writes or runs; it keeps to it"
            " by itself and may write without asking",
        )
    return Guarantee(
        "asks", NEVER, f"no mode is known in which {known.title} asks: it may write and run unasked"
    )


def _secrets(known: Abilities) -> Guarantee:
    if not known.redacts:
        return Guarantee("secrets", NEVER, "keys and tokens that it prints go to the relay")
    text = (
        "keys and tokens of known kinds that it prints stay here, unless a question would run them"
    )
    return Guarantee("secrets", ALWAYS, text)


def _files() -> Guarantee:
    return Guarantee(
        "scope",
        ASKED,
        "files that it reads or writes through the bridge lie in the session's "
        "folder; with its own tools it may reach others",
    )


def _sandbox(known: Abilities) -> Guarantee:
    state = known.sandbox
    if state.enforced:
        text = f"its process is held by {state.by}: {state.mode}"
        return Guarantee("sandbox", ALWAYS, text)
    if state.mode is not Mode.OFF:
        text = f"{state.mode} holds only for what it asks: {state.why}"
        return Guarantee("sandbox", ASKED, text)
    return Guarantee("sandbox", NEVER, "its commands run with your rights: no sandbox holds them")
