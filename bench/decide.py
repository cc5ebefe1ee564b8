"""From the tap on a phone to the agent: the page's requests, a real connector, a real agent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from redis import Redis
from websockets.asyncio.client import ClientConnection, connect

from bench.bars import Wanted, measured, options
from bench.relays import TENANT, Relays, relays
from bench.servers import Running, before_others
from bench.table import Figures, Table
from bridge import keys
from bridge.protocol import acp
from bridge.protocol.acp import Role
from bridge.protocol.entry import META_KEY
from bridge.redis import script

TAPS = "tap to agent"
COLUMNS = {
    "p50_us": ("p50 us", "{:,.0f}"),
    "p99_us": ("p99 us", "{:,.0f}"),
    "script_us": ("script alone, p50 us", "{:,.0f}"),
}
ALLOWED_US = 2000  # beside five times the script's own time
RAW = 200  # decisions of the script alone
STARTS_WITHIN_SECONDS = 30


def main(arguments: list[str]) -> int:
    """Run it."""
    parser = options("decide", __doc__, rounds=3)
    parser.add_argument("--questions", type=int, default=300)
    chosen = parser.parse_args(arguments)
    title = f"{chosen.questions} questions, one after the other, each answered on the page"
    measure = partial(_measure, chosen.questions)
    return measured("decide", title, chosen, {TAPS: _with_agent}, measure, COLUMNS, _wanted)


@contextmanager
def _with_agent() -> Iterator[Relays]:
    """A relay and a connector with the agent that asks, on the load's CPU."""
    with ExitStack() as stack:
        at = stack.enter_context(relays())
        variables = {
            **os.environ,
            "XDG_STATE_HOME": str(at.folder),
            "FERRET_BRIDGE_TOKEN": at.token("agent"),
        }
        program = str(Path(sys.executable).with_name("chimera-bridge"))
        command = [program, "connect", "--relay", f"ws://127.0.0.1:{at.port}", "--"]
        command += [sys.executable, str(Path(__file__).with_name("asker.py"))]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        connector = subprocess.Popen(
            command,
            env=variables,
            cwd=at.folder,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **quiet,
        )
        before_others(connector.pid)
        stack.callback(connector.wait)
        stack.callback(connector.terminate)
        yield at


def _measure(questions: int, running: Running) -> Figures:
    assert isinstance(running, Relays)
    taps, answered = asyncio.run(_tap(running, questions))
    took = [(end - begin) / 1000 for begin, end in zip(taps, answered, strict=True)]
    return {
        "p50_us": median(took),
        "p99_us": quantiles(took, n=100)[98],
        "script_us": median(_script_alone(running.store_url)),
    }


async def _tap(at: Relays, questions: int) -> tuple[list[int], list[int]]:
    """Answer each question as the page does; gives when, and when the agent had the answer."""
    token = at.token("person", "anna", Role.OPERATOR)
    headers = {"Authorization": f"Bearer {token}"}
    url = f"ws://127.0.0.1:{at.port}/acp"
    async with connect(url, additional_headers=headers, compression=None) as socket:
        page = _Page(socket)
        capabilities = {"_meta": {META_KEY: {"decide": True}}}
        hello = {"protocolVersion": acp.PROTOCOL_VERSION, "clientCapabilities": capabilities}
        await page.call(acp.INITIALIZE, hello)
        await page.call("_bridge/watch", {})
        made = await page.attached(str(at.folder))
        prompt = [{"type": "text", "text": str(questions)}]
        await page.send(acp.PROMPT, {"sessionId": made, "prompt": prompt})
        return await page.answer_all(questions)


class _Page:
    """What the page's connection does."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._count = 0

    async def send(self, method: str, params: dict[str, Any]) -> int:
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        await self._socket.send(json.dumps(message))
        return self._count

    async def call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        id_ = await self.send(method, params)
        async for text in self._socket:
            message: dict[str, Any] = json.loads(text)
            if message.get("id") == id_ and "method" not in message:
                return message
        raise RuntimeError("the relay closed the connection")

    async def attached(self, cwd: str) -> str:
        """Open a session, as soon as the agent is there."""
        end = time.monotonic() + STARTS_WITHIN_SECONDS
        while time.monotonic() < end:
            answer = await self.call(acp.NEW, {"cwd": cwd, "mcpServers": []})
            if "result" in answer:
                return str(answer["result"]["sessionId"])
            await asyncio.sleep(0.1)
        raise RuntimeError(f"no session: {answer['error']['message']}")

    async def answer_all(self, questions: int) -> tuple[list[int], list[int]]:
        """Tap as soon as a question is shown, until the agent tells its times."""
        taps: dict[str, int] = {}
        async for text in self._socket:
            message = json.loads(text)
            asked = message.get("params", {}).get("roundTrip", {})
            if asked.get("state") == "open" and asked["id"] not in taps:
                taps[asked["id"]] = time.monotonic_ns()
                decision = {"id": asked["id"], "hash": asked["hash"]}
                chosen = {"answer": {"optionId": "allow"}, "decisionId": f"d-{len(taps)}"}
                await self.send("_bridge/decide", decision | chosen)
            update = message.get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_message_chunk" and len(taps) == questions:
                return list(taps.values()), json.loads(update["content"]["text"])
        raise RuntimeError("the relay closed the connection")


def _script_alone(url: str) -> list[float]:
    """Time the script's calls in microseconds, on questions of an agent of its own."""
    store, wanted = Redis.from_url(url), script("decide")
    agent, session, hash_ = "raw", "raw-session", "0" * 64
    named = [keys.asked(TENANT, session), keys.audit(TENANT), keys.mail(TENANT, agent)]
    named += [keys.mailed(TENANT, agent), keys.claim(TENANT, agent)]
    named += [keys.watch(keys.mail(TENANT, agent)), keys.changes(TENANT)]
    named += [keys.watch(keys.changes(TENANT)), keys.rules(TENANT)]
    fields = {"state": "open", "agent": agent, "session": session, "hash": hash_}
    fields |= {"kind": "permission", "option_kinds": '{"allow":"allow_once"}', "expires_at": ""}
    took = []
    for number in range(RAW):
        id_ = f"raw-{number}"
        question = keys.round_trip(TENANT, id_)
        store.hset(question, mapping=fields | {"subject": "{}"})
        what = [id_, f"raw-d-{number}", hash_, '{"optionId":"allow"}', "allow", "{}", "{}"]
        what += ["60000", "1048576", '{"kind":"roundTrip","id":"x"}', agent, session]
        what += ["", "", "", "1", "anna", "", "", "", "", ""]  # unsigned, and no rule is about it
        began = time.perf_counter()
        reply: Any = store.evalsha(wanted.sha, len(named) + 1, question, *named, *what)
        took.append((time.perf_counter() - began) * 1e6)
        assert reply[0] == b"recorded", reply
    store.close()
    return took


def _wanted(table: Table) -> list[Wanted]:
    allowed = 5 * table.median(TAPS, "script_us") + ALLOWED_US
    return [Wanted("p50 in us", table.median(TAPS, "p50_us"), round(allowed))]
