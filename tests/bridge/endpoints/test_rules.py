"""The rules over REST: for admins alone, in order, tried out before they hold."""

import pytest
from fakes.served import serving

from bridge.protocol.acp import Role
from bridge.protocol.round_trip import hash_of

DENY = {"match": {"commands": ["git push"]}, "action": "deny", "note": "ask me"}


@pytest.fixture(scope="module")
async def served(redis_server):
    """A relay for all tests here; its Redis is emptied before each."""
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def client(served, redis_url):
    async with served.client() as asking:
        yield asking


async def test_a_rule_is_made_listed_in_words_and_taken_out(client):
    made = await client.post("/api/rules", json=DENY)
    rule = made.json()
    assert made.status_code == 201
    assert rule["words"] == "refuse commands that begin with “git push”"
    assert (rule["by"]["subject"], rule["note"]) == ("alice", "ask me")
    before = {"match": {"tools": ["read"]}, "action": "ask", "position": 0}
    first = (await client.post("/api/rules", json=before)).json()
    listed = (await client.get("/api/rules")).json()
    assert [one["id"] for one in listed["rules"]] == [first["id"], rule["id"]]
    assert (await client.delete(f"/api/rules/{rule['id']}")).status_code == 204
    assert (await client.delete(f"/api/rules/{rule['id']}")).status_code == 404
    audit = (await client.get("/api/audit?event=rule_removed")).json()["records"]
    assert audit[0]["words"] == rule["words"]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER, Role.OPERATOR])
async def test_only_admins_see_and_change_rules(served, redis_url, role):
    async with served.client(role) as asking:
        answers = [
            await asking.get("/api/rules"),
            await asking.post("/api/rules", json=DENY),
            await asking.post("/api/rules/dry-run", json={}),
            await asking.delete("/api/rules/r-1"),
        ]
    assert {one.status_code for one in answers} == {403}


async def test_another_tenant_s_rules_are_not_there(served, client):
    rule = (await client.post("/api/rules", json=DENY)).json()
    async with served.client(tenant="other") as stranger:
        assert (await stranger.get("/api/rules")).json() == {"version": "", "rules": []}
        assert (await stranger.delete(f"/api/rules/{rule['id']}")).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"action": "deny"},
        {**DENY, "action": "shrug"},
        {**DENY, "action": "expire"},
        {**DENY, "seconds": 60},
        {"match": {}, "action": "allow"},
        {**DENY, "match": {"commands": [""]}},
        {**DENY, "position": -1},
    ],
)
async def test_a_rule_that_makes_no_sense_is_refused_with_the_reason(client, body):
    refused = await client.post("/api/rules", json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["reason"] == "invalid_params"


async def test_rules_are_tried_on_the_questions_of_the_day(client, writer):
    await writer.append(writer.question(1))
    tried = {"rules": [{"match": {"risks": ["medium"]}, "action": "two_people"}]}
    found = (await client.post("/api/rules/dry-run", json=tried)).json()
    assert (found["counts"], found["of"], found["hours"]) == ({"two_people": 1}, 1, 24)
    [question] = found["questions"]
    assert (question["id"], question["was"]) == ("rt-1", "open")
    assert question["words"] == "ask two people for risk “medium”"
    assert (await client.post("/api/rules/dry-run", json={})).json()["questions"] == []


async def test_a_question_shows_what_it_needs_and_who_approved_it_first(served, client, writer):
    await writer.append(writer.question(1))
    await client.post("/api/rules", json={"match": {}, "action": "two_people"})
    body = {
        "hash": hash_of(writer.subject()),
        "answer": {"optionId": "allow"},
        "decisionId": "d-1",
    }
    first = await client.post("/api/round-trips/rt-1/decision", json=body)
    assert first.json()["state"] == "needs_another"
    [shown] = (await client.get("/api/round-trips")).json()["roundTrips"]
    assert shown["needs"]["people"] == 2
    assert shown["needs"]["rule"]["words"] == "ask two people for every question"
    assert shown["half"]["by"]["subject"] == "alice"


async def test_a_rule_is_carried_out_where_the_agent_s_uplink_is(served, client, redis_url):
    from fakes.peers import UplinkPeer

    await client.post("/api/rules", json={"match": {}, "action": "deny"})
    async with UplinkPeer(served, tenant="acme") as connector:
        await connector.hello("s1")
        await connector.store(connector.question(1))
        mail = await connector.mail("_bridge/decide")
        assert mail["origin"]["door"] == "rule"
        assert mail["message"]["params"]["rule"]["words"] == "refuse every question"
