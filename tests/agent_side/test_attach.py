import asyncio
import json
import sys

import pytest
from fakes.editor import CallFailed, FakeEditor
from websockets.asyncio.server import serve

ATTACH = (sys.executable, "-m", "agent_side.cli", "attach")


class Relay:
    """The relay's door for ACP clients, as far as attach can tell; one session, a scripted log."""

    def __init__(self):
        self.hellos, self.calls, self.headers = [], [], []
        self.log = []  # (seq, text)
        self.silent = set()  # methods that are never answered
        self.sockets = []
        self.refuse = None  # an HTTP status
        self.refused = asyncio.Event()
        self.connections = asyncio.Queue()
        self.called = asyncio.Event()

    async def __aenter__(self):
        self.server = await serve(self.serve, "127.0.0.1", 0, process_request=self.admit)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"ws://127.0.0.1:{self.port}/acp"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    def admit(self, connection, request):
        self.headers.append(dict(request.headers))
        if self.refuse:
            self.refused.set()
            return connection.respond(self.refuse, "no\n")
        return None

    async def serve(self, socket):
        self.sockets.append(socket)
        self.connections.put_nowait(socket)
        async for text in socket:
            await self.take(socket, json.loads(text))

    async def take(self, socket, message):
        self.calls.append(message)
        self.called.set()
        method, params = message.get("method"), message.get("params", {})
        if method in self.silent or "id" not in message or method is None:
            return
        if method == "session/load":
            for seq, text in self.log:
                await socket.send(self.update(seq, text))
        results = {"initialize": {"protocolVersion": 1}, "session/list": {"sessions": []}}
        results["session/prompt"] = {"stopReason": "end_turn"}
        result = results.get(method, {})
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}))
        if method == "session/resume":
            after = int(params["_meta"]["chimera.bridge"]["cursor"].split(":")[1])
            for seq, text in self.log:
                if seq > after:
                    await socket.send(self.update(seq, text))

    async def until_called(self, method):
        while not [call for call in self.calls if call.get("method") == method]:
            self.called.clear()
            await self.called.wait()

    async def say(self, seq, text):
        self.log.append((seq, text))
        await self.sockets[-1].send(self.update(seq, text))

    def update(self, seq, text):
        content = {"type": "text", "text": text}
        params = {
            "sessionId": "s",
            "update": {"sessionUpdate": "agent_message_chunk", "content": content},
            "_meta": {"chimera.bridge": {"epoch": 1, "seq": seq}},
        }
        return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params})


@pytest.fixture
async def relay():
    async with Relay() as relay:
        yield relay


def attached(relay, *flags, token="t0k3n"):
    return FakeEditor([*ATTACH, relay.url, *flags], env={"CHIMERA_BRIDGE_TOKEN": token})


async def test_it_carries_both_ways_with_the_token_in_a_header(relay):
    async with attached(relay) as editor:
        assert (await editor.hello())["protocolVersion"] == 1
        assert await editor.call("session/list") == {"sessions": []}
    assert relay.headers[0]["authorization"] == "Bearer t0k3n"
    assert "attached to" in editor.stderr[0]


async def test_the_token_may_come_from_a_file(relay, tmp_path):
    (tmp_path / "token").write_text("from-a-file\n")
    async with attached(relay, "--token-file", str(tmp_path / "token")) as editor:
        await editor.hello()
    assert relay.headers[0]["authorization"] == "Bearer from-a-file"


async def test_after_a_lost_relay_nothing_is_missing_or_doubled(relay):
    async with attached(relay) as editor:
        relay.log = [(1, "a"), (2, "b")]
        await editor.hello()
        await editor.call("session/load", sessionId="s", cwd="/", mcpServers=[])
        await relay.say(3, "c")
        relay.silent.add("session/set_mode")
        asked = editor.ask("session/set_mode", sessionId="s", modeId="plan")
        await relay.connections.get()
        await relay.sockets[-1].close(1012, "restart")
        relay.log.append((4, "d"))
        with pytest.raises(CallFailed, match="the relay was lost") as lost:
            await editor.answer(asked)
        await editor.until(lambda m: m["params"]["update"]["content"]["text"] == "d")
        assert editor.text() == "abcd"
        assert lost.value.error["data"]["reason"] == "relay_unreachable"
        assert await editor.call("session/list") == {"sessions": []}


async def test_a_prompt_outlives_the_connection_it_was_sent_on(relay):
    async with attached(relay) as editor:
        await editor.hello()
        await editor.call("session/load", sessionId="s", cwd="/", mcpServers=[])
        relay.silent.add("session/prompt")
        prompt = editor.prompt("s", "go")
        await relay.until_called("session/prompt")
        relay.silent.clear()
        relay.sockets[-1].transport.abort()
        await editor.answer(prompt)
    prompts = [call for call in relay.calls if call.get("method") == "session/prompt"]
    assert len(prompts) == 2
    assert prompts[0] == prompts[1]


async def test_a_relay_that_is_not_there_yet_is_waited_for(relay):
    relay.refuse = 503
    async with attached(relay) as editor:
        hello = editor.ask("initialize", protocolVersion=1, clientCapabilities={})
        await relay.refused.wait()
        relay.refuse = None
        assert (await editor.answer(hello))["protocolVersion"] == 1
    assert "HTTP 503" in editor.stderr[0]


@pytest.mark.parametrize(("status", "says"), [(401, "does not take the token"), (403, "not allow")])
async def test_refused_credentials_end_it_with_three(relay, status, says):
    relay.refuse = status
    async with attached(relay) as editor:
        assert await editor.process.wait() == 3
    assert says in editor.stderr[-1]


@pytest.mark.parametrize(
    ("close", "code", "says"),
    [(4401, 3, "because"), (4403, 3, "because"), (4426, 1, "update chimera-bridge")],
)
async def test_a_final_close_ends_it(relay, close, code, says):
    async with attached(relay) as editor:
        await editor.hello()
        await relay.sockets[-1].close(close, "because")
        assert await editor.process.wait() == code
    assert says in editor.stderr[-1]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ws://relay.example", "in the clear"),
        ("ftp://relay.example", "invalid relay address"),
        ("wss://relay.example/acp?token=x", "no credentials"),
    ],
)
async def test_addresses_that_cannot_be_used_are_wrong_use(url, says):
    async with FakeEditor([*ATTACH, url]) as editor:
        assert await editor.process.wait() == 2
    assert says in editor.stderr[-1]


async def test_a_message_too_big_costs_one_error_and_no_more(relay):
    async with attached(relay) as editor:
        await editor.hello()
        asked = editor.ask("_x/big", text="x" * (2 << 20))  # the websockets package takes 1 MiB
        with pytest.raises(CallFailed, match="the relay was lost"):
            await editor.answer(asked)
        assert await editor.call("session/list") == {"sessions": []}


async def test_signals_end_it_with_zero(relay):
    async with attached(relay) as editor:
        await editor.hello()
        editor.process.terminate()
        assert await editor.process.wait() == 0
