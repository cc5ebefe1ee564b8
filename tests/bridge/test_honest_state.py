"""How old what people see of an agent can be, whichever one thing broke without a word."""

import re
from pathlib import Path

from bridge import agents, bulletin, inbox, nodes, uplinks
from bridge.protocol import attachment, uplink

PROMISED_SECONDS = 45
CONNECTION = Path(__file__).parents[2] / "bridge" / "page" / "src" / "connection.ts"


def of_page(name: str) -> float:
    found = re.search(rf"{name} = ([0-9_]+);", CONNECTION.read_text())
    return int(found[1]) / 1000


# A dead page is shown as such by itself, however late the other thing happened.
PAGE_SECONDS = of_page("PROBE_AFTER") + of_page("LOOK_EVERY") + of_page("PROBE_WITHIN")


def test_a_dead_line_of_a_connector_and_then_of_the_page():
    dead = uplink.PING_AFTER_SECONDS + uplink.DEAD_AFTER_SECONDS
    assert dead + PAGE_SECONDS <= PROMISED_SECONDS


def test_a_relay_process_that_is_killed_and_then_a_dead_line_of_the_page():
    noticed = inbox.TICK_SECONDS + nodes.QUIET_MS / 1000 + nodes.LOOK_SECONDS
    assert noticed + bulletin.LOOK_SECONDS + PAGE_SECONDS <= PROMISED_SECONDS


def test_a_machine_of_a_relay_that_is_gone():
    assert agents.LEASE_MS / 1000 + bulletin.LOOK_SECONDS <= PROMISED_SECONDS


def test_what_is_known_of_a_living_line_is_never_so_old_that_it_looks_dead():
    oldest = uplink.PING_AFTER_SECONDS + agents.RENEW_SECONDS + 2 * uplinks.TICK_SECONDS
    assert oldest < attachment.SILENCE_MS / 1000
