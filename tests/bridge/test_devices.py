"""Devices as people see them; one that is revoked is shut out of every process."""

import asyncio

import pytest
from fakes.device import FakeDevice

from bridge import keys
from bridge.audit import Audit
from bridge.change_feed import ChangeFeed
from bridge.devices import Devices
from bridge.identity import Identities, Identity
from bridge.login import Logins
from bridge.protocol.acp import Role
from bridge.protocol.errors import NotFound
from bridge.protocol.uplink import AgentCard, DeviceCard
from bridge.tokens import Tokens

PHONE, TABLET = FakeDevice("pixel"), FakeDevice("tablet", "ben")


def card(device):
    return DeviceCard(device.id, device.key, device.name, device.subject)


WITH_PHONE = AgentCard("a1", "claude", devices=[card(PHONE)])


def who(subject="alice", role=Role.OPERATOR, token_id="login-1"):
    return Identity("person", "acme", subject, role, token_id)


@pytest.fixture
def devices(writer, tmp_path):
    audit = Audit(writer.store, Tokens(tmp_path))
    return Devices(writer.store, writer.inbox, writer.agents, Logins(writer.store), audit)


async def test_a_device_is_shown_with_its_machines_and_when_it_was_seen(devices, writer):
    await writer.take_claim(
        epoch=writer.epoch + 1, card=AgentCard("a1", "claude", devices=[card(PHONE)])
    )
    await devices.paired("acme", card(PHONE), "login-1")
    [one] = await devices.list(who())
    shown = one.as_json()
    assert (shown["name"], shown["subject"], len(shown["fingerprint"])) == ("pixel", "alice", 17)
    assert shown["machines"] == [{"agent": "a1", "name": "claude", "host": "mbp"}]
    assert shown["lastSeen"] >= shown["pairedAt"]


async def test_a_device_that_only_its_machine_knows_is_shown_too(devices, writer):
    """Redis may have been lost."""
    await writer.take_claim(
        epoch=writer.epoch + 1, card=AgentCard("a1", "claude", devices=[card(PHONE)])
    )
    [one] = await devices.list(who())
    assert (one.id, one.name) == (PHONE.id, "pixel")
    await devices.revoke(who(), PHONE.id)
    assert await devices.is_revoked("acme", PHONE.id)


async def test_people_see_their_own_devices_and_an_admin_all(devices, writer):
    del writer
    await devices.paired("acme", card(PHONE), "login-1")
    await devices.paired("acme", card(TABLET), "login-2")
    assert {one.id for one in await devices.list(who())} == {PHONE.id}
    admin = who("root", Role.ADMIN)
    assert {one.id for one in await devices.list(admin)} == {PHONE.id, TABLET.id}


@pytest.mark.parametrize("id_", ["unknown", "ben's"])
async def test_a_foreign_device_looks_like_an_unknown_one(devices, id_):
    await devices.paired("acme", card(TABLET), "login-2")
    named = TABLET.id if id_ == "ben's" else id_
    with pytest.raises(NotFound, match="unknown device"):
        await devices.revoke(who(), named)


async def test_revoking_ends_the_logins_of_the_device_in_every_process(devices, writer):
    logins = Logins(writer.store)
    link = await logins.make_link(tenant="acme", subject="alice", role=Role.OPERATOR)
    secret, identity = await logins.sign_in(link, "Pixel")
    await devices.paired("acme", card(PHONE), identity.token_id)
    ended, identities = [], Identities()
    identities.watch(identity.token_id, lambda: ended.append("socket"))
    identities.watch("login-of-another", lambda: ended.append("another"))
    heard = []
    feed = ChangeFeed(writer.store, writer.inbox, identities.heed)
    stop = await feed.listen("acme", heard.append)
    await devices.revoke(who(), PHONE.id)
    while not heard:  # noqa: ASYNC110 (nothing tells of it)
        await asyncio.sleep(0.005)
    stop()
    assert (ended, heard[0].state) == (["socket"], "revoked")
    assert await logins.find(secret) is None
    [one] = await devices.list(who())
    assert one.revoked_at > 0


async def test_a_device_seen_with_another_login_loses_that_too(devices, writer):
    await devices.paired("acme", card(PHONE), "login-1")
    await devices.seen(who(token_id="login-9"), PHONE.id)
    fields = await writer.store.commands.hkeys(keys.device("acme", PHONE.id))
    assert {b"login:login-1", b"login:login-9"} <= set(fields)


@pytest.mark.parametrize("subject", ["ben", "alice"])
async def test_only_its_holder_is_seen_with_a_device_and_only_until_it_is_revoked(
    devices, writer, subject
):
    await devices.paired("acme", card(PHONE), "login-1")
    if subject == "alice":
        await devices.revoke(who(), PHONE.id)
    await devices.seen(who(subject, token_id="login-9"), PHONE.id)
    fields = await writer.store.commands.hkeys(keys.device("acme", PHONE.id))
    assert b"login:login-9" not in fields


async def test_a_device_paired_anew_is_no_longer_revoked(devices, writer):
    del writer
    await devices.paired("acme", card(PHONE), "login-1")
    await devices.revoke(who(), PHONE.id)
    await devices.paired("acme", card(PHONE), "login-2")
    assert not await devices.is_revoked("acme", PHONE.id)


async def test_pairing_and_revoking_stand_in_the_audit(devices, writer):
    await devices.paired("acme", card(PHONE), "login-1")
    await devices.revoke(who(), PHONE.id)
    entries = await writer.store.commands.xrange(keys.audit("acme"))
    assert [fields[b"event"] for _, fields in entries] == [b"device_paired", b"device_revoked"]
