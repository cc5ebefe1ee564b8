"""The REST API over a real socket and a real store: what is shown, who may, and bad input."""

import asyncio
import json
import os
import signal

import jsonschema
import pytest
from fakes.served import serving

from bridge import keys
from bridge.protocol import entry, round_trip
from bridge.protocol.acp import Role
from bridge.protocol.attachment import Reason
from bridge.protocol.cursor import START
from bridge.protocol.uplink import MailDone, SessionCard

UNKNOWN = "s-unknown"
PROMPT = {"method": "session/prompt", "params": {"prompt": [{"type": "text", "text": "go"}]}}


@pytest.fixture(scope="module")
async def served(redis_server):
    """A relay for all tests here; its Redis is emptied before each."""
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def client(served, redis_url):
    async with served.client() as asking:
        yield asking


@pytest.fixture
async def asked(writer):
    """A session with three updates and an open question after them."""
    await writer.append(*[writer.update(n) for n in (1, 2, 3)], writer.question(4))
    return writer


def answer(writer, **changed):
    hash_ = round_trip.hash_of(writer.subject())
    return {"hash": hash_, "answer": {"optionId": "allow"}, "decisionId": "d-1", **changed}


async def texts(served, session="s1"):
    held = await served.relay.log.read("acme", session, START, 10**6)
    return [json.loads(text) for _, text in held]


# What is shown.


async def test_me_says_who_asks(client, served):
    found = (await client.get("/api/me")).json()
    assert found == {
        "subject": "alice",
        "tenant": "acme",
        "role": "admin",
        "device": "",
        "kind": "person",
        "relay": {"version": served.relay.version, "node": served.relay.node},
    }


async def test_lists_show_the_records_as_they_are(client, served, asked):
    await asked.sessions.put_card(
        asked.claim,
        SessionCard("s1", "a1", 1, title="fix", cwd="/app", modes={"currentModeId": "plan"}),
    )
    relay = served.relay
    for path, records in (
        ("agents", await relay.agents.list("acme")),
        ("sessions", await relay.sessions.list("acme")),
        ("round-trips", await relay.round_trips.list("acme")),
    ):
        [shown] = (await client.get(f"/api/{path}")).json().values()
        expected = [steady(record.as_json()) for record in records]
        assert [steady(one) for one in shown] == expected, path
        assert expected
    one = (await client.get("/api/sessions/s1")).json()
    assert one["title"] == "fix"
    assert one["open"] == ["rt-1"]


def steady(record):
    """A record without what depends on the moment it is read."""
    record.get("attachment", {}).pop("lastSeen", None)
    return record


async def test_the_list_of_agents_says_when_each_was_last_heard(client, served, asked):
    """C18."""
    for quiet_ms, state in ((5_000, "attached"), (60_000, "unresponsive")):
        await asked.agents.renew(asked.claim, quiet_ms)
        [agent] = (await client.get("/api/agents")).json()["agents"]
        now, shown = await served.relay.store.time_ms(), agent["attachment"]
        age_ms = now - entry.milliseconds(shown["lastSeen"])
        assert shown["state"] == state
        assert quiet_ms <= age_ms < quiet_ms + 10_000


async def test_closed_questions_are_shown_when_all_are_asked_for(client, asked):
    await asked.append(asked.resolved(5, result="void", reason="local"))
    assert (await client.get("/api/round-trips")).json() == {"roundTrips": []}
    [shown] = (await client.get("/api/round-trips?state=all")).json()["roundTrips"]
    assert (shown["state"], shown["result"], shown["reason"]) == ("closed", "void", "local")


# The log.


