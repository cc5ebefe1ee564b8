"""A session taken away as a file: what it says, where it begins, and that it runs nothing."""

import json

import pytest
from fakes.served import serving

from bridge.passages import Kind, Passage, passages
from bridge.protocol import entry
from bridge.protocol.acp import Role
from bridge.protocol.entry import Meta, Origin
from bridge.transcript import Transcripts
from bridge.transcript_forms import Html, Markdown

FACTS = {"title": "fix <it>", "cwd": "/w", "agent": "a1", "sessionId": "s1", "createdAt": ""}
WHOLE = {**FACTS, "complete": True, "first": "1-1"}


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def client(served, redis_url):
    async with served.client(Role.VIEWER) as asking:
        yield asking


def says(writer, seq, kind, text, *, origin=None, **more):
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more}
    meta = Meta(writer.epoch, seq, entry.timestamp(1_790_000_000_000), origin=origin)
    text = entry.stamp(entry.UPDATE, "s1", meta, {"update": update})
    return entry.read(text).cursor, text, entry.read(text)


async def taken(client, form):
    answer = await client.get("/api/sessions/s1/transcript", params={"as": form})
    assert answer.status_code == 200, answer.text
    return answer


def read(**update):
    return list(passages({"method": entry.UPDATE, "params": {"update": update}}))


@pytest.mark.parametrize("writer_of", [Markdown, Html])
def test_pieces_of_one_text_are_one_text(writer_of):
    form = writer_of(WHOLE)
    text = "".join(form.passage(Passage(Kind.AGENT, "", piece)) for piece in ("Hel", "lo"))
    assert "Hello" in text
    assert text.count("Agent") == 1


def test_html_runs_nothing_that_anybody_wrote():
    form = Html(WHOLE)
    evil = '<img src=x onerror="alert(1)">'
    page = form.head() + form.passage(Passage(Kind.TOOL, evil, evil)) + form.end()
    assert "<img" not in page
    assert "fix &lt;it&gt;" in page
    assert "default-src 'none'" in page


def test_no_command_ends_its_own_fence():
    text = Markdown(WHOLE).passage(Passage(Kind.TOOL, "ran", "```\n# not a heading"))
    assert text.count("````") == 2


def test_a_text_that_does_not_begin_with_the_session_says_so():
    held = Markdown({**FACTS, "complete": False, "first": "1-40"})
    assert "keeps no earlier entries" in held.head()
    assert Markdown(WHOLE).head().endswith("History starts here.")


def test_a_tool_call_tells_its_command_its_change_and_its_end():
    diff = {"type": "diff", "path": "a.py", "oldText": "x", "newText": "y"}
    [begun] = read(
        sessionUpdate="tool_call", title="Edit", rawInput={"command": "sed"}, content=[diff]
    )
    assert begun.text == "sed\na.py\n- x\n+ y"
    assert read(sessionUpdate="tool_call_update", status="in_progress") == []
    [ended] = read(sessionUpdate="tool_call_update", title="Edit", status="failed")
    assert ended.head == "Edit failed"


@pytest.mark.parametrize("content", [None, 1, [], {"type": "image"}, {"resource": 3}])
def test_whatever_an_agent_sends_can_be_read(content):
    read(sessionUpdate="agent_message_chunk", content=content)
    read(sessionUpdate="tool_call", content=content, rawInput=content)
    read(sessionUpdate="plan", entries=content)


async def test_a_session_is_taken_away_in_order(client, writer):
    alice = Origin("alice")
    await writer.append(
        says(writer, 1, "user_message_chunk", "List <the> files", origin=alice),
        says(writer, 2, "agent_message_chunk", "I look "),
        says(writer, 3, "agent_message_chunk", "now."),
        writer.question(4),
    )
    answer = await taken(client, "md")
    text = answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="session-s1.md"'
    assert text.index("List <the> files") < text.index("I look now.") < text.index("git push")
    assert "Person · alice" in text
    page = (await taken(client, "html")).text
    assert "List &lt;the&gt; files" in page


async def test_json_has_each_entry_as_it_was_written(client, writer):
    await writer.append(writer.update(1), writer.update(2))
    found = json.loads((await taken(client, "json")).text)
    assert [one["params"]["update"]["text"] for one in found["entries"]] == ["update 1", "update 2"]
    assert found["complete"] is True


async def test_a_session_that_goes_on_is_taken_away_as_it_was_when_it_was_asked_for(writer):
    await writer.append(writer.update(1))
    asked = await writer.sessions.get("acme", "s1")
    await writer.append(writer.update(2))
    pieces = [piece async for piece in Transcripts(writer.log).write("acme", asked, "json")]
    assert len(json.loads(b"".join(pieces))["entries"]) == 1


async def test_an_unknown_session_and_another_tenants_look_the_same(served, client, writer):
    await writer.append(writer.update(1))
    unknown = await client.get("/api/sessions/s9/transcript")
    async with served.client(Role.ADMIN, tenant="other") as stranger:
        foreign = await stranger.get("/api/sessions/s1/transcript")
    assert (unknown.status_code, foreign.status_code) == (404, 404)
    assert unknown.json()["error"]["reason"] == foreign.json()["error"]["reason"]
