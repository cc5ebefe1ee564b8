"""With a paired device: what it signed is done, what nobody signed is not."""

from pathlib import Path

import pytest
from fakes.dashboard import META
from fakes.device import FakeDevice
from fakes.editor import CallFailed
from fakes.running import asks

from agent_side.devices import Devices

YES = {"optionId": "yes"}


@pytest.fixture
def phone(own_site):
    device = FakeDevice()
    Devices(Path(own_site.env["CHIMERA_BRIDGE_STATE_DIR"])).pin(
        key=device.key, name=device.name, subject=device.subject
    )
    return device


async def signed_prompt(alice, stage, phone, session, mail_id="p-1"):
    """Send a prompt as the page does."""
    agent = await alice.agent(stage.name)
    block = {"type": "text", "text": "go"}
    message = {"method": "session/prompt", "params": {"sessionId": session, "prompt": [block]}}
    jws = phone.mail(message, mailId=mail_id, agent=agent["id"], epoch=agent["epoch"])
    return alice.prompt(session, "go", mailId=mail_id, signature=jws)


async def opened(alice, stage, phone):
    agent = await alice.agent(stage.name)
    params = {"cwd": str(stage.site.work), "mcpServers": []}
    jws = phone.mail(
        {"method": "session/new", "params": params},
        mailId="n-1",
        agent=agent["id"],
        epoch=agent["epoch"],
    )
    meta = {"agent": agent["id"], "mailId": "n-1", "signature": jws}
    return (await alice.call("session/new", **params, _meta={META: meta}))["sessionId"]


async def asked(alice, session):
    """Wait for the session's open question."""
    await alice.until(
        lambda m: (
            m["method"] == "_bridge/changed"
            and m["params"].get("roundTrip", {}).get("state") == "open"
        )
    )
    [record] = await alice.round_trips(session=session)
    return record


def signed(phone, record, answer=YES, **other):
    names = ("id", "sessionId", "epoch", "hash")
    claims = {**{name: record[name] for name in names}, "answer": answer, "decisionId": "d-1"}
    return phone.decision(**{**claims, **other})


async def test_what_a_phone_signs_is_done_and_named_by_its_machine(own_stage, phone):
    stage = await own_stage(turns=[[asks()]])
    alice = await stage.enter(decide=True)
    assert alice.hail["_meta"][META]["signed"] == "required"
    await alice.call("_bridge/watch")
    session = await opened(alice, stage, phone)
    turn = await signed_prompt(alice, stage, phone, session)
    record = await asked(alice, session)
    decided = await alice.call("_bridge/decide", jws=signed(phone, record))
    assert decided["state"] == "recorded"
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    [closed] = await alice.round_trips("all", session)
    assert (closed["result"], closed["by"]["device"]) == ("applied", "pixel")


@pytest.mark.attack("E16", "unsigned answers once a device is paired, at the relay")
async def test_what_nobody_signed_is_refused_by_the_relay_already(own_stage, phone):
    stage = await own_stage(turns=[[asks()]])
    alice = await stage.enter(decide=True)
    await alice.call("_bridge/watch")
    with pytest.raises(CallFailed, match="paired devices"):
        await alice.open(stage.name, stage.site.work)
    session = await opened(alice, stage, phone)
    with pytest.raises(CallFailed, match="paired devices"):
        await alice.answer(alice.prompt(session, "unsigned"))
    await signed_prompt(alice, stage, phone, session)
    record = await asked(alice, session)
    decided = await alice.decide(record["id"], YES, "d-0")
    assert (decided["state"], decided["reason"]) == ("refused", "signature")
    evil = FakeDevice("evil")
    for jws in (
        signed(evil, record),
        signed(evil, record, device=phone.id),
        signed(phone, record, sessionId="another"),
        signed(phone, record, epoch=record["epoch"] - 1),
        "a.b.c",
    ):
        with pytest.raises(CallFailed):
            await alice.call("_bridge/decide", jws=jws)
    assert [one["id"] for one in await alice.round_trips(session=session)] == [record["id"]]
    assert stage.agent.answers() == {}


async def test_a_client_without_a_key_sees_the_card_and_is_not_asked(own_stage, phone):
    stage = await own_stage(turns=[[asks(), {"chunks": 1}]])
    alice, ben = await stage.enter(decide=True), await stage.enter("ben")
    await alice.call("_bridge/watch")
    session = await opened(alice, stage, phone)
    await ben.load(session)
    turn = await signed_prompt(alice, stage, phone, session)
    record = await asked(alice, session)
    await alice.call("_bridge/decide", jws=signed(phone, record))
    await alice.answer(turn)
    await ben.ended(session)
    assert [m for m in ben.got if m.get("method") == "session/request_permission"] == []


async def test_a_stolen_device_is_refused_as_soon_as_its_owner_forgets_it(own_stage, phone):
    stage = await own_stage(turns=[[asks()]])
    alice = await stage.enter(decide=True)
    await alice.call("_bridge/watch")
    session = await opened(alice, stage, phone)
    Devices(Path(stage.site.env["CHIMERA_BRIDGE_STATE_DIR"])).forget(phone.id, by_owner=False)
    await alice.until(
        lambda m: (
            m["method"] == "_bridge/changed" and m["params"].get("agent", {}).get("devices") == []
        )
    )
    turn = await signed_prompt(alice, stage, phone, session)
    with pytest.raises(CallFailed, match="not paired"):
        await alice.answer(turn)
