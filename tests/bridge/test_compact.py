"""Neighbouring pieces of a text as one entry: the text stays, cursors mean what they mean."""

import json

from hypothesis import given
from hypothesis import strategies as st

from bridge.batch import items_of
from bridge.compact import JOINED_BYTES, joined
from bridge.protocol import entry
from bridge.protocol.cursor import Cursor
from bridge.protocol.entry import META_KEY, Meta, Origin

KINDS = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"]


def piece(seq, kind, text, more):
    content = {"type": "text", "text": text, **more.get("content", {})}
    update = {"sessionUpdate": kind, "content": content, **more.get("update", {})}
    meta = Meta(7, seq, "2026-12-01T09:00:00.000Z", **more.get("meta", {}))
    text = entry.stamp(entry.UPDATE, "s1", meta, {"update": update})
    return Cursor(7, seq), text


MORE = st.sampled_from(
    [{}] * 6
    + [
        {"content": {"annotations": {}}},
        {"update": {"messageId": "m-2"}},
        {"update": {"_meta": {"of": "the agent"}}},
        {"meta": {"origin": Origin("alice")}},
        {"meta": {"full": entry.Full(9)}},
    ]
)
PIECES = st.lists(st.tuples(st.sampled_from(KINDS), st.text(max_size=9), MORE), max_size=30)


def read(entries):
    """What a person reads: text by kind and message, other entries as they are, in order."""
    shown = []
    for cursor, text in entries:
        params = json.loads(text)["params"]
        meta = params["_meta"][META_KEY]
        update = params["update"]
        joinable = set(meta) <= {"epoch", "seq", "at", "joined"} and set(update["content"]) == {
            "type",
            "text",
        }
        place = (update["sessionUpdate"], update.get("messageId"))
        if not joinable or "_meta" in update:
            shown.append((cursor, text))
        elif shown and shown[-1][0] == place:
            shown[-1] = (place, shown[-1][1] + update["content"]["text"])
        else:
            shown.append((place, update["content"]["text"]))
    return shown


@given(PIECES)
def test_any_pieces_read_the_same_joined_and_every_number_is_accounted_for(pieces):
    entries = [piece(seq, *each) for seq, each in enumerate(pieces, 1)]
    found = joined(items_of(entries))
    assert read([(item.cursor, item.text) for item in found]) == read(entries)
    numbers = []
    for item in found:
        meta = json.loads(item.text)["params"]["_meta"][META_KEY]
        assert item.cursor == Cursor(meta["epoch"], meta["seq"]) == item.envelope.cursor
        numbers += range(meta["seq"] - meta.get("joined", 1) + 1, meta["seq"] + 1)
    assert numbers == [cursor.seq for cursor, _ in entries]


def test_a_long_text_is_a_tenth_of_its_pieces_and_no_piece_is_huge():
    entries = [piece(seq, KINDS[0], "word word ", {}) for seq in range(1, 10_001)]
    found = joined(items_of(entries))
    before, after = sum(len(t) for _, t in entries), sum(len(item.text) for item in found)
    print(f"10,000 pieces: {before:,} bytes, {len(found)} joined: {after:,} bytes")
    assert after < before / 10
    assert max(len(item.text) for item in found) < JOINED_BYTES * 1.1


def test_an_epochs_first_piece_stays_alone():
    first = piece(1, KINDS[0], "a", {"meta": {"prev": "3:3"}})
    assert len(joined(items_of([first, piece(2, KINDS[0], "b", {})]))) == 2
