"""Connectors that die, that fight over a session, and that say things twice or out of order."""

import asyncio
import contextlib
import random
import time
from itertools import pairwise

from e2e.asking import opened_question
from fakes.peers import UplinkPeer
from fakes.running import asks
from fakes.site import Address
from faults.house import TENANT
from faults.oracle import NOTHING_WRONG, judge
from websockets.exceptions import ConnectionClosed

from bridge import keys
from bridge.protocol import uplink
from bridge.protocol.attachment import GRACE_MS

SECONDS = 240
AGENT = "a-stamped"


def is_attachment(state):
    return lambda m: (
        m["method"] == "_bridge/changed"
        and m["params"].get("agent", {}).get("attachment", {}).get("state") == state
    )


async def peer(at, relay: int = 0, **who) -> UplinkPeer:
    """Give a connector that says what the row says, to be entered."""
    return UplinkPeer(Address(at.relays[relay].url, await at.token("agent", "box")), AGENT, **who)


async def test_a_killed_connector_is_shown_to_be_gone_and_its_question_stays(
    house, row, length, bar
):
    """R09."""
    async with house() as at:
        await at.connect(turns=[[asks()]])
        alice = await at.dashboard()
        await alice.call("_bridge/watch")
        session = await alice.open("stamped", at.relays[0].work)
        alice.prompt(session, "go")
        question = await opened_question(alice, session)
        killed = time.monotonic()
        await at.connector.kill()
        await alice.until(is_attachment("disconnected"))
        detect = time.monotonic() - killed
        figures = {}
        if length(short=False, long=True):
            await alice_waits_for_the_grace_to_end(alice)
            figures["detached_after"] = time.monotonic() - killed
        (record,) = await alice.round_trips(session=session)
        row(
            *("R09", "kill -9 of a connector with a question open"),
            detect=detect,
            **figures,
            still_open=int(record["id"] == question["id"]),
            **await at.left(),
        )
        assert record["id"] == question["id"]
        assert detect < bar(1)


async def alice_waits_for_the_grace_to_end(alice) -> None:
    async with asyncio.timeout(GRACE_MS / 1000 + 30):
        while (await alice.agent("stamped"))["attachment"]["state"] != "detached":  # noqa: ASYNC110
            await asyncio.sleep(0.5)


async def test_of_two_connectors_that_claim_a_session_only_the_newer_one_writes(house, row, length):
    """R12."""
    flips, session = length(60, 1_000), "s-fought-over"
    async with house(relays=2) as at:
        begun = time.time_ns() // 10**6
        codes, kept, previous = [], 0, None
        for n in range(flips):
            newer = await peer(at, n % 2, writer=f"w{n}", epoch=begun + n)
            await newer.__aenter__()
            claiming = asyncio.create_task(newer.hello(session))
            if previous is not None:  # it writes on while the other claims, and afterwards
                await previous.say(previous.update(2, "racing", session=session))
                await claiming
                with contextlib.suppress(ConnectionClosed):  # it may have been told already
                    await previous.say(previous.update(3, "fenced", session=session))
                codes.append(await previous.closed())
                await previous.__aexit__()
            await claiming
            prev = at.stored().get(session)
            more = {"prev": f"{prev[0]}:{prev[1]}"} if prev else {}
            await newer.store(newer.update(1, session=session, **more), session=session)
            previous = newer
        await previous.__aexit__()
        stored = at.redis.call("XRANGE", keys.log(TENANT, session), "-", "+")
        ids = [tuple(map(int, id_.split(b"-"))) for id_, _ in stored]
        fenced = sum(b'"fenced"' in fields[b"m"] for _, fields in stored)
        kept = sum(b'"part 1"' in fields[b"m"] for _, fields in stored)
        row(
            *("R12", f"two connectors claim one session in turn, {flips} times"),
            sent=flips,
            acked=flips,
            lost=flips - kept,
            duplicated=len(ids) - len(set(ids)),
            reordered=sum(a > b for a, b in pairwise(ids)),
            fenced_stored=fenced,
            **await at.left(),
        )
        assert (fenced, kept, ids) == (0, flips, sorted(set(ids)))
        assert set(codes) == {4409}


class Untidy:
    """A connector that repeats 5 % of what it says, swaps 2 %, and sends tails anew when asked."""

    def __init__(self, peer: UplinkPeer, session: str, count: int) -> None:
        self.peer, self.session, self.count = peer, session, count
        self.resent = self.acked = self._heard = 0
        self._again: int | None = None
        self._chance = random.Random(13)

    async def run(self) -> None:
        first = 1
        while self.acked < self.count:
            for seq in self._untidied(first):
                await self.peer.say(self.peer.update(seq, f"{seq - 1} ", session=self.session))
                self._listen()
                if self._again is not None:
                    break
            else:
                await self.peer.until(lambda _: True, after=self._heard)
                self._listen()
                first = self.count + 1
            if self._again is not None:
                first, self._again = self._again + 1, None
                self.resent += 1

    def _untidied(self, first: int) -> list[int]:
        order = list(range(first, self.count + 1))
        for n in range(len(order) - 1):
            if self._chance.random() < 0.02:
                order[n], order[n + 1] = order[n + 1], order[n]
        return [seq for seq in order for _ in range(1 + (self._chance.random() < 0.05))]

    def _listen(self) -> None:
        """Take in what was heard: how far all is stored, and from where to send again."""
        for message in self.peer.got[self._heard :]:
            if message.get("method") == uplink.ACK:
                ack = message["params"]
                self.acked = max(self.acked, ack["seq"])
                self._again = ack["seq"] if ack["resend"] else self._again
        self._heard = len(self.peer.got)


async def test_what_is_sent_twice_and_out_of_order_is_seen_once_and_in_order(house, row, length):
    """R13."""
    count, session = length(1_000, 10_000), "s-untidy"
    async with house(relays=2) as at:
        connector = await at.people.enter_async_context(await peer(at))
        await connector.hello(session)
        watchers = await at.watch([session], *(site.url for site in at.relays))
        untidy = Untidy(connector, session, count)
        async with asyncio.timeout(SECONDS):
            await untidy.run()
        for watcher in watchers:
            await watcher.has(count, SECONDS)
        faults = judge(watchers, count)
        row(
            *("R13", "a connector repeats 5 %, swaps 2 %, sends tails again"),
            sent=count,
            acked=at.stored()[session][1],
            **faults,
            tails_sent_again=untidy.resent,
            **await at.left(),
        )
        assert faults == NOTHING_WRONG | {"seen": 2 * count}
        assert at.stored()[session][1] == count
