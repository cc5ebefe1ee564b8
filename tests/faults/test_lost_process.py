"""The relay process that holds a connector is killed in the middle of what others ask of it."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

from fakes.cable import Cable
from fakes.peers import ClientPeer, Refused
from faults.house import House
from faults.place import Place

from agent_side.outbox import Outbox
from agent_side.settings import RelayTarget
from agent_side.status import Status
from agent_side.uplink import Uplink
from bridge.protocol.uplink import AgentCard, ConnectorCard, Hello, MailPosition, SessionCard

SECONDS = 60


async def test_a_request_outlives_the_process_that_carried_it(house, row, length, bar):
    """C19."""
    kills = length(2, 10)
    async with house(relays=2) as at:
        await at.sessions(1, 3, rate=1000)
        answered = []
        for n in range(kills):
            holder, other = at.relays[n % 2], at.relays[1 - n % 2]
            async with await other.dashboard() as alice:
                agent = await alice.agent_id("stamped")
                asked = alice.ask(
                    "session/new",
                    cwd=str(at.relays[0].work),
                    mcpServers=[],
                    _meta={"chimera.bridge": {"agent": agent}},
                )
                await holder.kill_relay()
                began = time.monotonic()
                made = await alice.answer(asked)
                answered.append(time.monotonic() - began)
                turn = await alice.answer(alice.prompt(made["sessionId"], "stream"))
                assert turn["stopReason"] == "end_turn"
            await holder.start_relay()
        row(
            *("C19", f"kill -9 of the process that carries a request, {kills} times"),
            slowest_answer=max(answered),
        )
        assert max(answered) < bar(2)


class Storm:
    """Connectors whose connection is lost again and again; each answers with its own name."""

    def __init__(self, house: House, count: int, token: str) -> None:
        self.names = [f"a-storm-{n}" for n in range(count)]
        self.cables: list[Cable] = []
        self._house, self._token = house, token

    async def begin(self, stack: AsyncExitStack) -> None:
        urls = [site.url for site in self._house.relays]
        for n, name in enumerate(self.names):
            first = urls[n % 2 :] + urls[: n % 2]
            cable = await stack.enter_async_context(Cable(*first))
            self.cables.append(cable)
            target = RelayTarget(cable.url.replace("http", "ws", 1), token=self._token)
            uplink = Uplink(target, Voice(name), Outbox(), Status(None, lambda: None))
            running = asyncio.create_task(uplink.run())
            stack.callback(running.cancel)

    def toss(self, chance: random.Random) -> None:
        """Lose one connection; its connector comes back at the other process."""
        cable = chance.choice(self.cables)
        cable.urls.reverse()
        cable.drop()


class Voice:
    """What one of them says of itself."""

    def __init__(self, name: str) -> None:
        self._name = name
        agent, session = AgentCard(name, "storm"), SessionCard(f"s-{name}", name, 1)
        connector = ConnectorCard("0.1.0", "box")
        at = MailPosition(0)
        self._hello = Hello(1, "w", connector, [agent], [session], mail=at)

    def hello(self) -> Hello:
        return self._hello

    def raise_epoch(self, at_least: int) -> None:
        raise AssertionError(at_least)

    def welcomed(self, _result: object) -> None:
        pass

    def mail(self, _mail: object) -> None:
        pass

    def presence(self, _presence: object) -> None:
        pass

    def history(self, _params: object) -> dict[str, object]:
        return {"text": self._name}


async def test_in_a_storm_of_reconnects_nobody_is_answered_by_another(house, row, length, bar):
    """C19."""
    connectors, times = length(20, 50), length(600, 5_000)
    chance, answers = random.Random(19), Counter[str]()
    slowest = 0.0
    async with house(relays=2) as at, AsyncExitStack() as stack:
        storm = Storm(at, connectors, await at.token("agent", "box"))
        await storm.begin(stack)
        people = [await stack.enter_async_context(ClientPeer(Place(at, n))) for n in (0, 1)]
        for person in people:
            await person.initialize()
        await all_are_there(people[0], connectors)

        async def ask(n: int) -> None:
            nonlocal slowest
            name = chance.choice(storm.names)
            began = time.monotonic()
            answers[await answer_of(people[n % 2], name)] += 1
            slowest = max(slowest, time.monotonic() - began)

        for n in range(times):
            if n % 3 == 0:
                storm.toss(chance)
            await asyncio.gather(ask(n), ask(n + 1))
        row(
            *("C19", f"{connectors} connectors come back at another process, {times // 3} times"),
            answered=answers["right"],
            refused=answers["refused"],
            wrong=answers["wrong"],
            slowest_answer=slowest,
        )
        assert answers["wrong"] == 0
        assert answers["right"] > times // 2
        assert slowest < bar(2)


async def answer_of(person: ClientPeer, name: str) -> str:
    try:
        found = await person.call("_bridge/entry", sessionId=f"s-{name}", at="7:7")
    except Refused:  # its connector was on its way
        return "refused"
    return "right" if found["text"] == name else "wrong"


async def all_are_there(person: ClientPeer, count: int) -> None:
    def attached(found: dict[str, Any]) -> int:
        return sum(one["attachment"]["state"] == "attached" for one in found["agents"])

    async with asyncio.timeout(SECONDS):
        await person.call("_bridge/watch")
        while attached(await person.call("_bridge/agents")) < count:
            await person.told("_bridge/changed", after=len(person.got))
