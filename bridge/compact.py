"""Neighbouring pieces of one text read as one entry: the small form of a long history.

The joined entry has the number of its last piece and says how many it stands for, so a cursor means
what it always means. Only pieces that say nothing but text are joined.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from bridge.protocol import chunk, entry
from bridge.protocol.chunk import Chunk
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import META_KEY, Meta
from bridge.viewer import Item

JOINED_BYTES = 32 << 10  # of text in one joined entry


class _Stamp(msgspec.Struct, forbid_unknown_fields=True):
    epoch: int
    seq: int
    at: str = ""


class _Holder(msgspec.Struct, forbid_unknown_fields=True):
    bridge: _Stamp = msgspec.field(name=META_KEY)


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    update: Chunk
    session_id: str = msgspec.field(name="sessionId")
    meta: _Holder = msgspec.field(name="_meta")


class _Update(msgspec.Struct, forbid_unknown_fields=True):
    jsonrpc: str
    method: Literal["session/update"]
    params: _Params


_decode = msgspec.json.Decoder(_Update).decode


def joined(items: list[Item]) -> list[Item]:
    """Give the same entries with neighbouring pieces of a text joined."""
    result: list[Item] = []
    run: list[tuple[Item, _Params]] = []
    size = 0
    for item in items:
        params = _chunk_of(item.text)
        if run and not (params and _follows(run[-1][1], params) and size < JOINED_BYTES):
            result.append(_join(run))
            run = []
        if params is None:
            result.append(item)
            continue
        size = len(params.update.content.text) + (size if run else 0)
        run.append((item, params))
    if run:
        result.append(_join(run))
    return result


def _chunk_of(text: bytes) -> _Params | None:
    if b"_chunk" not in text:
        return None
    try:
        return _decode(text).params
    except msgspec.DecodeError:
        return None


def _follows(before: _Params, after: _Params) -> bool:
    one, two = before.meta.bridge, after.meta.bridge
    return (one.epoch, one.seq + 1) == (two.epoch, two.seq) and after.update.continues(
        before.update
    )


def _join(run: list[tuple[Item, _Params]]) -> Item:
    last, params = run[-1]
    if len(run) == 1:
        return last
    stamp = params.meta.bridge
    meta = Meta(stamp.epoch, stamp.seq, stamp.at, joined=len(run))
    update = chunk.join([part.update for _, part in run])
    whole = entry.stamp(entry.UPDATE, params.session_id, meta, {"update": update})
    return Item(Cursor(meta.epoch, meta.seq), whole, entry.read(whole))
