"""A relay between a machine and a phone that are being paired adds no device (S, A36)."""

import json
import os

import pytest
from fakes.device import FakeDevice
from fakes.relay import FakeRelay
from fakes.running import Running

from agent_side.devices import Devices
from bridge.protocol import pairing, uplink
from bridge.protocol.pairing import Step

PHONE, EVIL = FakeDevice(), FakeDevice("evil", "mallory")


@pytest.fixture
async def at(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        await relay.attached()
        yield relay, running


async def invite(relay, running):
    """Have the machine invite, as its owner does; gives what only the QR code carries, too."""
    await running.until(lambda: running.connector.status()["state"] == "attached")
    steps = []
    one = running.connector.pairings.begin(running.connector.place, lambda i: steps.append(i.step))
    told = await relay.until(lambda: [p for m, p in relay.told if m == uplink.PAIR])
    assert one.fragment.split(".")[1] not in json.dumps(told)
    return one, steps, told[-1]


def bring(relay, invited, answer, proof):
    """Bring an answer, as a relay does."""
    news = {"code": invited["code"], "agent": invited["agent"], "step": "answered"}
    relay.notify(uplink.PAIRING, {**news, "answer": answer, "proof": proof})


def swapped_key(one, offer):
    answer, proof = PHONE.answer(offer, one.secret)
    return json.dumps({**json.loads(answer), "key": EVIL.key}), proof


def own_secret(_one, offer):
    return EVIL.answer(offer, os.urandom(16))


def the_offers_own_proof(one, offer):
    return EVIL.answer(offer, None)[0], one.offer_mac


def answer_of_another_pairing(_one, _offer):
    other = pairing.Invitation(host="h", user="u", agent="a", folder="/", relay="r")
    return PHONE.answer(other.offer, other.secret)


def no_key(_one, _offer):
    return json.dumps({"v": 1, "key": "A" * 86, "name": "x", "subject": "y", "nonce": "z"}), ""


@pytest.mark.attack("E08", "a relay pairs a key of its own")
@pytest.mark.parametrize(
    "forge",
    [swapped_key, own_secret, the_offers_own_proof, answer_of_another_pairing, no_key],
    ids=lambda forge: forge.__name__,
)
async def test_an_answer_without_the_secret_ends_the_pairing(at, forge):
    relay, running = at
    one, steps, invited = await invite(relay, running)
    bring(relay, invited, *forge(one, invited["offer"]))
    await running.until(lambda: steps)
    bring(relay, invited, *PHONE.answer(invited["offer"], one.secret))
    ended = await relay.until(lambda: [p for m, p in relay.told if m == uplink.PAIRED])
    assert (steps, ended[0]["step"]) == ([Step.REFUSED], "refused")
    assert Devices(running.state).all() == ()


async def test_without_a_proof_the_person_sees_words_that_the_phone_does_not_show(at):
    relay, running = at
    one, steps, invited = await invite(relay, running)
    of_phone, _ = PHONE.answer(invited["offer"], None)
    bring(relay, invited, EVIL.answer(invited["offer"], None)[0], None)
    await running.until(lambda: steps == [Step.COMPARING])
    assert Devices(running.state).all() == ()
    assert one.words != pairing.comparison(invited["offer"], of_phone, one.number)
    running.connector.pairings.compared(one, same=False)
    assert Devices(running.state).all() == ()


async def test_the_number_is_not_told_before_the_answer(at):
    relay, running = at
    one, steps, invited = await invite(relay, running)
    bring(relay, invited, PHONE.answer(invited["offer"], None)[0], None)
    await running.until(lambda: steps)
    position = [m for m, _ in relay.told].index(uplink.PAIRED)
    assert one.number not in json.dumps(relay.told[:position])
    assert one.number in json.dumps(relay.told[position:])


async def test_an_answer_that_comes_twice_pairs_once(at):
    relay, running = at
    one, steps, invited = await invite(relay, running)
    answer = PHONE.answer(invited["offer"], one.secret)
    bring(relay, invited, *answer)
    bring(relay, invited, *EVIL.answer(invited["offer"], None))
    bring(relay, invited, *answer)
    await running.until(lambda: steps)
    await relay.until(lambda: [p for m, p in relay.told if m == uplink.AGENT and p.get("devices")])
    assert steps == [Step.PAIRED]
    assert [device.id for device in Devices(running.state).all()] == [PHONE.id]
