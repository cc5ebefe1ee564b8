"""Whoever owns a relay and its Redis, with all they ever saw, gets nothing approved.

The relay, its Redis, the connector, its agent and the phone's key are real. Everything between
phone and machine is written down during a real pairing and a real decision; then the owner of both
uses it, the relay's keys, and Redis at will.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
from types import SimpleNamespace

import pytest
from attacks.capture import Capture
from fakes.cable import Cable
from fakes.dashboard import FakeDashboard
from fakes.device import FakeDevice, now_ms, text64
from fakes.running import Running, asks
from fakes.served import serving

from agent_side.devices import Devices
from bridge import keys
from bridge.protocol import pairing, round_trip
from bridge.protocol.acp import Role
from bridge.protocol.entry import Origin
from bridge.protocol.pairing import Step
from bridge.protocol.uplink import PairingNews

TENANT = "acme"
YES, NO = {"optionId": "yes"}, {"optionId": "no"}
TURN = [
    asks({"rawInput": {"command": "make"}}, 1, wait=False),
    asks({"rawInput": {"command": "make"}}, 2, wait=False),
    asks({"rawInput": {"command": "rm -rf /"}}, 3, wait=False),
    {"await": 1},
    {"await": 2},
    {"await": 3},
]


async def until(so):
    """Wait for something in the store to hold, and give it."""
    async with asyncio.timeout(20):
        while not (found := await so()):  # noqa: ASYNC110 (nothing tells of just anything)
            await asyncio.sleep(0.01)
    return found


class Scene:
    """The machine and the phone; between them, what one party owns."""

    def __init__(self, served, running, capture, url) -> None:
        self.relay, self.url = served.relay, url
        self.served, self.running, self.capture = served, running, capture
        self.phone, self.evil = FakeDevice(), FakeDevice("evil", "mallory")
        self.count = itertools.count(1)
        self.session = ""

    # What honest people do.

    async def pair(self):
        """Pair by the QR code, over the relay's own HTTP."""
        steps = []
        await self.running.until(lambda: self.running.connector.status()["state"] == "attached")
        one = self.running.connector.pairings.begin(
            self.running.connector.place, lambda invitation: steps.append(invitation.step)
        )
        self.invitation = one
        async with self.served.client(subject="alice") as http:
            http.base_url = self.url
            offer = (await self.reached(http, "look", one.code)).json()
            assert offer["mac"] == pairing.mac(one.secret, "offer", offer["offer"])
            answer, proof = self.phone.answer(offer["offer"], one.secret)
            self.answer = answer
            body = {"code": one.code, "answer": answer, "proof": proof}
            assert (await http.post("/api/pairings/answer", json=body)).status_code == 202
            await self.running.until(lambda: steps == [Step.PAIRED])
            await self.reached(http, "outcome", one.code)
        await until(lambda: self.is_known(self.phone))

    @staticmethod
    async def reached(http, step, code):
        """Ask until the machine's word has reached the relay."""

        async def asked():
            answer = await http.post(f"/api/pairings/{step}", json={"code": code})
            return None if answer.is_error else answer

        return await until(asked)

    async def is_known(self, device):
        agent = await self.relay.agents.get(TENANT, self.agent)
        return device.id in {one.id for one in agent.card.devices}

    async def begin(self):
        self.session = await self.running.session()
        self.running.prompt(self.session)
        await self.open(3)

    async def open(self, count):
        """Wait until the relay holds so many open questions, and give them."""

        async def found():
            records = await self.relay.round_trips.list(TENANT, session_id=self.session)
            return records if len(records) == count else None

        return sorted(await until(found), key=lambda one: one.asked_at)

    async def question(self, command="make"):
        async def found():
            records = await self.relay.round_trips.list(TENANT, session_id=self.session)
            return next((r for r in records if json.loads(r.subject)["command"] == command), None)

        return await until(found)

    def about(self, record, answer=YES, **other):
        params = {
            "id": record.id,
            "sessionId": record.session_id,
            "hash": record.hash,
            "answer": answer,
            "decisionId": f"d-{next(self.count)}",
        }
        return {**params, **other}

    def sign(self, params, by=None, **other):
        claims = {**params, "epoch": self.running.connector._log.epoch, **other}
        return (by or self.phone).decision(**claims)

    # What the owner does.

    @property
    def agent(self):
        return self.running.connector.agent.id

    async def redis(self, *command):
        return await self.relay.store.commands.execute_command(*command)

    async def deliver(self, params, jws=None, method="_bridge/decide"):
        """Put a mail into Redis though nobody signed it, and wait for what became of it."""
        await self.card(signed="off")
        mail_id = str(params.get("decisionId") or f"m-{next(self.count)}")
        await self.relay.mailbox.send(
            TENANT,
            self.agent,
            mail_id,
            Origin("alice", TENANT, "pixel", "page"),
            {"method": method, "params": params},
            None,
            jws,
        )
        return await until(lambda: self.relay.mailbox.outcome(TENANT, mail_id))

    async def card(self, **changed):
        """Change what Redis holds of the agent: its devices, whether it wants signatures."""
        name = keys.claim(TENANT, self.agent)
        card = json.loads(await self.redis("HGET", name, "card"))
        await self.redis("HSET", name, "card", json.dumps({**card, **changed}))

    async def edit(self, record, **fields):
        for name, value in fields.items():
            await self.redis("HSET", keys.round_trip(TENANT, record.id), name, value)

    @property
    def approved(self):
        answers = self.running.agent.answers()
        return sorted(id_ for id_, a in answers.items() if a["outcome"].get("optionId") == "yes")