async def test_the_log_is_paged_both_ways_and_entries_are_as_they_were_stored(
    client, served, asked
):
    stored = await texts(served)
    newest = (await client.get("/api/sessions/s1/log?limit=2")).json()
    assert newest["entries"] == stored[2:]
    cursors = [f"{asked.epoch}:{n}" for n in (1, 2, 3, 4)]
    assert (newest["first"], newest["last"], newest["more"]) == (cursors[0], cursors[3], True)
    older = (await client.get(f"/api/sessions/s1/log?before={cursors[2]}&limit=2")).json()
    assert (older["entries"], older["more"]) == (stored[:2], False)
    later = (await client.get(f"/api/sessions/s1/log?after={cursors[0]}&limit=2")).json()
    assert (later["entries"], later["more"]) == (stored[1:3], True)
    rest = (await client.get(f"/api/sessions/s1/log?after={cursors[2]}")).json()
    assert (rest["entries"], rest["more"]) == (stored[3:], False)


async def test_bytes_of_an_entry_are_not_written_anew(client, writer):
    text = '{"a":1.0, "b":"\\u00e9\\/"}'
    cursor, stored, envelope = writer.update(1, text="x")
    odd = stored.replace(b'"text":"x"', f'"odd":{text}'.encode())
    await writer.append((cursor, odd, envelope))
    assert odd in (await client.get("/api/sessions/s1/log")).content


@pytest.mark.parametrize(
    "query", ["before=x", "after=1-2", "before=1:1&after=1:1", "limit=0", "limit=1001", "limit=x"]
)
async def test_a_page_that_cannot_be_is_named(client, asked, query):
    refused = await client.get(f"/api/sessions/s1/log?{query}")
    assert refused.status_code == 400
    assert refused.json()["error"]["reason"] == "invalid_params"


# Mail.


async def test_a_prompt_goes_down_with_its_origin_and_only_known_fields(client, served, asked):
    forged = {"_meta": {"chimera.bridge": {"origin": {"subject": "root"}}}, "mcpServers": [1]}
    body = {"mailId": "m-1", **PROMPT, "params": {**PROMPT["params"], **forged}}
    sent = await client.post("/api/sessions/s1/mail", json=body)
    assert (sent.status_code, sent.json()["mailId"]) == (202, "m-1")
    again = await client.post("/api/sessions/s1/mail", json=body)
    assert again.json() == sent.json()
    [(_, fields)] = await served.relay.store.commands.xrange(keys.mail("acme", "a1"))
    stored = b"".join(fields.values())
    assert b'"go"' in stored
    assert b'"subject":"alice"' in stored
    assert b'"door":"rest"' in stored
    assert b"root" not in stored
    assert b"mcpServers" not in stored


async def test_a_mail_is_queued_until_it_is_done(client, asked):
    await client.post("/api/sessions/s1/mail", json={"mailId": "m-1", **PROMPT})
    assert (await client.get("/api/mail/m-1")).json() == {"state": "queued"}
    await asked.mailbox.done(asked.claim, MailDone("m-1", result={"stopReason": "end_turn"}))
    done = (await client.get("/api/mail/m-1")).json()
    assert done == {"state": "done", "result": {"stopReason": "end_turn"}}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"method": "session/new", "params": {}}, "method"),
        ({"method": "_bridge/decide", "params": {}}, "method"),
        ({"method": "session/prompt", "params": {}}, "session/prompt needs prompt"),
        ({"method": "session/set_mode", "params": {}}, "session/set_mode needs modeId"),
        ({"method": "session/set_mode", "params": []}, "params"),
        ({"method": "session/cancel", "mailId": "../x"}, "mailId"),
        ({"method": "session/cancel", "mailId": "x" * 65}, "mailId"),
        ({}, "method is missing"),
    ],
    ids=str,
)
async def test_a_message_that_cannot_go_down_is_refused_and_named(client, asked, body, says):
    refused = await client.post("/api/sessions/s1/mail", json={"mailId": "m-1", **body})
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]


async def test_mail_for_an_agent_that_never_came_is_refused(client, served, asked):
    await asked.agents.close(asked.claim, Reason.SAID_GOODBYE)
    refused = await client.post("/api/sessions/s1/mail", json={"mailId": "m-1", **PROMPT})
    assert refused.status_code == 409
    assert refused.json()["error"]["reason"] == "agent_unavailable"


