import asyncio
import contextlib
import json

import httpx
import pytest
from fakes.running import Running, asks

from agent_side.doors.gate import HttpPlace
from agent_side.doors.http import serve_http

SAYS = {
    "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
}
OWNER = {"Authorization": "Bearer master"}
WAIT_SECONDS = 20


@contextlib.asynccontextmanager
async def served(tmp_path, *, ide_schema=True, token="master", **script):
    async with Running(tmp_path, **script) as running:
        opened = asyncio.get_running_loop().create_future()
        place = HttpPlace(port=0, token=token, ide_schema=ide_schema)
        serving = asyncio.create_task(serve_http(running.connector, place, opened.set_result))
        url = await opened
        try:
            async with httpx.AsyncClient(base_url=url, headers=OWNER, timeout=WAIT_SECONDS) as http:
                http.running = running
                yield http
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def events(http, session, until, **headers):
    """Give the events of a session up to one of that name."""
    found, event = [], {}
    async with asyncio.timeout(WAIT_SECONDS):
        async with http.stream("GET", f"/session/{session}/events", headers=headers) as stream:
            async for line in stream.aiter_lines():
                name, _, value = line.partition(": ")
                if name in ("id", "event", "data"):
                    event[name] = json.loads(value) if name == "data" else value
                if not line and event:
                    found.append(event)
                    if event["event"] == until:
                        return found
                    event = {}
    return found


async def created(http):
    return (await http.post("/session", json={})).json()["session_id"]


async def test_a_session_is_made_prompted_and_read_as_events_and_transcripts(tmp_path):
    async with served(tmp_path, turns=[[SAYS]]) as http:
        made = await http.post("/session", json={"working_dir": str(http.running.work)})
        session = made.json()["session_id"]
        sent = await http.post(f"/session/{session}/message", json={"text": "go"})
        got = await events(http, session, "result")
        assert (made.status_code, sent.status_code) == (201, 202)
        assert [e["event"] for e in got][-2:] == ["loop_event", "result"]
        user = next(e["data"] for e in got if e["event"] == "user_message")
        assert user == {"message_id": sent.json()["message_id"], "text": "go"}
        assert got[-1]["data"]["output"] == "hi"
        assert [int(e["id"]) for e in got] == list(range(1, len(got) + 1))
        shown = (await http.get(f"/session/{session}/transcript.json")).json()
        assert [row["text"] for row in shown["rows"]] == ["go", "hi"]
        assert "hi" in (await http.get(f"/session/{session}/transcript.md")).text
        assert "<h2>Agent</h2>" in (await http.get(f"/session/{session}/transcript.html")).text


async def test_a_stream_goes_on_after_the_last_event_it_names(tmp_path):
    """B15"""
    async with served(tmp_path, turns=[[SAYS]]) as http:
        session = await created(http)
        await http.post(f"/session/{session}/turn", json={"text": "go"})
        whole = await events(http, session, "result")
        rest = await events(http, session, "result", **{"Last-Event-ID": "2"})
        unknown = await events(http, session, "gap", **{"Last-Event-ID": "999"})
        assert rest == whole[2:]
        assert unknown[-1]["data"]["reason"] == "unknown_event_id"


async def test_a_permission_is_approved_over_http(tmp_path):
    async with served(tmp_path, turns=[[asks(), SAYS]]) as http:
        session = await created(http)
        await http.post(f"/session/{session}/message", json={"text": "go"})
        asked = (await events(http, session, "permission_request"))[-1]["data"]
        answer = {"session_id": session, "permission_id": asked["permission_id"], "approved": True}
        elsewhere = await http.post("/tool/approve", json={**answer, "session_id": "other"})
        approved = await http.post("/tool/approve", json=answer)
        await events(http, session, "result")
        assert elsewhere.status_code == 404
        assert approved.json() == {"resolved": True, "approved": True}
        assert http.running.agent.answers()[0]["outcome"]["optionId"] == "yes"


async def test_cancel_ends_the_turn_and_delete_the_session_for_its_callers(tmp_path):
    async with served(tmp_path, turns=[[{"until_cancel": True}]]) as http:
        session = await created(http)
        await http.post(f"/session/{session}/message", json={"text": "go"})
        await http.running.until(lambda: http.running.connector.session(session).prompting)
        assert (await http.post(f"/session/{session}/cancel")).status_code == 204
        assert (await events(http, session, "result"))[-1]["data"]["stop_reason"] == "cancelled"
        assert (await http.delete(f"/session/{session}")).status_code == 204
        assert (await http.get(f"/session/{session}")).json()["error"] == "session_not_found"


async def test_without_the_token_only_health_is_told(tmp_path):
    async with served(tmp_path) as http:
        http.headers.pop("Authorization")
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        assert (await http.get("/sessions")).status_code == 401
        assert (await http.get("/session/x/events")).status_code == 401


async def test_a_sessions_own_token_opens_its_session_alone(tmp_path):
    async with served(tmp_path) as http:
        made = (await http.post("/session", json={})).json()
        http.headers["Authorization"] = f"Bearer {made['session_token']}"
        assert (await http.get(f"/session/{made['session_id']}")).status_code == 200
        assert (await http.get("/sessions")).status_code == 401
        rotated = await http.post(f"/session/{made['session_id']}/rotate-token")
        assert rotated.json() == {"error": "admin_only"}


@pytest.mark.parametrize(
    "headers",
    [{"Host": "rebound.example"}, {"Origin": "http://evil.example"}],
    ids=["host", "origin"],
)
async def test_a_page_of_another_origin_reaches_nothing(tmp_path, headers):
    async with served(tmp_path, token="") as http:
        assert (await http.post("/session", json={}, headers=headers)).status_code == 403


async def test_streams_without_the_ide_schema_have_no_kind_of_it(tmp_path):
    card = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "make", "kind": "execute"}
    done = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}
    turns = [[{"update": card}, {"update": {**done, "rawOutput": "ok"}}]]
    async with served(tmp_path, ide_schema=False, turns=turns) as http:
        session = await created(http)
        await http.post(f"/session/{session}/message", json={"text": "go"})
        names = {e["event"] for e in await events(http, session, "result")}
        assert names == {"user_message", "loop_event", "result"}


async def test_bodies_that_are_no_object_are_refused(tmp_path):
    async with served(tmp_path) as http:
        assert (await http.post("/session", content=b"{")).json()["error"] == "invalid_json"
        listed = await http.post("/session", content=b"[]")
        assert listed.json()["error"] == "expected_json_object"
        relative = await http.post("/session", json={"working_dir": "here"})
        assert relative.status_code == 400