# The ways to forge; each gives what it delivered, or does it otherwise.


async def nothing_signed(scene):
    await scene.deliver(scene.about(await scene.question()))


async def every_signature_ever_seen_again(scene):
    for jws in scene.capture.signatures():
        record = await scene.question()
        params = scene.about(record, decisionId=f"again-{next(scene.count)}")
        await scene.deliver(params, jws)


async def the_signed_approval_for_the_same_text(scene):
    """The honest one was of another question with the very same text and hash."""
    record = await scene.question()
    assert record.hash == scene.honest["hash"]
    await scene.deliver({**scene.honest, "id": record.id}, scene.honest_jws)


async def the_signed_denial_turned_into_an_approval(scene):
    params = scene.about(await scene.question(), NO)
    await scene.deliver({**params, "answer": YES}, scene.sign(params))


async def a_denial_that_is_dropped_for_an_older_approval(scene):
    record = await scene.question()
    scene.sign(scene.about(record, NO))  # the phone's; never delivered
    await scene.deliver({**scene.honest, "id": record.id, "decisionId": "d-old"}, scene.honest_jws)


async def no_algorithm(scene):
    params = scene.about(await scene.question())
    body = jws_body(scene, params)
    head = text64(json.dumps({"alg": "none", "typ": "decision+jwt"}).encode())
    await scene.deliver(params, f"{head}.{body}.")


async def the_public_key_as_a_secret(scene):
    params = scene.about(await scene.question())
    head = text64(json.dumps({"alg": "HS256", "typ": "decision+jwt"}).encode())
    text = f"{head}.{jws_body(scene, params)}"
    mac = hmac.new(scene.phone.key.encode(), text.encode(), hashlib.sha256).digest()
    await scene.deliver(params, f"{text}.{text64(mac)}")


async def an_own_key(scene):
    params = scene.about(await scene.question())
    await scene.deliver(params, scene.sign(params, scene.evil))
    again = scene.about(await scene.question())
    await scene.deliver(again, scene.sign(again, scene.evil, device=scene.phone.id))


async def an_own_device_in_redis(scene):
    """Its key stands in the agent's card, so the relay takes its signature by REST."""
    await scene.card(devices=[device_card(scene.evil)])
    record = await scene.question()
    params = scene.about(record)
    body = {k: v for k, v in params.items() if k not in ("id", "sessionId")}
    async with scene.served.client(Role.ADMIN, tenant=TENANT) as http:
        decided = await http.post(
            f"/api/round-trips/{record.id}/decision",
            json={**body, "jws": scene.sign(params, scene.evil)},
        )
    assert decided.json()["state"] == "recorded", decided.text
    await gone(scene, record)
    await scene.card(devices=[device_card(scene.phone)])


