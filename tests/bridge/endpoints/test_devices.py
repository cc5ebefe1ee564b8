"""Devices over HTTP: who may pair, see and revoke; a wrong code says nothing more."""

import pytest
from fakes.device import FakeDevice
from fakes.served import serving

from bridge.protocol.acp import Role
from bridge.protocol.pairing import Invitation
from bridge.protocol.uplink import DeviceCard, Invited

PHONE = FakeDevice()
PAIRINGS = [
    ("look", {"code": "222222"}),
    ("answer", {"code": "222222", "answer": PHONE.answer("", None)[0]}),
    ("outcome", {"code": "222222"}),
]


@pytest.fixture(scope="module")
async def served(redis_server):
    """A relay for all tests here."""
    async with serving(redis_server) as running:
        yield running


@pytest.mark.parametrize(("step", "body"), PAIRINGS, ids=["look", "answer", "outcome"])
async def test_pairing_needs_an_approver_and_an_unknown_code_is_not_found(served, step, body):
    for role, status in ((None, 401), (Role.VIEWER, 403), (Role.APPROVER, 404)):
        async with served.client(role) as client:
            given = await client.post(f"/api/pairings/{step}", json=body)
            assert given.status_code == status, (role, given.text)


@pytest.mark.usefixtures("redis_url")
@pytest.mark.parametrize("code", ["", "22222", "OOOOOO", "2" * 20, "b:{x}", "é" * 6])
async def test_what_is_no_code_is_refused_before_it_is_looked_for(served, code):
    async with served.client(Role.APPROVER) as client:
        given = await client.post("/api/pairings/look", json={"code": code})
        assert given.status_code in {400, 403}


@pytest.mark.usefixtures("redis_url")
async def test_an_offer_an_answer_and_its_outcome(served):
    one = Invitation(host="mbp", user="anna", agent="Claude", folder="/w", relay="wss://r")
    invited = Invited(one.code, "a1", one.offer, one.offer_mac)
    await served.relay.pairings.begin("acme", invited)
    answer, proof = PHONE.answer(one.offer, one.secret)
    async with served.client(Role.APPROVER) as client:
        found = (await client.post("/api/pairings/look", json={"code": one.code})).json()
        assert (found["offer"], found["mac"]) == (one.offer, one.offer_mac)
        body = {"code": one.code, "answer": answer, "proof": proof}
        assert (await client.post("/api/pairings/answer", json=body)).status_code == 202
        outcome = await client.post("/api/pairings/outcome", json={"code": one.code})
        assert outcome.json() == {"step": "answered"}


async def test_a_device_is_listed_and_revoked_by_its_holder_or_an_admin(served):
    other = FakeDevice("tablet", "ben")
    for device in (PHONE, other):
        card = DeviceCard(device.id, device.key, device.name, device.subject)
        await served.relay.devices.paired("acme", card, "login-1")
    async with served.client(Role.VIEWER) as alice, served.client(Role.ADMIN) as admin:
        [own] = (await alice.get("/api/devices")).json()["devices"]
        assert (own["id"], own["fingerprint"].count("-")) == (PHONE.id, 2)
        foreign = await alice.delete(f"/api/devices/{other.id}")
        unknown = await alice.delete(f"/api/devices/{other.id[:-1]}")
        assert foreign.status_code == unknown.status_code == 404
        assert (await alice.delete(f"/api/devices/{PHONE.id}")).status_code == 204
        assert (await admin.delete(f"/api/devices/{other.id}")).status_code == 204
        shown = (await admin.get("/api/devices")).json()["devices"]
        assert all("revokedAt" in one for one in shown if one["id"] in {PHONE.id, other.id})