# Decisions.


async def test_the_first_answer_is_recorded_and_the_second_is_told_who_won(client, served, asked):
    first = await client.post("/api/round-trips/rt-1/decision", json=answer(asked))
    assert first.json()["state"] == "recorded"
    async with served.client(Role.APPROVER) as other:
        second = await other.post(
            "/api/round-trips/rt-1/decision",
            json=answer(asked, answer={"optionId": "no"}, decisionId="d-2"),
        )
    assert second.json()["state"] == "late"
    assert second.json()["by"]["subject"] == "alice"
    assert second.json()["by"]["door"] == "rest"
    again = await client.post("/api/round-trips/rt-1/decision", json=answer(asked))
    assert again.json()["state"] == "recorded"


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"hash": "0" * 64}, 200),
        ({"answer": {"optionId": "always"}}, 200),
        ({"hash": "short"}, 400),
        ({"answer": "allow"}, 400),
        ({"decisionId": ""}, 400),
    ],
    ids=str,
)
async def test_an_answer_to_something_else_is_not_recorded(client, asked, changed, status):
    given = await client.post("/api/round-trips/rt-1/decision", json=answer(asked, **changed))
    assert given.status_code == status
    assert given.json().get("state") != "recorded"
    [shown] = (await client.get("/api/round-trips")).json()["roundTrips"]
    assert shown["state"] == "open"


# Who may.

ROLES_NEEDED = [
    ("GET", "/api/me", None, Role.VIEWER),
    ("GET", "/api/agents", None, Role.VIEWER),
    ("GET", "/api/sessions", None, Role.VIEWER),
    ("GET", "/api/sessions/s1", None, Role.VIEWER),
    ("GET", "/api/sessions/s1/log", None, Role.VIEWER),
    ("GET", "/api/round-trips", None, Role.VIEWER),
    ("GET", "/api/mail/m-1", None, Role.VIEWER),
    ("GET", "/api/devices", None, Role.VIEWER),
    ("GET", "/api/rules", None, Role.ADMIN),
    ("POST", "/api/rules/dry-run", lambda _: {}, Role.ADMIN),
    ("GET", "/api/audit", None, Role.ADMIN),
    ("GET", "/api/audit/export", None, Role.ADMIN),
    ("GET", "/api/audit/figures", None, Role.ADMIN),
    ("POST", "/api/round-trips/rt-1/decision", answer, Role.APPROVER),
    ("POST", "/api/sessions/s1/mail", lambda _: {"mailId": "m-1", **PROMPT}, Role.OPERATOR),
]


async def test_each_endpoint_asks_for_its_role(served, asked):
    for role in Role:
        async with served.client(role) as client:
            for method, path, body, needed in ROLES_NEEDED:
                content = body(asked) if body else None
                given = await client.request(method, path, json=content)
                allowed = role >= needed
                assert (given.status_code < 300) == allowed, (role, path, given.text)
                if not allowed:
                    assert given.status_code == 403
                    assert given.json()["error"]["reason"] == "not_allowed"


