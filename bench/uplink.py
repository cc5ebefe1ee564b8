"""Entries of one connector that are stored and acknowledged, beside the append script alone."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from redis import Redis

from bench.bars import Wanted, measured, options
from bench.relays import AGENT, SESSION, TENANT, Relays, entry_parts, relays
from bench.rounds import CannotMeasure
from bench.servers import Running
from bench.table import Figures, Table
from bridge import keys
from bridge.protocol import uplink
from bridge.redis import script

SCRIPT, OURS = "append script alone, batches of 50", "one uplink"
BATCH = 50
SIZE = 300
COLUMNS = {"entries_per_second": ("entries/s", "{:,.0f}")}
_ACK = re.compile(rb'"seq":(\d+)')


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = options("uplink", __doc__)
    parser.add_argument("--entries", type=int, default=50_000)
    chosen = parser.parse_args(arguments)
    title = f"{chosen.entries:,} entries of {SIZE} bytes, one session"
    servers = {SCRIPT: _alone, OURS: relays}
    measure = partial(_measure, chosen.entries)
    return measured("uplink", title, chosen, servers, measure, COLUMNS, _wanted)


class _Alone(Relays):
    """A relay whose store is written by the script alone."""


@contextmanager
def _alone() -> Iterator[Relays]:
    with relays() as running:
        yield _Alone(**vars(running))


def _measure(entries: int, running: Running) -> Figures:
    assert isinstance(running, Relays)
    head, mid, tail = entry_parts(SIZE, running.epoch)
    name = SESSION.format(0)
    texts = [
        f"{head.replace('bench-@S', name)}{0:019d}{mid}{seq}{tail}".encode()
        for seq in range(1, entries + 1)
    ]
    if isinstance(running, _Alone):
        seconds = fill(running.store_url, name, running.epoch, texts, batch=BATCH)
    else:
        seconds = _send(running, texts)
    return {"entries_per_second": entries / seconds}


def fill(
    url: str, session: str, epoch: int, texts: list[bytes], *, batch: int, keep: int = 20_000
) -> float:
    """Append texts with the script, call by call; gives the seconds it took."""
    store, wanted = Redis.from_url(url), script("append")
    store.hset(keys.claim(TENANT, AGENT), mapping={"epoch": epoch, "writer": "bench-writer"})
    names = _names(session)
    fixed = [keep, 1 << 40, 86_400_000, 86_400_000, session, AGENT, epoch, "bench-writer", "{}"]
    sha = store.script_load(wanted.text)
    began = time.perf_counter()
    for start in range(0, len(texts), batch):
        taken = texts[start : start + batch]
        arguments: list[Any] = [*fixed, len(taken), 0]
        for seq, text in enumerate(taken, start + 1):
            arguments += (epoch, seq, "", text, "")
        reply: Any = store.evalsha(sha, len(names), *names, *arguments)
        assert reply[1][0][0] == b"ok", reply
    seconds = time.perf_counter() - began
    store.close()
    return seconds


def _names(session: str) -> list[str]:
    log, changes = keys.log(TENANT, session), keys.changes(TENANT)
    return [
        keys.open_round_trips(TENANT),
        keys.closed_round_trips(TENANT),
        keys.sessions(TENANT),
        changes,
        keys.watch(changes),
        keys.audit(TENANT),
        log,
        keys.meta(TENANT, session),
        keys.chunks(TENANT, session),
        keys.asked(TENANT, session),
        keys.watch(log),
        keys.claim(TENANT, AGENT),
        keys.sessions_of(TENANT, AGENT),
    ]


def _send(at: Relays, texts: list[bytes]) -> float:
    """Send all as a connector does, never more unacknowledged than it may have."""
    frames = [_frame(text) for text in texts]
    with socket.create_connection(("127.0.0.1", at.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_upgrade(at.port, at.token("agent")))
        _read_until(connection, b"\r\n\r\n")
        connection.sendall(_frame(at.hello(1)))
        _read_until(connection, b'"closed":')
        began = time.perf_counter()
        _stream(connection, frames)
        return time.perf_counter() - began


def _upgrade(port: int, token: str) -> bytes:
    lines = [
        "GET /uplink HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {uplink.SUBPROTOCOL}",
        f"Authorization: Bearer {token}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def _read_until(connection: socket.socket, text: bytes) -> None:
    got = b""
    while text not in got:
        more = connection.recv(1 << 16)
        if not more:
            raise CannotMeasure(f"the relay closed the connection after {got[:200]!r}")
        got += more


def _stream(connection: socket.socket, frames: list[bytes]) -> None:
    sent, acked, rest = 0, 0, b""
    while acked < len(frames):
        room = min(len(frames), acked + uplink.WINDOW_ENTRIES) - sent
        if room >= BATCH or (room and sent + room == len(frames)):
            connection.sendall(b"".join(frames[sent : sent + min(room, BATCH)]))
            sent += min(room, BATCH)
            if not select.select([connection], [], [], 0)[0]:
                continue
        rest = rest[-200:] + connection.recv(1 << 16)
        found = _ACK.findall(rest)
        acked = max(acked, *(int(one) for one in found)) if found else acked


def _frame(text: bytes) -> bytes:
    """Make a frame as a client does, its mask of zeros."""
    size = len(text)
    assert 125 < size < 1 << 16
    return b"\x81\xfe" + size.to_bytes(2, "big") + bytes(4) + text


def _wanted(table: Table) -> list[Wanted]:
    ratio = table.ratio(OURS, SCRIPT, "entries_per_second")
    return [Wanted(f"{OURS} / {SCRIPT}", ratio, 0.5, at_least=True)]
