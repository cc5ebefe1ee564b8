"""Rules from an admin's list to the agent, through a real relay and a real connector."""

import asyncio
from types import SimpleNamespace

import pytest
from fakes.device import FakeDevice
from fakes.running import ANNA, Running, asks
from fakes.served import serving

from agent_side.devices import Devices
from bridge.protocol.acp import Role

DESTROY = {"rawInput": {"command": "rm -rf build"}}


@pytest.fixture(scope="module")
async def served(redis_server):
    async with serving(redis_server) as running:
        yield running


@pytest.fixture
async def admin(served, redis_url):
    async with served.client() as client:
        yield client


def beside(served, folder, *turns, **settings):
    """A connector at this relay."""
    token = served.token(kind="agent", subject="box")
    reach = SimpleNamespace(url=served.url)
    target = {"token": token}
    return Running(folder, relay=reach, target=target, turns=list(turns), settings=settings)


async def attached(running):
    await running.until(lambda: running.connector.status()["state"] == "attached")
    return await running.session()


async def seen(client, **wanted):
    """Wait until the relay shows an open question that is like this."""
    async with asyncio.timeout(20):
        while True:
            for one in (await client.get("/api/round-trips")).json()["roundTrips"]:
                if wanted.items() <= one.items():
                    return one


async def test_a_rule_refuses_what_is_dangerous_and_leaves_the_rest_to_people(
    served, admin, tmp_path
):
    rule = {"match": {"commands": ["rm"]}, "action": "deny"}
    assert (await admin.post("/api/rules", json=rule)).status_code == 201
    async with beside(served, tmp_path, [asks(DESTROY), asks(id_=1)]) as running:
        session = await attached(running)
        running.prompt(session)
        await running.until(lambda: 0 in running.agent.answers())
        answer = running.agent.answers()[0]
        assert answer["outcome"]["optionId"] == "no"
        assert answer["_meta"]["chimera.bridge"]["reason"] == "rule"
        await running.until(lambda: len(running.connector.questions) == 1)
        records = (await admin.get("/api/audit?event=closed")).json()["records"]
        assert [(one["reason"], one["meaning"]) for one in records] == [("rule", "reject")]
        figures = (await admin.get("/api/audit/figures")).json()
        assert (figures["byRule"], figures["denied"]) == (1, 0)


async def test_a_rule_allows_what_a_machine_without_devices_leaves_to_it(served, admin, tmp_path):
    rule = {"match": {"commands": ["make"]}, "action": "allow"}
    await admin.post("/api/rules", json=rule)
    async with beside(served, tmp_path, [asks()]) as running:
        ended = running.prompt(await attached(running))
        await ended
        assert running.agent.answers()[0]["outcome"]["optionId"] == "yes"


async def test_two_people_with_devices_approve_together(served, admin, tmp_path):
    await admin.post("/api/rules", json={"match": {"risks": ["high"]}, "action": "two_people"})
    async with beside(served, tmp_path, [asks(DESTROY)]) as running:
        phones = {"alice": FakeDevice(), "bob": FakeDevice("tablet", "bob")}
        for phone in phones.values():
            Devices(running.state).pin(key=phone.key, name=phone.name, subject=phone.subject)
        session = await attached(running)
        ended = running.prompt(session)
        states = []
        for name, phone in phones.items():
            question = await seen(admin, kind="permission", risk="high")
            assert question["needs"]["people"] == 2
            params = {
                "id": question["id"],
                "hash": question["hash"],
                "answer": {"optionId": "yes"},
                "decisionId": f"d-{name}",
            }
            about = {**params, "sessionId": session, "epoch": question["epoch"]}
            body = {**params, "jws": phone.decision(**about)}
            token = served.token(Role.APPROVER, subject=name)
            headers = {"Authorization": f"Bearer {token}"}
            path = f"/api/round-trips/{body.pop('id')}/decision"
            told = (await admin.post(path, json=body, headers=headers)).json()
            states.append(told["state"])
        await ended
        assert states == ["needs_another", "recorded"]
        assert running.agent.answers()[0]["outcome"]["optionId"] == "yes"
        [said] = [m["params"] for m in running.entries(session, "_bridge/resolved")]
        assert {said["by"]["subject"], said["also"]["subject"]} == {"alice", "bob"}


async def test_a_question_that_nobody_answered_in_time_is_expired_and_no_denial(
    served, admin, tmp_path
):
    """A17, A20, A23."""
    async with beside(served, tmp_path, [asks()], unanswered="expire:1s") as running:
        ended = running.prompt(await attached(running))
        question = await seen(admin, kind="permission")
        assert question["expiresAt"]
        await ended
        assert running.agent.answers()[0]["outcome"] == {"outcome": "cancelled"}
        figures = {}
        async with asyncio.timeout(20):
            while figures.get("expired") != 1:
                figures = (await admin.get("/api/audit/figures")).json()
        assert (figures["held"], figures["denied"], figures["approved"]) == (1, 0, 0)
        body = {"hash": question["hash"], "answer": {"optionId": "yes"}, "decisionId": "d-late"}
        late = await admin.post(f"/api/round-trips/{question['id']}/decision", json=body)
        assert (late.json()["state"], late.json()["reason"]) == ("late", "expired")


async def test_a_question_that_is_open_too_long_is_called_out_everywhere(served, admin, tmp_path):
    """A22."""
    async with beside(served, tmp_path, [asks()], unanswered="escalate:1s") as running:
        running.prompt(await attached(running))
        question = await seen(admin, kind="permission")
        async with asyncio.timeout(20):
            while "escalatedAt" not in question:
                question = await seen(admin, kind="permission")
        assert question["state"] == "open"


async def test_the_audit_has_who_changed_a_preset_and_what_one_refused(served, admin, tmp_path):
    async with beside(served, tmp_path, [asks()]) as running:
        session = await attached(running)
        running.connector.set_approval(session, "read-only", ANNA)
        await running.prompt(session)
        found = {}
        async with asyncio.timeout(20):
            while not {"approval_changed", "sandbox_violation"} <= found.keys():
                records = (await admin.get("/api/audit")).json()["records"]
                found = {one["event"]: one for one in records}
        assert found["approval_changed"]["words"] == "suggest → read-only"
        assert found["approval_changed"]["by"]["door"] == "terminal"
        assert found["sandbox_violation"]["words"] == "read-only: execute make"


async def test_what_a_machine_s_own_rule_decides_opens_no_question_at_the_relay(
    served, admin, tmp_path
):
    async with beside(served, tmp_path, [asks()], approval="full") as running:
        await running.prompt(await attached(running))
        records = []
        async with asyncio.timeout(20):
            while not records:
                records = (await admin.get("/api/audit?event=closed")).json()["records"]
        assert records[0]["rule"] == "preset-full"
        assert (await admin.get("/api/round-trips?state=all")).json() == {"roundTrips": []}