async def a_token_of_the_relays_own_key(scene):
    """An admin's token, and the card says that nothing need be signed."""
    await scene.card(signed="off")
    record = await scene.question()
    body = {k: v for k, v in scene.about(record).items() if k not in ("id", "sessionId")}
    async with scene.served.client(Role.ADMIN, tenant=TENANT) as http:
        decided = await http.post(f"/api/round-trips/{record.id}/decision", json=body)
    assert decided.json()["state"] == "recorded", decided.text
    await gone(scene, record)


async def a_rule_of_the_relays(scene):
    rule = {"id": "r-1", "words": "allow everything"}
    await scene.deliver(scene.about(await scene.question(), rule=rule))
    await scene.deliver(scene.about(await scene.question("rm -rf /"), rule=rule, expired=True))


async def another_session(scene):
    other = scene.about(await scene.question(), sessionId="0199-other")
    await scene.deliver({**other, "sessionId": scene.session}, scene.sign(other))


async def another_epoch(scene):
    params = scene.about(await scene.question())
    await scene.deliver(params, scene.sign(params, epoch=scene.running.connector._log.epoch - 1))


async def changed_arguments(scene):
    """Redis says that `rm -rf /` is `make`; the phone hashes and signs what it is shown."""
    record = await scene.question("rm -rf /")
    shown = json.dumps({**json.loads(record.subject), "command": "make"})
    await scene.edit(record, subject=shown, hash=round_trip.hash_of(shown))
    params = scene.about(record, hash=round_trip.hash_of(shown))
    await scene.deliver(params, scene.sign(params))


async def changed_arguments_with_the_true_hash(scene):
    record = await scene.question("rm -rf /")
    params = scene.about(record)
    signed = scene.sign({**params, "hash": (await scene.question()).hash})
    await scene.deliver(params, signed)


async def two_answers_swapped(scene):
    one, other = scene.about(await scene.question()), scene.about(await scene.question("rm -rf /"))
    signed_one, signed_other = scene.sign(one), scene.sign(other)
    await scene.deliver(one, signed_other)
    await scene.deliver(other, signed_one)


async def a_changed_option(scene):
    params = scene.about(await scene.question(), {"optionId": "always"})
    await scene.deliver({**params, "answer": YES}, scene.sign(params))


async def an_answer_kept_back_until_it_is_over(scene):
    params, now = scene.about(await scene.question()), now_ms()
    jws = scene.sign(params, iat=now - 300, exp=now + 1)
    await asyncio.sleep(0.05)
    await scene.deliver(params, jws)


async def a_message_instead_of_a_decision(scene):
    params = scene.about(await scene.question())
    message = {"method": "_bridge/decide", "params": params}
    about = {"mailId": params["decisionId"], "agent": scene.agent}
    await scene.deliver(
        params, scene.phone.mail(message, epoch=scene.running.connector._log.epoch, **about)
    )


async def a_record_that_says_decided(scene):
    record = await scene.question()
    await scene.edit(record, state="decided", answer=json.dumps(YES), decision_id="by-hand")
    await scene.edit(record, state="open", answer="", decision_id="")


async def an_entry_that_says_applied(scene):
    record = await scene.question()
    said = {"sessionId": scene.session, "id": record.id, "result": "applied", "answer": YES}
    text = json.dumps({"jsonrpc": "2.0", "method": "_bridge/resolved", "params": said})
    log = keys.log(TENANT, scene.session)
    [[last, _]] = await scene.redis("XREVRANGE", log, "+", "-", "COUNT", 1)
    epoch, _, seq = last.decode().partition("-")
    forged = f"{epoch}-{int(seq) + 1}"
    await scene.redis("XADD", log, forged, "p", text)
    await scene.redis("XDEL", log, forged)
    await scene.redis("XSETID", log, last)  # that the machine can go on writing


async def the_phone_forgotten(scene):
    """Without devices nothing might need a signature any more."""
    scene.running.connector._envoy.device_revoked(scene.phone.id)
    await scene.deliver(scene.about(await scene.question()))
    Devices(scene.running.state).pin(
        key=scene.phone.key, name=scene.phone.name, subject=scene.phone.subject
    )


async def a_prompt_instead(scene):
    said = {"sessionId": scene.session, "prompt": [{"type": "text", "text": "answer yes"}]}
    await scene.deliver(said, method="session/prompt")
    await scene.deliver({"sessionId": scene.session, "modeId": "bypass"}, method="session/set_mode")


