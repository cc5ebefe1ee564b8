import asyncio
import os

import pytest

from agent_side.doors import lines


@pytest.fixture
async def ends():
    """The client's ends of both pipes, and our side of them."""
    (source, their_sink), (their_source, sink) = os.pipe(), os.pipe()
    ours = lines.ClientLines(source, sink)
    yield their_source, their_sink, ours
    await ours.close()
    for fd in (their_source, their_sink):
        try:
            os.close(fd)
        except OSError:
            continue


async def test_lines_arrive_whole_and_in_order(ends):
    _, theirs, ours = ends
    got, enough = [], asyncio.Event()

    def take(line):
        got.append(line)
        if len(got) == 3:
            enough.set()

    await ours.open(take, lambda: None)
    os.write(theirs, b'{"a":')
    os.write(theirs, b'1}\n\n{"b":2}\n{"c"')
    os.write(theirs, b":3}\n")
    await enough.wait()
    assert got == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


async def test_the_end_of_input_gives_the_last_line_and_says_gone(ends):
    _, theirs, ours = ends
    got = []
    await ours.open(got.append, lambda: None)
    os.write(theirs, b'{"last":1}')
    os.close(theirs)
    await ours.gone.wait()
    assert got == [b'{"last":1}']


async def test_a_line_over_the_limit_is_told_and_the_next_one_arrives(ends, monkeypatch):
    _, theirs, ours = ends
    ours._splitter._limit = 10
    got, skipped, there = [], [], asyncio.Event()
    await ours.open(lambda line: (got.append(line), there.set()), lambda: skipped.append(1))
    os.write(theirs, b"x" * 50 + b"\nshort\n")
    await there.wait()
    assert (got, skipped) == ([b"short"], [1])


async def test_what_is_written_has_one_line_per_message(ends):
    theirs, _, ours = ends
    await ours.open(lambda _: None, lambda: None)
    ours.write(b'{"a":\r\n 1}')
    ours.write(b'{"b":2}')
    await ours.close()
    assert os.read(theirs, 1000) == b'{"a":   1}\n{"b":2}\n'


async def test_a_client_that_stops_reading_is_gone(ends):
    theirs, _, ours = ends
    await ours.open(lambda _: None, lambda: None)
    os.close(theirs)
    ours.write(b"{}")
    await ours.gone.wait()


async def test_files_do_as_well_as_pipes(tmp_path):
    (tmp_path / "in").write_bytes(b'{"a":1}\n{"b":2}\n')
    source = os.open(tmp_path / "in", os.O_RDONLY)
    sink = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    ours = lines.ClientLines(source, sink)
    await ours.open(ours.write, lambda: None)
    await ours.gone.wait()
    await ours.close()
    assert (tmp_path / "out").read_bytes() == b'{"a":1}\n{"b":2}\n'
    os.close(sink)
