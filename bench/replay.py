"""A long session opened: its newest page beside a short one's, and all of it again."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median

from bench.bars import Wanted, measured, options
from bench.relays import SESSION, Relays, entry_parts, relays
from bench.servers import Running
from bench.table import Figures, Table
from bench.uplink import fill

SHORT, LONG = "1,000 entries", "200,000 entries"
LENGTHS = {SHORT: 1_000, LONG: 200_000}
PAGES = 30
PAGE = 200
COLUMNS = {
    "page_ms": ("newest page ms", "{:,.2f}"),
    "entries_per_second": ("replayed entries/s", "{:,.0f}"),
}


def main(arguments: list[str]) -> int:
    """Run it."""
    chosen = options("replay", __doc__, rounds=3).parse_args(arguments)
    servers = {name: partial(_filled, length) for name, length in LENGTHS.items()}
    title = f"a session's newest {PAGE} entries, and its whole log read page by page"
    return measured("replay", title, chosen, servers, _measure, COLUMNS, _wanted)


@contextmanager
def _filled(length: int) -> Iterator[Relays]:
    with relays(log_entries=str(2 * length), log_bytes=str(1 << 30)) as at:
        head, mid, tail = entry_parts(300, at.epoch)
        head = head.replace("bench-@S", SESSION.format(0))
        texts = [f"{head}{0:019d}{mid}{n}{tail}".encode() for n in range(1, length + 1)]
        fill(at.store_url, SESSION.format(0), at.epoch, texts, batch=200, keep=2 * length)
        yield at


def _measure(running: Running) -> Figures:
    assert isinstance(running, Relays)
    connection = http.client.HTTPConnection("127.0.0.1", running.port)
    headers = {"Authorization": f"Bearer {running.token('person')}"}
    path = f"/api/sessions/{SESSION.format(0)}/log"

    def get(query: str) -> bytes:
        connection.request("GET", f"{path}?{query}", headers=headers)
        response = connection.getresponse()
        body = response.read()
        assert response.status == 200, body[:500]
        return body

    took = []
    for _ in range(PAGES):
        began = time.perf_counter()
        page = get(f"limit={PAGE}")
        took.append((time.perf_counter() - began) * 1000)
    assert page.count(b'"seq":') >= PAGE
    seq = found = 0
    began = time.perf_counter()
    while entries := get(f"after={running.epoch}:{seq}&limit=1000").count(b'"session/update"'):
        found += entries
        seq += entries
    return {
        "page_ms": median(took),
        "entries_per_second": found / (time.perf_counter() - began),
    }


def _wanted(table: Table) -> list[Wanted]:
    return [Wanted(f"newest page, {LONG} / {SHORT}", table.ratio(LONG, SHORT, "page_ms"), 2)]