async def test_every_endpoint_is_in_the_table_of_roles(served):
    async with served.client(None) as client:
        schema = (await client.get("/api/openapi.json")).json()
    named = {(verb.upper(), path) for path, verbs in schema["paths"].items() for verb in verbs}
    in_table = {
        (method, path.replace("s1", "{id}").replace("rt-1", "{id}").replace("m-1", "{id}"))
        for method, path, _, _ in ROLES_NEEDED
    }
    elsewhere = {
        ("GET", "/api/sessions/{id}/events"),
        ("GET", "/api/sessions/{id}/log/{cursor}"),
        ("GET", "/api/sessions/{id}/transcript"),
        ("DELETE", "/api/devices/{id}"),
        ("GET", "/api/tokens"),
        ("DELETE", "/api/tokens/{id}"),
        ("POST", "/api/tokens/refresh"),
        ("GET", "/api/push"),
        ("PUT", "/api/push/subscription"),
        ("DELETE", "/api/push/subscriptions/{id}"),
        ("POST", "/api/push/test"),
        ("POST", "/api/rules"),
        ("DELETE", "/api/rules/{id}"),
        ("POST", "/api/pairings/look"),
        ("POST", "/api/pairings/answer"),
        ("POST", "/api/pairings/outcome"),
        ("POST", "/api/sign-in"),
        ("POST", "/api/sign-out"),
        ("POST", "/api/ticket"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }
    assert named == in_table | elsewhere


async def test_without_a_token_every_endpoint_answers_the_same_401(served, asked):
    async with served.client(None) as client:
        bodies = set()
        for method, path, body, _ in ROLES_NEEDED:
            given = await client.request(method, path, json=body(asked) if body else None)
            assert given.status_code == 401
            assert given.headers["www-authenticate"] == "Bearer"
            bodies.add(given.text)
    assert len(bodies) == 1


async def test_an_agents_token_opens_nothing_here(served, asked):
    async with served.client(None) as client:
        client.headers["Authorization"] = f"Bearer {served.token(kind='agent')}"
        for method, path, body, _ in ROLES_NEEDED:
            given = await client.request(method, path, json=body(asked) if body else None)
            assert given.status_code == 401


async def test_what_is_another_tenants_looks_as_if_it_were_not_there(served, asked):
    async with served.client(tenant="other") as stranger:
        for method, path, body, _ in ROLES_NEEDED[3:]:
            content = body(asked) if body else None
            foreign = await stranger.request(method, path, json=content)
            missing = path.replace("/s1", "/s-none").replace("/rt-1", "/rt-none")
            unknown = await stranger.request(method, missing.replace("/m-1", "/m-2"), json=content)
            assert foreign.status_code == unknown.status_code, path
            told = unknown.text.replace("s-none", "s1").replace("rt-none", "rt-1")
            assert foreign.text == told, path
        for path in ("agents", "sessions", "round-trips"):
            [shown] = (await stranger.get(f"/api/{path}")).json().values()
            assert shown == []
    assert await served.relay.store.commands.xlen(keys.mail("acme", "a1")) == 0


@pytest.mark.parametrize(
    "bad", ["..%2f..", "{acme}", "a%0d%0ab", "*", "x" * 10_000, "s1:log", "a%20b", "é"]
)
async def test_an_id_that_cannot_be_one_reaches_no_key(client, served, asked, bad):
    async def named() -> set[bytes]:  # but for what counts who asks how often
        found = await served.relay.store.commands.keys("b:{*")
        return {name for name in found if b":bucket:" not in name}

    before = await named()
    for method, path in (
        ("GET", f"/api/sessions/{bad}"),
        ("GET", f"/api/sessions/{bad}/log"),
        ("POST", f"/api/sessions/{bad}/mail"),
        ("GET", f"/api/mail/{bad}"),
        ("POST", f"/api/round-trips/{bad}/decision"),
    ):
        body = answer(asked) if "decision" in path else {"mailId": "m-1", **PROMPT}
        given = await client.request(method, path, json=None if method == "GET" else body)
        assert given.status_code in (400, 404, 405), path
    assert await named() == before


# Bad bodies.


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"mailId":"m","method":"session/cancel","params":{"x":NaN}}', "not JSON"),
        (b'{"mailId":"m","mailId":"n","method":"session/cancel"}', "'mailId' is there twice"),
        (b'{"mailId":"m","method":"session/prompt","params":{"prompt":"\\ud800"}}', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' * 10_000, "not JSON"),
        (b"", "missing"),
        (b"[]", "body"),
        (b"null", "body"),
        (b"{}", "missing"),
    ],
    ids=[
        *("nan", "key twice", "lone surrogate", "no utf-8", "deep", "deep objects"),
        *("empty", "array", "null", "empty object"),
    ],
)
async def test_a_body_that_is_not_well_formed_is_refused_and_named(client, asked, body, says):
    refused = await client.post(
        "/api/sessions/s1/mail", content=body, headers={"content-type": "application/json"}
    )
    assert refused.status_code == 400
    assert says in refused.json()["error"]["message"]


