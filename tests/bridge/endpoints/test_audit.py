"""The audit over HTTP: who may read it, what it shows, and what may be taken away."""

import csv
import io
import json

import pytest
from fakes.served import serving

from bridge.protocol.acp import Role


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def client(served, redis_url):
    async with served.client() as asking:
        yield asking


async def answered(writer, *, option="allow"):
    await writer.append(writer.question(1))
    await writer.decide(option)
    await writer.append(writer.resolved(2, answer={"optionId": option}))


@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER, Role.OPERATOR])
@pytest.mark.parametrize("path", ["", "/export", "/figures"])
async def test_only_an_admin_may_read_it(served, redis_url, role, path):
    async with served.client(role) as asking:
        assert (await asking.get(f"/api/audit{path}")).status_code == 403


async def test_who_approved_what_is_found(client, writer):
    await answered(writer)
    found = (await client.get("/api/audit", params={"event": "decided"})).json()
    [record] = found["records"]
    assert record["by"]["subject"] == "alice"
    assert record["answer"] == {"optionId": "allow"}
    assert record["sessionId"] == "s1"


async def test_a_sign_in_and_a_sign_out_are_recorded_with_their_address(served, client):
    async with served.signed_in() as browser:
        await browser.post("/api/sign-out")
    found = (await client.get("/api/audit")).json()["records"]
    assert [record["event"] for record in found] == ["sign_out", "sign_in"]
    assert {record["from"] for record in found} == {"127.0.0.1"}


async def test_another_tenants_records_are_not_shown(served, client, writer):
    await answered(writer)
    async with served.client(tenant="other") as stranger:
        assert (await stranger.get("/api/audit")).json() == {"records": []}
        assert (await stranger.get("/api/audit/export")).text == ""


async def test_the_export_has_every_record_in_order(client, writer):
    await answered(writer)
    answer = await client.get("/api/audit/export")
    assert [json.loads(line)["event"] for line in answer.text.splitlines()] == ["decided", "closed"]
    assert 'filename="audit-acme.jsonl"' in answer.headers["content-disposition"]


async def test_a_table_holds_no_formula_of_an_agents(client, served, redis_url):
    await served.relay.audit.write("acme", "decided", title='=HYPERLINK("//x")', hash="-1")
    answer = await client.get("/api/audit/export", params={"format": "csv"})
    [row] = csv.DictReader(io.StringIO(answer.text))
    assert row["title"] == '\'=HYPERLINK("//x")'
    assert row["hash"] == "'-1"


@pytest.mark.parametrize(("option", "word"), [("allow", "approved"), ("no", "denied")])
async def test_figures_count_how_questions_ended(client, writer, option, word):
    await answered(writer, option=option)
    figures = (await client.get("/api/audit/figures")).json()
    assert (figures["held"], figures[word]) == (1, 1)
    assert figures["medianSecondsToDecide"] is not None
    later = {"since": "2099-01-01T00:00:00Z"}
    assert (await client.get("/api/audit/figures", params=later)).json()["held"] == 0


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"before": "x"}, "invalid before 'x'"),
        ({"since": "yesterday"}, "invalid since 'yesterday'"),
        ({"limit": "0"}, "limit"),
    ],
)
async def test_bad_input_is_named(client, params, says):
    answer = await client.get("/api/audit", params=params)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
