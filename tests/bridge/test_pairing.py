"""Pairings at the relay: found by their code, answered once, closed by guessing."""

import pytest
from fakes.device import FakeDevice

from bridge import keys
from bridge.audit import Audit
from bridge.devices import Devices
from bridge.identity import Identity
from bridge.login import Logins
from bridge.pairing import Pairings
from bridge.protocol import pairing
from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams, NotFound, PairingRefused
from bridge.protocol.pairing import Invitation, Step
from bridge.protocol.uplink import Invited, PairingEnd
from bridge.tokens import Tokens

PHONE = FakeDevice()


def who(subject="alice", token_id="login-1", tenant="acme"):
    return Identity("person", tenant, subject, Role.APPROVER, token_id)


@pytest.fixture
def pairings(writer, tmp_path):
    audit = Audit(writer.store, Tokens(tmp_path))
    devices = Devices(writer.store, writer.inbox, writer.agents, Logins(writer.store), audit)
    return Pairings(writer.store, writer.inbox, devices)


@pytest.fixture
async def invited(pairings):
    one = Invitation(host="mbp", user="anna", agent="Claude", folder="/w", relay="wss://r")
    await pairings.begin("acme", Invited(one.code, "a1", one.offer, one.offer_mac))
    return one


async def test_the_offer_is_found_by_its_code_as_people_type_it(pairings, invited):
    typed = f"{invited.code[:3]}-{invited.code[3:].lower()}"
    found = await pairings.look(who(), typed)
    assert (found["offer"], found["mac"]) == (invited.offer, invited.offer_mac)


async def test_an_invitation_that_is_told_again_stays_as_far_as_it_is(pairings, invited):
    """After the uplink was lost for a moment."""
    told = Invited(invited.code, "a1", invited.offer, invited.offer_mac)
    assert (await pairings.begin("acme", told)).step == "open"
    answer, proof = PHONE.answer(invited.offer, invited.secret)
    await pairings.answer(who(), invited.code, answer, proof)
    assert (await pairings.begin("acme", told)).answer == answer


async def test_another_tenant_does_not_find_it(pairings, invited):
    with pytest.raises(NotFound):
        await pairings.look(who(tenant="other"), invited.code)


async def test_the_answer_reaches_its_machine_and_the_end_its_device(pairings, invited, writer):
    answer, proof = PHONE.answer(invited.offer, invited.secret)
    await pairings.answer(who(), invited.code, answer, proof)
    news = await pairings.news("acme", invited.code)
    assert (news.agent, news.answer, news.proof) == ("a1", answer, proof)
    assert await pairings.outcome(who(), invited.code) == {"step": "answered"}
    invited.take(news.answer, news.proof)
    end = PairingEnd(invited.code, "a1", Step.PAIRED, mac=invited.end_mac)
    await pairings.end("acme", end)
    assert (await pairings.outcome(who(), invited.code))["mac"] == invited.end_mac
    name = keys.device("acme", PHONE.id)
    assert await writer.store.commands.hget(name, "subject") == b"alice"


async def test_a_second_answer_is_refused_and_the_same_one_may_come_twice(pairings, invited):
    answer, proof = PHONE.answer(invited.offer, invited.secret)
    await pairings.answer(who(), invited.code, answer, proof)
    other, _ = FakeDevice().answer(invited.offer, None)
    with pytest.raises(NotFound):
        await pairings.answer(who(), invited.code, other, None)
    with pytest.raises(NotFound):
        await pairings.look(who(), invited.code)
    assert (await pairings.news("acme", invited.code)).answer == answer


async def test_only_who_answered_learns_the_outcome(pairings, invited):
    await pairings.answer(who(), invited.code, *PHONE.answer(invited.offer, invited.secret))
    with pytest.raises(NotFound):
        await pairings.outcome(who(token_id="login-2"), invited.code)


async def test_nobody_pairs_a_device_in_anothers_name(pairings, invited):
    with pytest.raises(PairingRefused, match="signed in"):
        await pairings.answer(who("ben"), invited.code, *PHONE.answer(invited.offer, None))


@pytest.mark.parametrize("step", [Step.OPEN, Step.ANSWERED])
async def test_a_machine_cannot_say_what_only_a_device_does(pairings, invited, step):
    with pytest.raises(InvalidParams):
        await pairings.end("acme", PairingEnd(invited.code, "a1", step))


async def test_another_machine_cannot_end_a_pairing(pairings, invited):
    with pytest.raises(NotFound):
        await pairings.end("acme", PairingEnd(invited.code, "a2", Step.PAIRED))


async def test_five_wrong_codes_close_it(pairings, invited):
    for n in range(pairing.WRONG_CODES):
        with pytest.raises(NotFound):
            await pairings.look(who(), f"22222{pairing.ALPHABET[n]}")
    with pytest.raises(NotFound):
        await pairings.look(who(), invited.code)


async def test_four_wrong_codes_do_not_and_a_right_one_costs_nothing(pairings, invited):
    for n in range(pairing.WRONG_CODES - 1):
        with pytest.raises(NotFound):
            await pairings.look(who(), f"22222{pairing.ALPHABET[n]}")
    for _ in range(10):
        assert await pairings.look(who(), invited.code)


async def test_a_pairing_begun_after_wrong_codes_is_not_closed_by_them(pairings):
    for n in range(pairing.WRONG_CODES + 3):
        with pytest.raises(NotFound):
            await pairings.look(who(), f"22222{pairing.ALPHABET[n]}")
    one = Invitation(host="mbp", user="anna", agent="Claude", folder="/w", relay="wss://r")
    await pairings.begin("acme", Invited(one.code, "a1", one.offer, one.offer_mac))
    assert await pairings.look(who(), one.code)


async def test_after_two_minutes_it_is_over(pairings, invited, writer):
    name = keys.pairing("acme", invited.code)
    now = await writer.store.time_ms()
    ends = int(await writer.store.commands.hget(name, "expires_at"))
    assert 0 < ends - now <= 120_000
    assert 0 < await writer.store.commands.ttl(name) <= 240
    await writer.store.commands.hset(name, "expires_at", now)
    with pytest.raises(NotFound):
        await pairings.look(who(), invited.code)


async def test_the_secret_is_in_nothing_that_redis_holds(pairings, invited, writer):
    await pairings.answer(who(), invited.code, *PHONE.answer(invited.offer, invited.secret))
    store = writer.store.commands
    held = repr([await store.hgetall(name) for name in await store.keys("b:{acme}:pairing:*")])
    assert PHONE.key in held
    assert invited.fragment.split(".")[1] not in held
    assert invited.secret.hex() not in held