async def test_a_body_of_another_type_is_refused(client, asked):
    refused = await client.post(
        "/api/sessions/s1/mail", content=b"{}", headers={"content-type": "text/plain"}
    )
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, -32600)
    assert "application/json" in refused.json()["error"]["message"]


async def test_a_body_above_the_limit_is_refused(redis_url, writer):
    await writer.append(writer.update(1))
    async with serving(redis_url, http_body_bytes=1024) as served, served.client() as client:
        body = {"mailId": "m-1", "method": "session/prompt", "params": {"prompt": "x" * 2000}}
        refused = await client.post("/api/sessions/s1/mail", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, -32016)


async def test_what_nobody_serves_is_named_in_the_same_form(client):
    for method, path, status in (
        ("GET", "/api/nothing", 404),
        ("POST", "/api/sessions", 405),
        ("DELETE", "/api/me", 405),
    ):
        refused = await client.request(method, path)
        assert refused.status_code == status
        assert path in refused.json()["error"]["message"]


# What OpenAPI says is true.


async def test_answers_are_what_openapi_says(client, asked):
    schema = (await client.get("/api/openapi.json")).json()
    await client.post("/api/round-trips/rt-1/decision", json=answer(asked))
    for path, template in (
        ("/api/me", "/api/me"),
        ("/api/agents", "/api/agents"),
        ("/api/sessions", "/api/sessions"),
        ("/api/sessions/s1", "/api/sessions/{id}"),
        ("/api/sessions/s1/log", "/api/sessions/{id}/log"),
        ("/api/round-trips?state=all", "/api/round-trips"),
        ("/api/mail/m-1", "/api/mail/{id}"),
    ):
        shown = (await client.get(path)).json()
        of_path = schema["paths"][template]["get"]["responses"]["200"]["content"]
        wanted = {**of_path["application/json"]["schema"], "components": schema["components"]}
        jsonschema.validate(shown, wanted)
    for path, verbs in schema["paths"].items():
        for one in verbs.values():
            assert "422" not in one["responses"], path  # a bad request is a 400 here
            by_itself = path.endswith(("/sign-in", "/sign-out", "/refresh"))
            assert bool(one.get("security")) == (path.startswith("/api") and not by_itself)
    refused = (await client.get(f"/api/sessions/{UNKNOWN}")).json()
    failure = {"$ref": "#/components/schemas/Failure", "components": schema["components"]}
    jsonschema.validate(refused, failure)


# The store goes away.


async def test_while_the_store_is_frozen_answers_are_503_and_then_it_goes_on(own_server):
    url = own_server.start()
    async with serving(url) as served, served.client() as client:
        os.kill(own_server.pid, signal.SIGSTOP)
        try:
            async with asyncio.timeout(3.5):
                answers = await asyncio.gather(
                    client.get("/api/sessions"), client.get("/readyz"), client.get("/healthz")
                )
        finally:
            os.kill(own_server.pid, signal.SIGCONT)
        assert [answer.status_code for answer in answers] == [503, 503, 200]
        assert answers[0].json()["error"]["reason"] == "store_unavailable"
        assert answers[0].headers["retry-after"] == "2"
        async with asyncio.timeout(10):
            while (await client.get("/readyz")).status_code != 200:
                pass
        assert (await client.get("/api/sessions")).status_code == 200


async def test_a_store_that_restarts_is_found_again(own_server):
    url = own_server.start()
    async with serving(url) as served, served.client() as client:
        assert (await client.get("/readyz")).status_code == 200
        own_server.stop()
        assert (await client.get("/api/sessions")).status_code == 503
        own_server.start()
        async with asyncio.timeout(10):
            while (await client.get("/readyz")).status_code != 200:
                pass
        assert (await client.get("/api/sessions")).status_code == 200
