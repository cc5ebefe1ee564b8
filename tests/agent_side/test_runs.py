"""Pieces of text while the relay is behind: joined before they are numbered, shown here at once."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from fakes.cable import Cable, Tap
from fakes.relay import FakeRelay
from fakes.running import Running
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_side import log as log_module
from agent_side.journal import Journal
from agent_side.log import Draft, Log
from bridge.protocol import chunk, entry, jsonrpc
from bridge.protocol.cursor import START

KINDS = ["agent_message_chunk", "agent_thought_chunk"]


class Written:
    """A log on disk that may be behind, and all that a door and the journal hold of it."""

    def __init__(self, folder):
        self.behind = False
        self.journal = Journal(Path(folder))
        self.journal.begin("s")
        self.shown = []
        self.log = Log(
            self.journal,
            7,
            lambda w: (
                None if w.joined else self.shown.append(json.loads(w.text)["params"]["update"])
            ),
            lambda error: pytest.fail(str(error)),
            is_behind=lambda: self.behind,
            on_piece=lambda p: self.shown.append(json.loads(p.text)["params"]["update"]),
        )

    def say(self, kind, text, message_id=None):
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        if message_id:
            update["messageId"] = message_id
        piece = chunk.read(jsonrpc.encode(update))
        self.log.say("s", Draft(method=entry.UPDATE, fields={"update": update}), piece)

    def tool(self, name):
        update = {"sessionUpdate": "tool_call", "toolCallId": name, "title": name}
        self.log.append("s", Draft(method=entry.UPDATE, fields={"update": update}))

    def kept(self):
        """The updates of the journal."""
        held = self.journal.sessions["s"].read_after(START)
        return [json.loads(text)["params"]["update"] for _, text in held]


@pytest.fixture
def written(tmp_path):
    made = Written(tmp_path)
    yield made
    made.journal.close()


def read(updates):
    """What a person reads: one text per run of a message, everything else in its place."""
    shown = []
    for update in updates:
        place = (update["sessionUpdate"], update.get("messageId"), update.get("toolCallId"))
        if shown and shown[-1][0] == place and "content" in update:
            shown[-1] = (place, shown[-1][1] + update["content"]["text"])
        else:
            shown.append((place, update.get("content", {}).get("text")))
    return shown


SAID = st.tuples(st.sampled_from(KINDS), st.text(max_size=5), st.sampled_from([None, "m1", "m2"]))
STEPS = st.lists(
    st.one_of(
        SAID,
        SAID,
        st.sampled_from(["behind", "level", "tool", "wait", "step", "flush"]),
    ),
    max_size=40,
)


@given(STEPS)
@settings(deadline=None, max_examples=150)
def test_any_pieces_say_the_same_joined_and_everything_stays_in_order(steps):
    async def run(folder):
        made = Written(folder)
        plain = []
        for number, step in enumerate(steps):
            if isinstance(step, tuple):
                kind, text, message_id = step
                made.say(*step)
                piece = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
                plain.append(piece | ({"messageId": message_id} if message_id else {}))
            elif step == "tool":
                made.tool(f"t{number}")
                plain.append({"sessionUpdate": "tool_call", "toolCallId": f"t{number}"})
            elif step == "step":
                made.log.then(lambda: None)
            elif step == "flush":
                made.log.flush()
            elif step == "wait":
                await asyncio.sleep(0)
            else:
                made.behind = step == "behind"
        made.log.settle_all()
        made.log.flush()
        kept = made.kept()
        made.journal.close()
        assert read(kept) == read(plain)
        assert read(made.shown) == read(plain)
        assert len(made.shown) == len(plain)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


async def test_nothing_waits_while_the_relay_keeps_up(written):
    written.say(KINDS[0], "one")
    written.say(KINDS[0], "two")
    assert len(written.kept()) == 2


async def test_a_piece_waits_for_its_neighbours_forty_milliseconds_at_most(written):
    written.behind = True
    begun = asyncio.get_running_loop().time()
    for text in "abc":
        written.say(KINDS[0], text)
    await asyncio.sleep(0)
    assert len(written.shown) == 3
    assert written.kept() == []
    async with asyncio.timeout(5):
        while not written.kept():  # noqa: ASYNC110 (a timer of the loop)
            await asyncio.sleep(0.001)
    waited = asyncio.get_running_loop().time() - begun
    print(f"numbered after {1000 * waited:.0f} ms")
    assert written.kept()[0]["content"]["text"] == "abc"
    assert waited >= log_module.RUN_SECONDS * 0.9


async def test_a_step_comes_behind_the_pieces_before_it(written):
    written.behind = True
    written.say(KINDS[0], "text")
    written.log.then(lambda: written.shown.append({"sessionUpdate": "step"}))
    written.log.flush()
    assert [u["sessionUpdate"] for u in written.shown] == [KINDS[0], "step"]
    assert len(written.kept()) == 1


# Over a line.


class Counting(Tap):
    """Counts what goes up over all connections."""

    def __init__(self):
        self.carried = 0

    def up(self, data):
        self.carried += len(data)


async def spoken(folder, relay, chunks, rate):
    """Have an agent say so many pieces over a line; gives what it took."""
    steps = [{"chunks": chunks, "every": 0.0002, "text": "word {i} "}]
    tap = Counting()
    async with (
        Cable(relay.url, tap=lambda: tap) as line,
        Running(folder, relay=line, turns=[steps]) as it,
    ):
        line.rate, line.piece = rate, 400
        session = await relay.new_session(it.work)
        begun = asyncio.get_running_loop().time()
        ended = it.prompt(session)
        async with asyncio.timeout(60):
            await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        await ended
        seconds = asyncio.get_running_loop().time() - begun
        said = [p["params"]["update"]["content"]["text"] for _, p, _ in it.door.pieces]
        whole = "".join(f"word {n} " for n in range(chunks))
        assert "".join(relay.texts(session)) == "".join(it.texts(session)) == whole
        return seconds, tap.carried, relay.heard, len(said)


async def test_a_slow_line_carries_a_fast_text_in_a_few_entries(tmp_path):
    async with FakeRelay() as relay:
        seconds, carried, entries, pieces = await spoken(tmp_path, relay, 3_000, 20_000)
    alone = 3_000 * 280
    print(f"3,000 pieces over 20 kB/s: {entries} entries, {carried:,} bytes, {seconds:.1f} s;")
    print(f"one by one they are {alone:,} bytes and {alone / 20_000:.0f} s")
    print(f"{pieces} pieces were shown here at once")
    assert entries < 600
    assert carried < alone / 3