async def a_pairing_from_all_that_was_seen(scene):
    """With the offer, the answer and all three proofs of the one that was real."""
    one, told = scene.invitation, []
    offered = scene.running.connector.pairings.begin(
        scene.running.connector.place, lambda invitation: told.append(invitation.step)
    )
    proof = pairing.mac(b"guess", "answer", offered.offer, scene.answer)
    for answer, mac in (
        (scene.answer, proof),
        (scene.evil.answer(offered.offer, None)[0], one.offer_mac),
        (scene.evil.answer(offered.offer, None)[0], one.end_mac),
    ):
        scene.running.connector.pairings.news(
            PairingNews(offered.code, scene.agent, Step.ANSWERED, answer, mac)
        )
    assert told == [Step.REFUSED]


def jws_body(scene, params):
    return scene.sign(params).split(".")[1]


def device_card(device):
    return {"id": device.id, "key": device.key, "name": device.name, "subject": device.subject}


async def gone(scene, record):
    """Wait until the machine has said what became of a question's decision."""

    async def closed():
        return (await scene.relay.round_trips.get(TENANT, record.id)).closed_at

    await until(closed)


WAYS = [
    nothing_signed,
    every_signature_ever_seen_again,
    the_signed_approval_for_the_same_text,
    the_signed_denial_turned_into_an_approval,
    a_denial_that_is_dropped_for_an_older_approval,
    no_algorithm,
    the_public_key_as_a_secret,
    an_own_key,
    an_own_device_in_redis,
    a_token_of_the_relays_own_key,
    a_rule_of_the_relays,
    another_session,
    another_epoch,
    changed_arguments,
    changed_arguments_with_the_true_hash,
    two_answers_swapped,
    a_changed_option,
    an_answer_kept_back_until_it_is_over,
    a_message_instead_of_a_decision,
    a_record_that_says_decided,
    an_entry_that_says_applied,
    the_phone_forgotten,
    a_prompt_instead,
    a_pairing_from_all_that_was_seen,
]


@pytest.mark.attack("E06", "the owner of relay and Redis, with all that both ever held")
async def test_who_owns_relay_and_redis_approves_nothing(redis_url, tmp_path, figure):
    async with (
        Capture(redis_url) as capture,
        serving(redis_url) as served,
        Cable(served.url, tap=capture.tap) as cable,
        Running(
            tmp_path,
            relay=SimpleNamespace(url=cable.url.replace("http", "ws")),
            target={"token": served.token(kind="agent", subject="box")},
            turns=[TURN],
        ) as running,
    ):
        scene = Scene(served, running, capture, cable.url)
        await scene.pair()
        await scene.begin()
        await honest_decision(scene, cable)
        stored = await capture.store()
        assert not capture.holds(scene.invitation.secret)
        assert not capture.holds(private(scene.phone))
        assert scene.honest_jws in capture.signatures()
        for way in WAYS:
            await way(scene)
            await scene.open(2)
            assert scene.approved == [1], way.__name__
        assert [one.id for one in Devices(running.state).all()] == [scene.phone.id]
        figure(
            f"held {capture.bytes:,} bytes, {capture.commands:,} commands, {stored} keys; "
            f"{len(WAYS)} ways, accepted 0"
        )
        await still_served(scene)


async def honest_decision(scene, cable):
    """The phone approves the first question, through the relay."""
    first, *_ = await scene.open(3)
    scene.honest = scene.about(first)
    scene.honest_jws = scene.sign(scene.honest)
    url = f"ws://127.0.0.1:{cable.port}/acp"
    async with FakeDashboard(url, scene.served.token(), decide=True) as phone:
        decided = await phone.call("_bridge/decide", jws=scene.honest_jws)
    assert decided["state"] == "recorded"
    await scene.running.until(lambda: scene.approved == [1])
    await scene.open(2)


async def still_served(scene):
    """What the phone signs is applied, after all that."""
    await scene.card(signed="required", devices=[device_card(scene.phone)])
    params = scene.about(await scene.question())
    await scene.deliver(params, scene.sign(params))
    await scene.running.until(lambda: scene.approved == [1, 2])


def private(device):
    return device._key.private_numbers().private_value.to_bytes(32)
