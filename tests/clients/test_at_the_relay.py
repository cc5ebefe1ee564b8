"""Clients of other makers at a relay: through ``attach``, and straight over its websocket."""

import asyncio
import json

import pytest
from acp import spawn_agent_process, text_block
from clients.acpx import DENIED, check_conversation, run_acpx
from clients.python_sdk import SdkEditor
from clients.typescript_sdk import SdkClient
from fakes.editor import CallFailed, FakeEditor
from fakes.site import BRIDGE, Site

WAIT_SECONDS = 40


class DemoSite(Site):
    """A relay with the demo agent attached; its person is an operator."""

    async def __aenter__(self):
        await super().__aenter__()
        await self.connect("demo", "demo")
        self.person = await self.token()
        return self

    @property
    def attach(self):
        """The command that an editor starts."""
        return [*BRIDGE, "attach", self.acp]

    async def restart_relay(self):
        """End the relay and start another in its place."""
        await self.relay.end()
        await self.start_relay()


@pytest.fixture(scope="module")
async def site(tmp_path_factory):
    async with DemoSite(tmp_path_factory.mktemp("site")) as site:
        yield site


def policies(*options):
    allow, reject = options
    return pytest.mark.parametrize(
        ("choice", "written"), [(allow, True), (reject, False)], ids=["allow", "reject"]
    )


# acpx and the Python SDK, through attach.


@policies("--approve-all", "--deny-all")
async def test_acpx_runs_a_turn_through_attach(site, node_modules, choice, written):
    made = site.work / f"acpx{choice}"
    env = {**site.env, "CHIMERA_BRIDGE_TOKEN": site.person}
    code, messages = await run_acpx(
        node_modules, site.attach, choice, "exec", f"run touch {made}", cwd=site.work, env=env
    )
    check_conversation(messages)
    assert code == (0 if written else DENIED)
    assert made.exists() is written


@policies("once", "no")
async def test_the_python_sdk_prompts_through_attach(site, choice, written):
    made, client = site.work / f"python-{choice}", SdkEditor(choice)
    env = {**site.env, "CHIMERA_BRIDGE_TOKEN": site.person}
    async with spawn_agent_process(client, *site.attach, env=env) as (agent, _):
        await agent.initialize(protocol_version=1)
        session = await agent.new_session(cwd=str(site.work), mcp_servers=[])
        text = [text_block(f"run touch {made}")]
        ended = await agent.prompt(session_id=session.session_id, prompt=text)
        listed = await agent.list_sessions()
    assert ended.stop_reason == "end_turn"
    assert made.exists() is written
    assert session.session_id in [one.session_id for one in listed.sessions]


async def test_the_python_sdk_loads_a_live_session_and_loses_the_race(site, connected):
    made, client = site.work / "python-raced", SdkEditor(None)
    env = {**site.env, "CHIMERA_BRIDGE_TOKEN": site.person}
    async with (
        connected() as first,
        spawn_agent_process(client, *site.attach, env=env) as (agent, _),
    ):
        session = await opened(first, site)
        turn = prompt(first, session, f"run touch {made}")
        asked = await first.question()
        await agent.initialize(protocol_version=1)
        await agent.load_session(session_id=session, cwd=str(site.work), mcp_servers=[])
        await asyncio.wait_for(client.asked.wait(), WAIT_SECONDS)  # also asked of who came later
        first.choose(asked, "once")
        assert (await first.answer(turn))["stopReason"] == "end_turn"
        await asyncio.wait_for(client.resolved.wait(), WAIT_SECONDS)
    assert made.exists()


async def test_a_prompt_too_big_for_the_relay_is_one_error_and_the_next_one_runs(site):
    env = {**site.env, "CHIMERA_BRIDGE_TOKEN": site.person}
    async with FakeEditor(site.attach, env=env) as editor:
        await editor.hello()
        session = await editor.new(site.work)
        with pytest.raises(CallFailed, match="the relay was lost"):
            await editor.answer(editor.prompt(session, "x" * (9 << 20)))
        ended = await editor.answer(editor.prompt(session, "plan"))
    assert ended["stopReason"] == "end_turn"


async def test_what_attach_shows_is_valid_and_survives_a_relay_restart(site):
    env = {**site.env, "CHIMERA_BRIDGE_TOKEN": site.person}
    async with FakeEditor(site.attach, env=env) as editor:
        await editor.hello()
        session = await editor.new(site.work)
        turn = editor.prompt(session, "run echo through-a-restart")
        first = await editor.question()
        await site.restart_relay()
        second = await editor.question(after=editor.got.index(first) + 1)
        editor.choose(first, "no")  # withdrawn when the connection was lost: counts for nothing
        editor.choose(second, "once")
        ended = await editor.answer(turn)
        shown = [json.dumps(m["params"]) for m in editor.got if m["method"] == "session/update"]
        whole = editor.text()
        seen = len(editor.got)
        await editor.call("session/load", sessionId=session, cwd=str(site.work), mcpServers=[])
        editor.got = editor.got[seen:]
    assert ended["stopReason"] == "end_turn"
    assert len(shown) == len(set(shown))
    assert whole == editor.text()


# The TypeScript SDK, straight over the websocket.


@pytest.fixture
def connected(site, node_modules):
    url = site.acp
    return lambda: SdkClient("ws", url, site.person)


async def opened(client, site):
    await client.call("initialize", protocolVersion=1, clientCapabilities={})
    return (await client.call("session/new", cwd=str(site.work), mcpServers=[]))["sessionId"]


def prompt(client, session, text):
    blocks = [{"type": "text", "text": text}]
    return client.ask("session/prompt", sessionId=session, prompt=blocks)


@policies("once", "no")
async def test_the_typescript_sdk_prompts_over_the_websocket(site, connected, choice, written):
    made = site.work / f"typescript-{choice}"
    async with connected() as client:
        session = await opened(client, site)
        turn = prompt(client, session, f"run touch {made}")
        client.choose(await client.question(), choice)
        assert (await client.answer(turn))["stopReason"] == "end_turn"
    assert made.exists() is written
    assert client.text()


async def test_the_typescript_sdk_loads_a_live_session_and_loses_the_race(site, connected):
    made = site.work / "raced"
    async with connected() as first, connected() as second:
        session = await opened(first, site)
        turn = prompt(first, session, f"run touch {made}")
        asked = await first.question()
        await second.call("initialize", protocolVersion=1, clientCapabilities={})
        listed = await second.call("session/list")
        await second.call("session/load", sessionId=session, cwd=str(site.work), mcpServers=[])
        late = await second.question()  # also asked of who came after it was asked
        first.choose(asked, "once")
        assert (await first.answer(turn))["stopReason"] == "end_turn"
        await second.until(lambda: second.withdrawn == [late["question"]])
        await second.until(lambda: second.text() == first.text())
    assert session in [one["sessionId"] for one in listed["sessions"]]
    assert made.exists()
